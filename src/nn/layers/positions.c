// Part of layer.h: a learnt vector for each step of a sequence is added to it.
//
// Attention is blind to the order of its steps: with this layer before it, each step's values depend on their place.
// The gradient of the sequence is the output's gradient unchanged (PASSES_GRADIENT).
#include "layer.h"
#include "nn/pass.h"

// Small initial values, as transformers have them, so that they do not drown the values that they are added to.
static int positions_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    tensors[0] = (LayerTensor){.name = "weight",
                               .rank = 2,
                               .shape = {layer->in.rows, layer->in.columns},
                               .fan_in = 1,
                               .stretch = 0.02,
                               .normal = true};
    return 1;
}

static void positions_forward(const LayerCall *call) {
    call->kernels->positions_forward(call->at->out, call->at->in, call->weight, call->layer, call->samples);
}

// Every sample adds its output's gradient to the vector of each step.
static void positions_backward(const LayerCall *call) {
    call->kernels->positions_backward(call->at->gradient, call->at->out_gradient, call->layer, call->samples);
}

const LayerType positions_layer = {
    .name = "positions",
    .words = {{.form = {"positions", "positions",
                        "a learnt vector for each of a sequence's steps is added; attention knows no order without"},
               .also = {"positional_embedding", "position_embedding"},
               .read = layer_check_sequence}},
    .module = "positions",
    .traits = OF_SEQUENCES | PASSES_GRADIENT,
    .tensors = positions_tensors,
    .forward = positions_forward,
    .backward = positions_backward};
