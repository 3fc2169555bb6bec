// Part of layer.h: pooling: maxima and averages of windows, averages of whole channels.
//
// Max pooling of square windows side by side is plain and has an op of its own, which can write the gradient over the
// input: every place belongs to one window at most, so that no other window reads it any more. All other windows, which
// may overlap, take a general op that adds to zeros.
#include "nn/pass.h"
#include "windows.h"

// A padding of at most half a window, as in PyTorch, so that every window meets the image.
static Status read_pool_window(Window *window, Layer *layer, LayerText *of, Error *err) {
    *window = (Window){0};
    TRY(layer_text_sides(&window->size, of, "S", 1, MAX_KERNEL, err));
    window->stride = window->size;
    LayerKey keys[] = {{"stride", &window->stride, NULL, 1, MAX_KERNEL, false},
                       {"pad", &window->pad, NULL, 0, MAX_KERNEL, false}};
    TRY(layer_read_keys(keys, 2, of, err));
    return layer_slide(layer, window, (Sides){window->size.rows / 2, window->size.columns / 2}, of, "window", err);
}

// The test for a plain pooling is on the numbers, not on the words: `pool 2 stride 2` is plain, too.
static Status read_pool(Layer *layer, LayerText *of, Error *err) {
    Window window;
    TRY(read_pool_window(&window, layer, of, err));
    const bool side_by_side = window.stride.rows == window.size.rows && window.stride.columns == window.size.columns;
    if (is_square(window.size) && side_by_side && window.pad.rows == 0 && window.pad.columns == 0)
        layer->kernel = window.size.rows;
    else
        layer->window = window;
    return STATUS_OK;
}

// There are few averages, so no form of them is plain.
static Status read_average(Layer *layer, LayerText *of, Error *err) {
    return read_pool_window(&layer->window, layer, of, err);
}

// One window over everything, whatever the image's size.
static Status read_global(Layer *layer, LayerText *of, Error *err) {
    (void)of, (void)err;
    const Sides all = {layer->in.rows, layer->in.columns};
    layer->window = (Window){.size = all, .stride = all};
    layer->out = (Shape){layer->in.channels, 1, 1};
    return STATUS_OK;
}

// The op chooses between plain and general windows by layer_is_plain.
static void pool_forward(const LayerCall *call) {
    call->kernels->pool_forward(call->at->out, call->at->in, call->layer, call->samples);
}

// The op reads the input again and searches each maximum again: keeping its place would take a tensor of indices.
static void pool_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->pool_backward(at->in_gradient, at->in, at->out_gradient, call->layer, call->samples);
}

static void average_forward(const LayerCall *call) {
    call->kernels->average_forward(call->at->out, call->at->in, call->layer, call->samples);
}

// An average's gradient does not depend on its input.
static void average_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->average_backward(at->in_gradient, at->out_gradient, call->layer, call->samples);
}

static const LayerWord maxima[] = {
    {.form = {"pool", "pool S [stride S] [pad S]",
              "max pooling; S is a side or ROWSxCOLUMNS, the stride the window's size if not given"},
     .also = {"maxpool", "max_pool", "maxpool2d"},
     .read = read_pool},
};

static const LayerWord averages[] = {
    {.form = {"avgpool", "avgpool S [stride S] [pad S]", "averages instead, in which the zeros of the padding count"},
     .also = {"avgpool2d", "averagepool"},
     .read = read_average},
    {.form = {"globalpool", "globalpool", "the average of each channel"},
     .also = {"adaptiveavgpool2d"},
     .read = read_global},
};

const LayerType pool_layer = {.name = "pool",
                              LAYER_WORDS(maxima),
                              .traits = OVERWRITES_INPUT | IN_PARTS | RECTIFIED_ALONE,
                              .forward = pool_forward,
                              .backward = pool_backward};

const LayerType average_layer = {.name = "average",
                                 LAYER_WORDS(averages),
                                 .traits = IN_PARTS,
                                 .forward = average_forward,
                                 .backward = average_backward};
