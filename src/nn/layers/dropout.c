// Part of layer.h: dropout, of elements, of whole channels or of whole samples. Layer.groups is the number of features
// to keep or drop.
//
// The mask is a pure function of seed, round, client, layer, step and sample. So a client drops the same features on
// any worker, on the CPU and on a GPU, in a chunk of any size, and when a killed worker's turn is repeated. The forward
// pass keeps the mask, a byte per feature, for the backward pass.
#include "layer.h"
#include "nn/pass.h"

static Status read_rate(Layer *layer, LayerText *of, Error *err) {
    layer->groups = (int)shape_size(layer->in);
    return layer_text_number(&layer->rate, of, "RATE", 0, 1, err);
}

static Status read_rate_of_channels(Layer *layer, LayerText *of, Error *err) {
    TRY(read_rate(layer, of, err));
    layer->groups = layer->in.channels;
    return STATUS_OK;
}

// Stochastic depth (Huang et al., ECCV 2016): a sample's value as a whole, for what is added to a residual.
static Status read_rate_of_path(Layer *layer, LayerText *of, Error *err) {
    TRY(read_rate(layer, of, err));
    layer->groups = 1;
    return STATUS_OK;
}

// A byte per feature and sample, not a bit: the op widens bytes to masks of lanes with one instruction.
static LayerRoom dropout_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels;
    return (LayerRoom){.keep = dropout_features(layer) * (size_t)samples};
}

// Multiplies by the mask and 1 / (1 - rate): values on the forward pass, gradients on the backward pass.
static void apply(const LayerCall *call, float *values) {
    const size_t features = dropout_features(call->layer);
    call->kernels->dropout_apply(values, call->at->keep, call->layer->rate, features,
                                 shape_size(call->layer->in) / features, call->samples);
}

// The layer's number in the net is part of the key, so that two dropouts of one net draw different masks.
static void dropout_forward(const LayerCall *call) {
    const Layer *layer = call->layer;
    const Noise *noise = call->noise;
    layer_copy(call, call->at->out, call->at->in);
    if (!noise) return;
    const uint32_t number = (uint32_t)(layer - call->net->spec.layers);
    const DropoutNoise drawn = {.key = rng_key(noise->seed, RNG_DROPOUT, noise->round, noise->client, number),
                                .first_sample = noise->first_sample + call->chunk.first,
                                .step = noise->step,
                                .rate = layer->rate};
    call->kernels->dropout_draw(call->at->keep, &drawn, dropout_features(layer), call->samples);
    apply(call, call->at->out);
}

static void dropout_backward(const LayerCall *call) {
    layer_copy(call, call->at->in_gradient, call->at->out_gradient);
    if (call->noise) apply(call, call->at->in_gradient);
}

const LayerType dropout_layer = {
    .name = "dropout",
    .words = {{.form = {"dropout", "dropout RATE", "elements dropped in training"}, .read = read_rate},
              {.form = {"dropout2d", "dropout2d RATE", "whole channels dropped in training"},
               .read = read_rate_of_channels},
              {.form = {"droppath", "droppath RATE", "all values of a sample dropped in training: stochastic depth"},
               .also = {"stochasticdepth", "drop_path"},
               .read = read_rate_of_path}},
    .traits = IN_PLACE | IN_PARTS,
    .room = dropout_room,
    .forward = dropout_forward,
    .backward = dropout_backward};
