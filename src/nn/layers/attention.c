// Part of layer.h: softmax attention of a sequence to itself.
//
// `statistics` holds everything that the forward pass keeps: projections, shares and contexts. The shares grow with the
// square of the steps, so the reader bounds them, too, and `load` counts all of it when the samples of a chunk are
// chosen. The op for few samples does not exist: vectors are samples here.
#include <math.h>

#include "layer.h"
#include "nn/kernels/sequence.h"
#include "nn/pass.h"

// The width of a step is divided among the heads, so they must divide it. The bounds keep every product of sizes in an
// int, and are checked here because the shares are no tensor of the net.
static Status read_attention(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->groups, of, "HEADS", 1, MAX_CHANNELS, err));
    layer->causal = layer_text_key(of, "causal");
    TRY(layer_check_sequence(layer, of, err));
    const double shares = (double)layer->groups * layer->in.rows * layer->in.rows;
    if (layer->in.columns % layer->groups != 0)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "%d heads do not divide the %d values of a step; give a number that does",
                    LAYER_ARGS(of), layer->groups, layer->in.columns);
    if (shares > LAYER_MOST_VALUES || 3.0 * (double)shape_size(layer->in) > LAYER_MOST_VALUES)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "%d heads over %d steps of %d values would keep more than %d values; use shorter "
                                 "sequences, fewer heads or fewer values",
                    LAYER_ARGS(of), layer->groups, layer->in.rows, layer->in.columns, LAYER_MOST_VALUES);
    return STATUS_OK;
}

// in_proj_weight is drawn as Glorot and Bengio (2010) propose, from inputs and outputs, and biases start as zeros: as
// in PyTorch's MultiheadAttention.
static int attention_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    const int64_t width = layer->in.columns;
    tensors[0] = (LayerTensor){
        .name = "in_proj_weight", .rank = 2, .shape = {3 * width, width}, .fan_in = width, .stretch = sqrt(6.0 / 4.0)};
    tensors[1] = (LayerTensor){.name = "in_proj_bias", .rank = 1, .shape = {3 * width}};
    tensors[2] = (LayerTensor){.name = "out_proj.weight", .rank = 2, .shape = {width, width}, .fan_in = width};
    tensors[3] = (LayerTensor){.name = "out_proj.bias", .rank = 1, .shape = {width}};
    return 4;
}

// Four projections per step, and one product each for scores and contexts over all steps.
static double attention_products(const Layer *layer) {
    return (double)shape_size(layer->out) * (4.0 * layer->in.columns + 2.0 * layer->in.rows);
}

// An attention's kept tensors are far larger than its values, and each chunk moves them through the cache.
static LayerLoad attention_load(const Layer *layer) {
    return (LayerLoad){.weights = layer_parameters(layer), .floats = attention_places(layer, 1).end};
}

static LayerRoom attention_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels;
    return (LayerRoom){.statistics = attention_places(layer, samples).end,
                       .scratch = attention_scratch_floats(layer, samples)};
}

static void attention_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->attention_forward(at->out, at->statistics, at->in, call->weight, call->layer, call->count,
                                     call->samples);
}

static void attention_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->attention_backward(at->gradient, at->in_gradient, at->statistics, call->scratch, at->out_gradient,
                                      call->weight, call->layer, call->count, call->samples);
}

const LayerType attention_layer = {
    .name = "attention",
    .words =
        {{.form =
              {"attention", "attention HEADS [causal]",
               "softmax attention of each of a sequence's steps to all, or only to itself and those before; its width "
               "in HEADS parts, no dropout; where a step stands it knows by positions before it alone"},
          .also = {"self_attention", "multiheadattention"},
          .read = read_attention}},
    .module = "attention",
    .traits = OF_SEQUENCES,
    .tensors = attention_tensors,
    .products = attention_products,
    .load = attention_load,
    .room = attention_room,
    .forward = attention_forward,
    .backward = attention_backward};
