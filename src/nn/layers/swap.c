// Part of layer.h: two neighbouring axes of a sample change places: steps and values, or groups and their channels.
//
// Everything after the two axes, a plane of values, moves as one. The gradient moves back.
#include <string.h>

#include "nn/pass.h"
#include "swap.h"

// The places of images become the steps of a sequence, as transformers take them.
static Status read_transpose(Layer *layer, LayerText *of, Error *err) {
    (void)of, (void)err;
    const Shape in = layer->in;
    layer->groups = in.channels == 1 ? in.rows : in.channels;
    layer->out = (Shape){1, (int)shape_size(in) / layer->groups, layer->groups};
    return STATUS_OK;
}

// Channel shuffle of ShuffleNet (Zhang et al., CVPR 2018).
static Status read_shuffle(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->groups, of, "GROUPS", 1, MAX_CHANNELS, err));
    if (layer->in.channels % layer->groups == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%d groups do not divide the %d channels; give a number that does",
                LAYER_ARGS(of), layer->groups, layer->in.channels);
}

// A transpose gives one channel, whatever it takes; a shuffle of one channel changes nothing.
SwapSizes swap_sizes(const Layer *layer) {
    const size_t first = (size_t)layer->groups, whole = shape_size(layer->in);
    const size_t plane = layer->out.channels == 1 ? 1 : (size_t)layer->in.rows * (size_t)layer->in.columns;
    return (SwapSizes){first, whole / first / plane, plane};
}

// to (second, first, plane,N) = from (first, second, plane,N).
static void swap(float *to, const float *from, size_t first, size_t second, size_t plane, int samples) {
    const size_t block = plane * (size_t)samples;
    for (size_t b = 0; b < second; b++)
        for (size_t a = 0; a < first; a++, to += block)
            memcpy(to, from + (a * second + b) * block, block * sizeof *to);
}

static void swap_forward(const LayerCall *call) {
    const SwapSizes of = swap_sizes(call->layer);
    swap(call->at->out, call->at->in, of.first, of.second, of.plane, call->samples);
}

static void swap_backward(const LayerCall *call) {
    const SwapSizes of = swap_sizes(call->layer);
    swap(call->at->in_gradient, call->at->out_gradient, of.second, of.first, of.plane, call->samples);
}

const LayerType swap_layer = {
    .name = "swap",
    .words = {{.form = {"transpose", "transpose",
                        "rows and columns of a sequence change places; of images, the channels become the columns"},
               .also = {"permute"},
               .read = read_transpose},
              {.form = {"shuffle", "shuffle GROUPS",
                        "the channels of GROUPS groups in turn: all first ones, all second ones ..."},
               .also = {"channel_shuffle"},
               .read = read_shuffle}},
    .traits = IN_PARTS,
    .forward = swap_forward,
    .backward = swap_backward};
