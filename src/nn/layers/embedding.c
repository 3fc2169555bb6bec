// Part of layer.h: a learnt row for each whole number of a sample.
//
// The numbers enter as floats, like all samples: a float counts exactly beyond MAX_CHANNELS. They must not be
// normalised, hence READS_NUMBERS, and they have no gradient, so an embedding can only be the first layer.
#include "layer.h"
#include "nn/pass.h"

// Samples of one channel, or of one value per channel, are rows of numbers; an image of several channels is not.
static Status read_embedding(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->vocabulary, of, "VOCABULARY", 1, MAX_CHANNELS, err));
    TRY(layer_text_whole(&layer->out.columns, of, "WIDTH", 1, MAX_CHANNELS, err));
    layer->out.channels = 1;
    layer->out.rows = (int)shape_size(layer->in);
    const bool is_row = layer->in.channels == 1 || layer->in.rows * layer->in.columns == 1;
    if (layer->source == SPEC_INPUT && is_row) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT "it reads the whole numbers of samples of one channel, or of one value a channel; make "
                             "it the first layer of such",
                LAYER_ARGS(of));
}

// Initial values are normal with deviation 1, as PyTorch's.
static int embedding_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    tensors[0] = (LayerTensor){
        .name = "weight", .rank = 2, .shape = {layer->vocabulary, layer->out.columns}, .fan_in = 1, .normal = true};
    return 1;
}

static void embedding_forward(const LayerCall *call) {
    call->kernels->embedding_forward(call->at->out, call->at->in, call->weight, call->layer, call->samples);
}

// Whole numbers have no gradient.
static void embedding_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->embedding_backward(at->gradient, at->in, at->out_gradient, call->layer, call->samples);
}

const LayerType embedding_layer = {
    .name = "embedding",
    .words = {{.form = {"embedding", "embedding VOCABULARY WIDTH",
                        "a learnt row of WIDTH values for each whole number of the input"},
               .also = {"embed"},
               .read = read_embedding}},
    .module = "embedding",
    .traits = OF_SEQUENCES | READS_NUMBERS,
    .tensors = embedding_tensors,
    .forward = embedding_forward,
    .backward = embedding_backward};
