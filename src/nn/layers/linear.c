// Part of layer.h: fully connected layers, of all values of a sample or of the last axis at each place.
//
// A fully connected layer differs from the others in three ways, since its weight is by far larger than its values:
//   - The ops take samples as rows, so that vectors run along the inputs and a small batch wastes no lanes. The forward
//     pass writes these rows and the backward pass reads them.
//   - No gradient of the weight is stored in the arena: the backward pass adds it to the caller's gradient, or makes
//     the step of SGD, while a tile is in registers. So the layer handles frozen tensors and the velocity itself.
//   - Wide layers multiply through OpenBLAS if the chunk is large (linear_blas.h).
// With `each` the weight is small and shared by many places, so these layers are like all others.
#include <assert.h>

#include "nn/linear_blas.h"

#include "layer.h"
#include "nn/kernels/sequence.h"
#include "nn/pass.h"

// `each` changes the kind of the layer, as its ops are others.
static Status read_linear(Layer *layer, LayerText *of, Error *err) {
    int features;
    TRY(layer_text_whole(&features, of, "FEATURES", 1, MAX_CHANNELS, err));
    if (layer_text_key(of, "each")) {
        layer->kind = LAYER_LINEAR_EACH;
        layer->out.columns = features;
    } else {
        layer->out = (Shape){features, 1, 1};
    }
    layer->nobias = layer_text_key(of, "nobias");
    return STATUS_OK;
}

// Both kinds have the same parameters; with `each` these are of one place.
static int linear_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    const int64_t outs = (int64_t)linear_outs(layer), ins = (int64_t)linear_ins(layer);
    assert(outs > 0 && ins > 0);
    tensors[0] = (LayerTensor){.name = "weight", .rank = 2, .shape = {outs, ins}, .fan_in = ins};
    tensors[1] = (LayerTensor){.name = "bias", .rank = 1, .shape = {outs}, .fan_in = ins};
    return layer->nobias ? 1 : 2;
}

static double linear_products(const Layer *layer) {
    return (double)shape_size(layer->out) * (double)linear_ins(layer);
}

static LayerLoad linear_load(const Layer *layer) {
    return (LayerLoad){.weights = linear_ins(layer) * linear_outs(layer)};
}

// Only the backward pass to earlier layers needs scratch, hence input_scratch.
static LayerRoom linear_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels;
    return (LayerRoom){.rows = linear_row_floats(layer) * (size_t)samples,
                       .input_scratch = linear_scratch_floats(layer, samples)};
}

// The number of samples alone chooses between OpenBLAS and the layer's own op, so that the bits are reproducible.
static void linear_forward(const LayerCall *call) {
    const Net *net = call->net;
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    const int count = call->count, samples = call->samples;
    const float *bias = layer->nobias ? NULL : call->bias;
    if (net->blas && linear_blas_pays(layer, count))
        linear_blas_forward(at->out, net->blas, at->in, at->rows, call->weight, bias, layer, count, samples);
    else
        call->kernels->linear_forward(at->out, at->rows, at->in, call->weight, bias, layer, count, samples);
}

// Whether the layer is the head's first one, after a body.
static bool heads_a_body(const LayerCall *call) {
    const int head = call->net->buffers->chunk.head;
    return head > 0 && call->layer == &call->net->spec.layers[head];
}

// The tensor that the op writes its input's gradient to; NULL: the gradient stays in scratch, for hand_back.
static float *columns_of(const LayerCall *call) {
    return heads_a_body(call) ? NULL : call->at->in_gradient;
}

// Copies each part's share of the input's gradient from scratch, where it has one row per sample, to the body's
// tensors.
static void hand_back(const LayerCall *call) {
    const Net *net = call->net;
    const ChunkPlan *plan = &net->buffers->chunk;
    const size_t rows = (size_t)plan->part * linear_row_floats(call->layer);
    assert(plan->head > 0 && plan->part > 0);
    for (int number = 0; number < buffers_parts(plan, call->count); number++) {
        const Chunk part = net_part(net, call->chunk, number);
        LayerBuffers moved;
        const LayerBuffers *at = buffers_part(&moved, net->buffers, plan->head, number);
        call->kernels->linear_columns(at->in_gradient, call->scratch + (size_t)number * rows, call->layer, part.count,
                                      part.samples);
    }
}

// The input's gradient by itself, if it does not share a pass with the step.
static void backward_input(const LayerCall *call) {
    const Net *net = call->net;
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    const int count = call->count, samples = call->samples;
    if (net->blas && linear_blas_pays_backward(layer, count))
        linear_blas_backward_input(at->in_gradient, net->blas, at->out_gradient, call->weight, layer, count, samples);
    else
        call->kernels->linear_backward_input(columns_of(call), call->scratch, at->out_gradient, call->weight, layer,
                                             count, samples);
}

// The gradient of the weight, or its step if `weight` is not NULL. A frozen weight is only copied, or its gradient
// cleared.
static void backward_weight(const LayerCall *call, const SgdUpdate *descent, float *weight) {
    const Net *net = call->net;
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    float *gradient = call->pass->gradient + layer->weight;
    assert(layer->bias > layer->weight);
    const int count = call->count, samples = call->samples;
    if (spec_freezes_at(&net->spec, layer->weight))
        pass_leave(call->pass, layer->weight, layer->bias - layer->weight);
    else if (net->blas && linear_blas_pays(layer, count))
        linear_blas_backward_weight(gradient, weight, net->blas, at->in, at->rows, at->out_gradient, descent, layer,
                                    count, samples);
    else
        call->kernels->linear_backward_weight(gradient, weight, at->rows, at->out_gradient, descent, layer, count,
                                              samples);
}

