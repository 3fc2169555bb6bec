// Part of layer.h: convolution over images and along lines.
//
// There are four ways to compute a convolution (ConvKernels), each of which wants the weight in a layout of its own.
// So the weight is packed once per batch, every chunk adds its gradient in that layout, and the sum is unpacked at the
// end of the batch. The way follows from the layer's shapes and the kernels.
#include <assert.h>
#include <string.h>

#include "nn/pass.h"
#include "windows.h"

// Least input channels of Winograd's way, whose transforms are shared by all channels, and of columns with one tap.
enum { WINOGRAD_LEAST_CHANNELS = 6, COLUMNS_LEAST_CHANNELS = 16 };

// Side of the tiles of outputs that Winograd's way computes whole.
enum { WINOGRAD_SIDE = 4 };

static int tiles_along(int places) {
    return (places + WINOGRAD_SIDE - 1) / WINOGRAD_SIDE;
}

// Multiplications per pair of channels, of Winograd's way and of the others but the dense one, which has as many as
// there are pairs of an output's and an input's place.
static int winograd_products(const Layer *layer) {
    const int points = layer->kernel + WINOGRAD_SIDE - 1;
    return points * points * tiles_along(layer->out.rows) * tiles_along(layer->out.columns);
}

static int tap_products(const Layer *layer) {
    const Sides size = layer->window.size;
    const int taps = layer_is_plain(layer) ? layer->kernel * layer->kernel : size.rows * size.columns;
    return taps * layer->out.rows * layer->out.columns;
}

// Whether the dense way multiplies less than the other one would.
static bool is_dense(const Layer *layer, int products) {
    const int64_t pairs = (int64_t)layer->out.rows * layer->out.columns * layer->in.rows * layer->in.columns;
    return pairs <= CONV_DENSE_MOST && pairs < products && (layer_is_plain(layer) || layer->groups == 1);
}

// The way to compute the convolution with these kernels. Those for few samples have no direct way: columns leave no
// lane empty there.
static const ConvKernels *way_of(const Layer *layer, const Kernels *kernels) {
    assert(layer->in.channels > 0 && layer->out.channels > 0);
    const int ins = layer->in.channels, side = layer->kernel;
    const bool by_points = layer_is_plain(layer) && (side == 3 || side == 5) && ins >= WINOGRAD_LEAST_CHANNELS;
    if (is_dense(layer, by_points ? winograd_products(layer) : tap_products(layer))) return &kernels->dense;
    if (by_points) return &kernels->winograd;
    if (!layer_is_plain(layer) || (side == 1 && ins >= COLUMNS_LEAST_CHANNELS)) return &kernels->columns;
    return kernels->conv.sizes ? &kernels->conv : &kernels->columns;
}

// Groups split both the input's and the output's channels evenly.
static Status check_groups(const Layer *layer, const LayerText *of, Error *err) {
    if (layer->in.channels % layer->groups == 0 && layer->out.channels % layer->groups == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT
                "%d groups do not divide the input's %d channels and the layer's %d; give a number that does",
                LAYER_ARGS(of), layer->groups, layer->in.channels, layer->out.channels);
}

static bool are(Sides sides, int rows, int columns) {
    return sides.rows == rows && sides.columns == columns;
}

// Settles the layer with its window. A convolution of stride 1 with a square kernel becomes a plain layer, which has
// faster ops; the others keep their window.
static Status take_window(Layer *layer, Window window, LayerText *of, Error *err) {
    TRY(check_groups(layer, of, err));
    const Sides size = window.size, dilation = layer->dilation;
    const Sides reach = {(size.rows - 1) * dilation.rows + 1, (size.columns - 1) * dilation.columns + 1};
    const Window reaching = {.size = reach, .stride = window.stride, .pad = window.pad};
    const bool undilated = are(dilation, 1, 1) && layer->groups == 1;
    if (undilated && is_square(size) && is_square(window.pad) && are(window.stride, 1, 1)) {
        layer->kernel = size.rows;
        layer->pad = window.pad.rows;
        layer->groups = 0;
        layer->dilation = (Sides){0, 0};
    } else {
        layer->window = window;
    }
    return layer_slide(layer, &reaching, (Sides){reach.rows - 1, reach.columns - 1}, of, "kernel", err);
}

// Reads the words of a convolution. Along a line each of them has one number, of columns, instead of two.
static Status read_words(Layer *layer, Window *window, LayerText *of, Error *err) {
    const bool line = layer->line;
    *window = (Window){.size = {1, 1}, .stride = {1, 1}};
    layer->dilation = (Sides){1, 1};
    layer->groups = 1;
    TRY(layer_text_whole(&layer->out.channels, of, "CHANNELS", 1, MAX_CHANNELS, err));
    TRY(line ? layer_text_whole(&window->size.columns, of, "LENGTH", 1, MAX_KERNEL, err)
             : layer_text_sides(&window->size, of, "S", 1, MAX_KERNEL, err));
    LayerKey keys[] = {
        {"stride", 1, MAX_KERNEL, .sides = line ? NULL : &window->stride, .whole = &window->stride.columns},
        {"pad", 0, MAX_KERNEL, .sides = line ? NULL : &window->pad, .whole = &window->pad.columns},
        {"dilation", 1, MAX_KERNEL, .sides = line ? NULL : &layer->dilation, .whole = &layer->dilation.columns},
        {"groups", 1, MAX_CHANNELS, .whole = &layer->groups},
        {"nobias", .flag = &layer->nobias}};
    return layer_read_keys(keys, sizeof keys / sizeof *keys, of, err);
}

