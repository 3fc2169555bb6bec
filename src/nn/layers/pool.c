// Part of layer.h: pooling: maxima and averages of windows, averages of whole channels.
//
// Max pooling of square windows side by side is plain and has an op of its own, which can write the gradient over the
// input: every place belongs to one window at most, so that no other window reads it any more. All other windows, which
// may overlap, take a general op that adds to zeros.
#include "nn/pass.h"
#include "windows.h"

// One more window if places are left over and it begins before the padding after the last of them: PyTorch's ceil_mode.
static int windows_with_rest(int windows, int length, int size, int stride, int pad) {
    const bool rest = (length + 2 * pad - size) % stride != 0 && windows * stride < length + pad;
    return windows + rest;
}

// A padding of at most half a window, as in PyTorch, so that every window meets the image.
static Status read_pool_window(Window *window, bool *ceil, Layer *layer, LayerText *of, Error *err) {
    *window = (Window){0};
    TRY(layer_text_sides(&window->size, of, "S", 1, MAX_KERNEL, err));
    window->stride = window->size;
    LayerKey keys[] = {{"stride", 1, MAX_KERNEL, .sides = &window->stride},
                       {"pad", 0, MAX_KERNEL, .sides = &window->pad},
                       {"ceil", .flag = ceil}};
    TRY(layer_read_keys(keys, 3, of, err));
    TRY(layer_slide(layer, window, (Sides){window->size.rows / 2, window->size.columns / 2}, of, "window", err));
    if (!*ceil) return STATUS_OK;
    const Shape in = layer->in, floor = layer->out;
    layer->out.rows = windows_with_rest(floor.rows, in.rows, window->size.rows, window->stride.rows, window->pad.rows);
    layer->out.columns =
        windows_with_rest(floor.columns, in.columns, window->size.columns, window->stride.columns, window->pad.columns);
    *ceil = layer->out.rows > floor.rows || layer->out.columns > floor.columns;
    return STATUS_OK;
}

// The test for a plain pooling is on the numbers, not on the words: `pool 2 stride 2` is plain, too.
static Status read_pool(Layer *layer, LayerText *of, Error *err) {
    Window window;
    bool reaches_out = false;
    TRY(read_pool_window(&window, &reaches_out, layer, of, err));
    const bool side_by_side = window.stride.rows == window.size.rows && window.stride.columns == window.size.columns;
    if (is_square(window.size) && side_by_side && window.pad.rows == 0 && window.pad.columns == 0 && !reaches_out)
        layer->kernel = window.size.rows;
    else
        layer->window = window;
    return STATUS_OK;
}

// There are few averages, so no form of them is plain.
static Status read_average(Layer *layer, LayerText *of, Error *err) {
    bool reaches_out = false;
    TRY(read_pool_window(&layer->window, &reaches_out, layer, of, err));
    if (!reaches_out) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT
                "with ceil the last window reaches beyond the %d x %d values, and an average of a part of a "
                "window is no layer here; give a stride that fits, or leave out \"ceil\"",
                LAYER_ARGS(of), layer->in.rows, layer->in.columns);
}

// One window over everything, whatever the image's size, or a grid of such windows.
static Status read_global(Layer *layer, LayerText *of, Error *err) {
    Sides grid = {1, 1};
    const Shape in = layer->in;
    if (layer_text_has_more(of)) TRY(layer_text_sides(&grid, of, "S", 1, MAX_KERNEL, err));
    const Sides each = {in.rows / grid.rows, in.columns / grid.columns};
    if (in.rows % grid.rows == 0 && in.columns % grid.columns == 0)
        layer->window = (Window){.size = each, .stride = each};
    else
        layer->window.size = grid; // even parts, which overlap
    layer->out = (Shape){in.channels, grid.rows, grid.columns};
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

const LayerType pool_layer = {
    .name = "pool",
    .words =
        {{.form = {"pool", "pool S [stride S] [pad S] [ceil]",
                   "max pooling; S is a side or ROWSxCOLUMNS, the stride the window's size if not given; ceil: a last "
                   "window for what is left over, too"},
          .also = {"maxpool", "max_pool", "maxpool2d"},
          .read = read_pool}},
    .traits = OVERWRITES_INPUT | IN_PARTS | RECTIFIED_ALONE,
    .forward = pool_forward,
    .backward = pool_backward};

const LayerType average_layer = {.name = "average",
                                 .words = {{.form = {"avgpool", "avgpool S [stride S] [pad S] [ceil]",
                                                     "averages instead, in which the zeros of the padding count"},
                                            .also = {"avgpool2d", "averagepool"},
                                            .read = read_average},
                                           {.form = {"globalpool", "globalpool [S]",
                                                     "the average of each channel, or of each part of a grid of S; "
                                                     "parts overlap if S does not divide the image"},
                                            .also = {"adaptiveavgpool2d"},
                                            .read = read_global}},
                                 .traits = IN_PARTS,
                                 .forward = average_forward,
                                 .backward = average_backward};