// Whether one pass over the weight can compute the input's gradient and make the step: it then reads a large weight
// from memory once instead of twice.
static bool steps_on_the_way(const LayerCall *call, const float *weight) {
    const Net *net = call->net;
    const Layer *layer = call->layer;
    const int count = call->count;
    const bool through_blas = net->blas && (linear_blas_pays(layer, count) || linear_blas_pays_backward(layer, count));
    return weight && call->at->in_gradient && !through_blas && !spec_freezes_at(&net->spec, layer->weight);
}

// The numbers of a step of SGD for this chunk. The first chunk multiplies the velocity by the momentum, the others add
// to it; a velocity that rests is taken as zero instead. Only the batch's last chunk makes the step (`step`).
static SgdUpdate sgd_update_of(const LayerCall *call, bool step) {
    const Net *net = call->net;
    const Pass *pass = call->pass;
    const bool begins = call->chunk.first == 0;
    assert(!step || pass->stepping);
    SgdUpdate descent = {.keep = !begins      ? 1
                                 : net->rests ? 0
                                              : pass->sgd.momentum,
                         .begins = net->rests && pass->sgd.momentum != 0 && begins,
                         .lr = pass->sgd.lr,
                         .weight_decay = pass->sgd.weight_decay,
                         .upwards = net->steps % 2 != 0};
    if (step && pass->stepping != pass->parameters) descent.before = pass->parameters + call->layer->weight;
    if (step && pass->shift) descent.shift = pass->shift + call->layer->weight;
    return descent;
}

// The bias is a tensor of its own: it can be frozen while the weight learns, and its part of the velocity, shift and
// parameters has its own place.
static void backward_bias(const LayerCall *call, SgdUpdate *descent, bool step) {
    const Pass *pass = call->pass;
    const Layer *layer = call->layer;
    const size_t first = layer->bias, count = (size_t)layer->out.channels;
    if (descent->before) pass_bring_along(pass, first, count);
    if (descent->shift) descent->shift = pass->shift + first;
    if (spec_freezes_at(&call->net->spec, first))
        pass_leave(pass, first, count);
    else
        call->kernels->linear_backward_bias(pass->gradient + first, step ? pass->stepping + first : NULL,
                                            call->at->out_gradient, descent, layer, call->samples);
}

// The order matters: the input's gradient must be computed with the weights before the step. If the step is the
// chunk's, linear_backward_step computes both in one pass over the weight; otherwise the input's gradient is first.
static void linear_backward(const LayerCall *call) {
    const Net *net = call->net;
    const Pass *pass = call->pass;
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    const bool still = pass_leaves_layer(net, layer, pass);
    const bool step = !still && pass->stepping && pass_is_last(pass, call->chunk);
    float *weight = step ? pass->stepping + layer->weight : NULL;
    const bool joined = steps_on_the_way(call, weight);
    if (at->in_gradient && !joined) backward_input(call);
    if (!still) {
        SgdUpdate descent = sgd_update_of(call, step);
        if (joined)
            call->kernels->linear_backward_step(columns_of(call), call->scratch, pass->gradient + layer->weight, weight,
                                                at->rows, at->out_gradient, &descent, layer, call->count,
                                                call->samples);
        else
            backward_weight(call, &descent, weight);
        if (!layer->nobias) backward_bias(call, &descent, step);
    }
    if (at->in_gradient && heads_a_body(call)) hand_back(call);
}

// All places read one weight, which therefore counts once per chunk.
static LayerLoad each_load(const Layer *layer) {
    return (LayerLoad){.weights = linear_ins(layer) * linear_outs(layer), .floats = shape_size(layer->in)};
}

// Rows are those of all places, as the backward pass reads them; scratch serves one place after the other.
static LayerRoom each_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels;
    const Layer one = linear_at_place(layer);
    return (LayerRoom){.rows = linear_places(layer) * linear_row_floats(&one) * (size_t)samples,
                       .scratch = linear_scratch_floats(&one, samples)};
}

static void each_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->linear_each_forward(at->out, at->rows, at->in, call->weight, call->layer, call->count,
                                       call->samples);
}

// The input's gradient is first, place by place, since the weight does not change before the batch ends.
static void each_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->linear_each_backward(at->gradient, at->in_gradient, call->scratch, at->rows, at->out_gradient,
                                        call->weight, call->layer, call->count, call->samples);
}

const LayerType linear_layer = {
    .name = "linear",
    .words =
        {{.form =
              {"linear", "linear FEATURES [each] [nobias]",
               "fully connected, with bias unless said; with each, of every row by itself, as of a sequence's steps"},
          .also = {"dense", "fc"},
          .read = read_linear}},
    .module = "fc",
    .traits = HEADS,
    .tensors = linear_tensors,
    .products = linear_products,
    .load = linear_load,
    .room = linear_room,
    .forward = linear_forward,
    .backward = linear_backward};

const LayerType linear_each_layer = {.name = "linear each",
                                     .module = "fc",
                                     .traits = OF_SEQUENCES,
                                     .tensors = linear_tensors,
                                     .products = linear_products,
                                     .load = each_load,
                                     .room = each_room,
                                     .forward = each_forward,
                                     .backward = each_backward};