static Status read_conv(Layer *layer, LayerText *of, Error *err) {
    Window window;
    TRY(read_words(layer, &window, of, err));
    return take_window(layer, window, of, err);
}

// A convolution along the columns: rows that are channels have the memory of channels of one row, so the layer takes
// them for that.
static Status read_line(Layer *layer, LayerText *of, Error *err) {
    Window window;
    const Shape in = layer->in;
    layer->line = true;
    TRY(read_words(layer, &window, of, err));
    if (in.channels > 1 && in.rows > 1)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT
                    "it takes channels of one row, C x 1 x L, or rows that are channels, 1 x C x L, not %d x %d "
                    "x %d; use conv for images",
                    LAYER_ARGS(of), in.channels, in.rows, in.columns);
    layer->in = (Shape){in.channels * in.rows, 1, in.columns};
    return take_window(layer, window, of, err);
}

// The number of products that one output of a convolution sums up.
static size_t conv_inputs(const Layer *layer) {
    const size_t channels = (size_t)layer->in.channels, side = (size_t)layer->kernel;
    assert(layer_is_plain(layer) || (layer->groups > 0 && layer->in.channels % layer->groups == 0));
    if (layer_is_plain(layer)) return channels * side * side;
    return channels / (size_t)layer->groups * (size_t)layer->window.size.rows * (size_t)layer->window.size.columns;
}

// The fan-in of weight and bias is the number of products in one output, as in PyTorch.
static int conv_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    const Sides side = layer_is_plain(layer) ? (Sides){layer->kernel, layer->kernel} : layer->window.size;
    assert(side.rows > 0 && side.columns > 0);
    const int64_t outs = layer->out.channels, fan_in = (int64_t)conv_inputs(layer);
    tensors[0] = (LayerTensor){.name = "weight",
                               .rank = 4,
                               .shape = {outs, fan_in / side.rows / side.columns, side.rows, side.columns},
                               .fan_in = fan_in};
    if (layer->line) {
        tensors[0].rank = 3;
        tensors[0].shape[2] = side.columns;
    }
    tensors[1] = (LayerTensor){.name = "bias", .rank = 1, .shape = {outs}, .fan_in = fan_in};
    return layer->nobias ? 1 : 2;
}

// Multiply-adds of the definition: the way by points needs fewer.
static double conv_products(const Layer *layer) {
    return (double)shape_size(layer->out) * (double)conv_inputs(layer);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

// Room for both sets of kernels: small batches take the kernels for few samples, which may compute it another way.
static LayerRoom conv_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)samples;
    const ConvSizes many = way_of(layer, kernels)->sizes(layer);
    const ConvSizes few = kernels->few ? way_of(layer, kernels->few)->sizes(layer) : many;
    return (LayerRoom){.packed = larger(many.packed, few.packed),
                       .packed_gradient = larger(many.gradient, few.gradient),
                       .scratch = larger(many.scratch, few.scratch)};
}

// The gradient adds up over the batch's chunks, so it starts from zero.
static void conv_pack(const LayerCall *call) {
    const Layer *layer = call->layer;
    const ConvKernels *way = way_of(layer, call->kernels);
    way->pack(call->at->packed, call->weight, layer);
    float *gradient = call->at->packed_gradient;
    if (call->trains) memset(gradient, 0, way->sizes(layer).gradient * sizeof *gradient);
}

static void conv_unpack(const LayerCall *call) {
    way_of(call->layer, call->kernels)->unpack(call->at->gradient, call->at->packed_gradient, call->layer);
}

// The way to compute it (directly, by points, or by columns) is chosen by the layer's sizes and the lanes alone, so
// that all runs choose alike.
static void conv_forward(const LayerCall *call) {
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    way_of(layer, call->kernels)
        ->forward(at->out, call->scratch, at->in, at->packed, layer->nobias ? NULL : call->bias, layer, call->count,
                  call->samples);
}

// The bias's gradient needs no packing and goes straight to its place after the weight's.
static void conv_backward(const LayerCall *call) {
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    float *bias_gradient = layer->nobias ? NULL : at->gradient + (layer->bias - layer->weight);
    way_of(layer, call->kernels)
        ->backward(at->packed_gradient, bias_gradient, at->in_gradient, at->adds, call->scratch, at->in,
                   at->out_gradient, at->packed, layer, call->count, call->samples);
}

const LayerType conv_layer = {
    .name = "conv",
    .words =
        {{.form = {"conv", "conv CHANNELS S [stride S] [pad S] [dilation S] [groups G] [nobias]",
                   "convolution, with bias unless said; S is a side or ROWSxCOLUMNS"},
          .also = {"conv2d", "convolution"},
          .read = read_conv},
         {.form = {"conv1d", "conv1d CHANNELS LENGTH [stride N] [pad N] [dilation N] [groups G] [nobias]",
                   "1-D convolution along the columns of C x 1 x L or of 1 x C x L, whose rows are then the channels"},
          .read = read_line}},
    .module = "conv",
    .traits = SUM_OVERWRITES | ADDS_GRADIENT | IN_PARTS | RECTIFIES | RECTIFIED_LAST,
    .tensors = conv_tensors,
    .products = conv_products,
    .room = conv_room,
    .pack = conv_pack,
    .unpack = conv_unpack,
    .forward = conv_forward,
    .backward = conv_backward};
