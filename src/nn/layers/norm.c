// Part of layer.h: group and layer normalisation, within each sample.
//
// Group and layer normalisation are one kind of layer: they differ in the values that share a mean (`groups`) and in
// the values that share a factor (`singly`, `each`, `across`). The statistics of every group and sample, a mean and a
// factor, are kept for the backward pass, which computes the normalised values again from the input instead of storing
// them.
#include "layer.h"
#include "nn/pass.h"

static Status read_group_norm(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->groups, of, "GROUPS", 1, MAX_CHANNELS, err));
    if (layer->in.channels % layer->groups == 0) return layer_text_epsilon(layer, of, err);
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%d groups do not divide the %d channels; give a number that does",
                LAYER_ARGS(of), layer->groups, layer->in.channels);
}

// With `each` every row of values is a group, with `channels` those of every place. A row of one value would be
// normalised to zero, which is surely a mistake.
static Status read_layer_norm(Layer *layer, LayerText *of, Error *err) {
    const Shape in = layer->in;
    layer->each = layer_text_key(of, "each");
    layer->across = layer_text_key(of, "channels");
    layer->singly = !layer->each && !layer->across;
    layer->groups = layer->each ? in.channels * in.rows : layer->across ? in.rows * in.columns : 1;
    if (layer->singly || (layer->each ? in.columns : in.channels) > 1) return layer_text_epsilon(layer, of, err);
    return fail(err, STATUS_USAGE, LAYER_FORMAT "of %d x %d x %d values each would become its shift; leave out \"%s\"",
                LAYER_ARGS(of), in.channels, in.rows, in.columns, layer->each ? "each" : "channels");
}

// PyTorch's shapes: a GroupNorm has one factor per channel, a LayerNorm has the shape of what it normalises.
static int norm_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    const Shape in = layer->in;
    const int rank = layer->singly && in.rows * in.columns > 1 ? 3 : 1;
    const int64_t first = layer->each ? in.columns : in.channels;
    tensors[0] = (LayerTensor){.name = "weight", .rank = rank, .shape = {first, in.rows, in.columns}, .start = 1};
    tensors[1] = (LayerTensor){.name = "bias", .rank = rank, .shape = {first, in.rows, in.columns}};
    return 2;
}

// A mean and a factor for each group and sample.
static LayerRoom norm_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels;
    return (LayerRoom){.statistics = 2 * (size_t)layer->groups * (size_t)samples};
}

static void norm_forward(const LayerCall *call) {
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    call->kernels->norm_forward(at->out, at->statistics, at->in, call->weight, call->bias, layer, call->samples);
}

// Weight and bias have neighbouring gradients, as they are neighbours among the parameters.
static void norm_backward(const LayerCall *call) {
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    call->kernels->norm_backward(at->gradient, at->gradient + norm_weights(layer), at->in_gradient, at->statistics,
                                 at->in, at->out_gradient, call->weight, layer, call->samples);
}

const LayerType norm_layer = {
    .name = "norm",
    .words =
        {{.form = {"groupnorm", "groupnorm GROUPS [eps E]",
                   "each sample's values of a group of channels get mean 0 and variance 1, then a "
                   "factor and a shift of their channel; E is added to the variance, 1e-5 if not given"},
          .also = {"group_norm"},
          .read = read_group_norm},
         {.form = {"layernorm", "layernorm [each | channels] [eps E]",
                   "the same for all values together, with a factor and a shift for each; with each, of every row by "
                   "itself, with the same factors and shifts; with channels, of the channels of every place"},
          .also = {"layer_norm"},
          .read = read_layer_norm}},
    .module = "norm",
    .traits = SUM_OVERWRITES | IN_PARTS | RECTIFIES | NORMALISES,
    .tensors = norm_tensors,
    .room = norm_room,
    .forward = norm_forward,
    .backward = norm_backward};
