// Part of layer.h: the mean of a sequence's steps, its first or last step, and a part of the channels.
//
// The input counts as one channel of `groups` rows: steps, or parts of the channels, which follow each other in memory.
// The output is an average of them all, or of a window of one row, before which a negative padding leaves the others
// out. So the ops of average pooling serve.
#include "pick.h"
#include "nn/pass.h"
#include "windows.h"

Layer pick_as_average(const Layer *layer) {
    Layer average = {.kind = LAYER_AVERAGE, .window = layer->window};
    const int columns = (int)shape_size(layer->in) / layer->groups;
    average.in = (Shape){1, layer->groups, columns};
    average.out = (Shape){1, 1, columns};
    return average;
}

// Takes row number `row` of the layer's groups, from 0 on.
static void take_row(Layer *layer, int row) {
    layer->window = (Window){.size = {1, 1}, .stride = {1, 1}, .pad = {-row, 0}};
}

static Status read_step(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_check_sequence(layer, of, err));
    layer->groups = layer->in.rows;
    layer->out = (Shape){layer->in.columns, 1, 1};
    return STATUS_OK;
}

static Status read_mean(Layer *layer, LayerText *of, Error *err) {
    TRY(read_step(layer, of, err));
    layer->window = (Window){.size = {layer->groups, 1}, .stride = {1, 1}};
    return STATUS_OK;
}

static Status read_first(Layer *layer, LayerText *of, Error *err) {
    TRY(read_step(layer, of, err));
    take_row(layer, 0);
    return STATUS_OK;
}

static Status read_last(Layer *layer, LayerText *of, Error *err) {
    TRY(read_step(layer, of, err));
    take_row(layer, layer->groups - 1);
    return STATUS_OK;
}

// PyTorch's chunk, of parts that have equal numbers of channels.
static Status read_chunk(Layer *layer, LayerText *of, Error *err) {
    int number;
    TRY(layer_text_whole(&number, of, "NUMBER", 1, MAX_CHANNELS, err));
    TRY(layer_text_whole(&layer->groups, of, "COUNT", number, MAX_CHANNELS, err));
    if (layer->in.channels % layer->groups != 0)
        return fail(err, STATUS_USAGE, LAYER_FORMAT "%d parts do not divide the %d channels; give a number that does",
                    LAYER_ARGS(of), layer->groups, layer->in.channels);
    layer->out.channels /= layer->groups;
    take_row(layer, number - 1);
    return STATUS_OK;
}

static void pick_forward(const LayerCall *call) {
    const Layer average = pick_as_average(call->layer);
    call->kernels->average_forward(call->at->out, call->at->in, &average, call->samples);
}

static void pick_backward(const LayerCall *call) {
    const Layer average = pick_as_average(call->layer);
    call->kernels->average_backward(call->at->in_gradient, call->at->out_gradient, &average, call->samples);
}

const LayerType pick_layer = {
    .name = "pick",
    .words = {{.form = {"mean", "mean", "the mean of a sequence's steps"}, .read = read_mean},
              {.form = {"first", "first", "the first of a sequence's steps"}, .read = read_first},
              {.form = {"last", "last", "the last of a sequence's steps"}, .read = read_last},
              {.form = {"chunk", "chunk NUMBER COUNT", "part NUMBER, from 1 on, of COUNT equal parts of the channels"},
               .also = {"split", "slice"},
               .read = read_chunk}},
    .traits = IN_PARTS,
    .forward = pick_forward,
    .backward = pick_backward};
