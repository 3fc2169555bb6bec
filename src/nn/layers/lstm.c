// Part of layer.h: long short-term memory and gated recurrent units over a sequence, which differ in their ops and in
// the number of their gates.
//
// Weights, biases and their names are those of PyTorch's LSTM and GRU with one layer. They have two biases, which an
// lstm adds: one of them would do, but checkpoints have both. All are drawn uniformly within 1 / sqrt(UNITS), as
// PyTorch does, whatever their own number of inputs; hence fan_in is UNITS for all of them.
#include "layer.h"
#include "nn/kernels/sequence.h"
#include "nn/pass.h"

// The gates are counted here and nowhere else: shapes, products and memory follow from their number.
static Status read_lstm(Layer *layer, LayerText *of, Error *err) {
    int units;
    TRY(layer_text_whole(&units, of, "UNITS", 1, MAX_CHANNELS, err));
    layer->groups = layer->kind == LAYER_GRU ? 3 : 4;
    layer->last = layer_text_key(of, "last");
    layer->out = layer->last ? (Shape){units, 1, 1} : (Shape){1, layer->in.rows, units};
    return layer_check_sequence(layer, of, err);
}

// PyTorch stacks the gates' rows in each tensor, in an order that is a part of the file format: the ops keep it.
static int lstm_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    const int64_t units = lstm_units(layer), gates = lstm_gates(layer) * units;
    tensors[0] = (LayerTensor){.name = "weight_ih_l0", .rank = 2, .shape = {gates, layer->in.columns}, .fan_in = units};
    tensors[1] = (LayerTensor){.name = "weight_hh_l0", .rank = 2, .shape = {gates, units}, .fan_in = units};
    tensors[2] = (LayerTensor){.name = "bias_ih_l0", .rank = 1, .shape = {gates}, .fan_in = units};
    tensors[3] = (LayerTensor){.name = "bias_hh_l0", .rank = 1, .shape = {gates}, .fan_in = units};
    return 4;
}

// Each gate has a product of the input and one of the previous outputs.
static double lstm_products(const Layer *layer) {
    const double gates = (double)lstm_gates(layer) * lstm_units(layer);
    return gates * lstm_steps(layer) * (layer->in.columns + lstm_units(layer));
}

// The kept tensors, several times as large as the values, pass through the cache with every chunk.
static LayerLoad lstm_load(const Layer *layer) {
    return (LayerLoad){.weights = layer_parameters(layer), .floats = lstm_places(layer, 1).end};
}

static LayerRoom lstm_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels;
    return (LayerRoom){.statistics = lstm_places(layer, samples).end, .scratch = lstm_scratch_floats(layer, samples)};
}

static void lstm_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->recurrent_forward(at->out, at->statistics, call->scratch, at->in, call->weight, call->layer,
                                     call->samples);
}

static void lstm_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->recurrent_backward(at->gradient, at->in_gradient, at->statistics, call->scratch, at->out_gradient,
                                      call->weight, call->layer, call->samples);
}

// The two differ in their words and in the number of their gates, Layer.groups.
#define RECURRENT                                                                                                      \
    .traits = OF_SEQUENCES, .tensors = lstm_tensors, .products = lstm_products, .load = lstm_load, .room = lstm_room,  \
    .forward = lstm_forward, .backward = lstm_backward

const LayerType lstm_layer = {
    .name = "lstm",
    .words = {{.form = {"lstm", "lstm UNITS [last]",
                        "long short-term memory over rows: the outputs of all steps, or of the last"},
               .read = read_lstm}},
    .module = "lstm",
    RECURRENT};

const LayerType gru_layer = {
    .name = "gru",
    .words = {{.form = {"gru", "gru UNITS [last]", "gated recurrent units over rows, in place of an lstm"},
               .read = read_lstm}},
    .module = "gru",
    RECURRENT};
