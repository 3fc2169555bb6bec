// Part of ops.h: pooling: maxima of square windows side by side, and maxima and averages of any windows. The output's
// shape says how many windows there are: rows and columns after the last one are dropped.
#include "ops.h"

#include <string.h>

// The running maximum as PyTorch takes it: a NaN wins over numbers and is never replaced by one.
ALWAYS_INLINE Lanes larger(Lanes maximum, Lanes value) {
    return lanes_select((value > maximum) | (value != value), value, maximum);
}

// Prefetches the window below: a core prefetches along a row by itself, but not from row to row.
ALWAYS_INLINE Lanes window_maximum(const Lanes *window, size_t row, size_t step, int size) {
    Lanes maximum = *window;
#pragma GCC unroll 2
    for (int y = 0; y < size; y++)
#pragma GCC unroll 2
        for (int x = 0; x < size; x++) {
            const Lanes *place = window + (size_t)y * row + (size_t)x * step;
            __builtin_prefetch(place + (size_t)size * row);
            maximum = larger(maximum, *place);
        }
    return maximum;
}

// The gradient of a window's maximum. If the window holds a relu's output (rectified), it includes the relu's backward
// pass.
ALWAYS_INLINE Lanes gradient_through(Lanes maximum, Lanes gradient, bool rectified) {
    return rectified ? lanes_select(maximum <= lanes_of(0), lanes_of(0), gradient) : gradient;
}

// Gives the gradient to the window's first maximum, and zero to the others. in_gradient may be the window itself: the
// maximum is found before anything is written, and each place is read before it is written. A lane that has found its
// maximum continues with a gradient of zero, so that ties go to the first place, as in PyTorch.
ALWAYS_INLINE void window_backward(Lanes *in_gradient, const Lanes *window, Lanes gradient, size_t row, size_t step,
                                   int size, bool rectified) {
    Lanes maximum = window_maximum(window, row, step, size);
    gradient = gradient_through(maximum, gradient, rectified);
#pragma GCC unroll 2
    for (int y = 0; y < size; y++)
#pragma GCC unroll 2
        for (int x = 0; x < size; x++) {
            size_t place = (size_t)y * row + (size_t)x * step;
            IntLanes first = window[place] == maximum;
            in_gradient[place] = lanes_select(first, gradient, lanes_of(0));
            gradient = lanes_select(first, lanes_of(0), gradient);
        }
}

// For a plain pooling: zeros the rows and columns of one channel that no window covers.
static void zero_rest(Lanes *plane, const Layer *layer, size_t row, size_t step) {
    size_t rows = (size_t)(layer->out.rows * layer->kernel), columns = (size_t)(layer->out.columns * layer->kernel);
    for (size_t y = 0; y < (size_t)layer->in.rows; y++)
        for (size_t i = y < rows ? columns * step : 0; i < row; i++)
            plane[y * row + i] = lanes_of(0);
}

// The side 2 is passed as a constant, for which the loops over the window unroll: nearly all nets pool by 2.
static void plain_forward(float *out, const float *in, const Layer *layer, int samples) {
    size_t step = (size_t)samples / SOUNDER_LANES, row = (size_t)layer->in.columns * step;
    size_t size = (size_t)layer->kernel;
    Lanes *to = (Lanes *)out;
    for (size_t c = 0; c < (size_t)layer->out.channels; c++)
        for (size_t y = 0; y < (size_t)layer->out.rows; y++) {
            const Lanes *from = (const Lanes *)in + (c * (size_t)layer->in.rows + y * size) * row;
            for (size_t x = 0; x < (size_t)layer->out.columns; x++, from += size * step)
                for (size_t v = 0; v < step; v++)
                    *to++ = size == 2 ? window_maximum(from + v, row, step, 2)
                                      : window_maximum(from + v, row, step, layer->kernel);
        }
}

// Every place of the input is written once, by its window or by zero_rest, so that nothing must be cleared before.
static void plain_backward(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                           int samples) {
    size_t step = (size_t)samples / SOUNDER_LANES, row = (size_t)layer->in.columns * step;
    size_t plane = (size_t)layer->in.rows * row, size = (size_t)layer->kernel;
    const Lanes *gradient = (const Lanes *)out_gradient;
    for (size_t c = 0; c < (size_t)layer->out.channels; c++) {
        for (size_t y = 0; y < (size_t)layer->out.rows; y++)
            for (size_t x = 0; x < (size_t)layer->out.columns; x++)
                for (size_t v = 0; v < step; v++, gradient++) {
                    size_t corner = c * plane + y * size * row + x * size * step + v;
                    const Lanes *window = (const Lanes *)in + corner;
                    if (size == 2)
                        window_backward((Lanes *)in_gradient + corner, window, *gradient, row, step, 2,
                                        layer->rectified);
                    else
                        window_backward((Lanes *)in_gradient + corner, window, *gradient, row, step, layer->kernel,
                                        layer->rectified);
                }
        zero_rest((Lanes *)in_gradient + c * plane, layer, row, step);
    }
}

// Any windows ---------------------------------------------------------------------------------------------------------

// The part of a channel's plane that a window covers, for one vector of samples. Places are `step` apart, rows `row`.
typedef struct Part {
    Span rows, columns;
    size_t row, step;
} Part;

// The part of the plane that window (y,x) covers: padding is cut off here, so that no loop meets it.
static Part part_of(const Layer *layer, int y, int x, size_t vectors) {
    const Window *of = &layer->window;
    const Shape in = layer->in, out = layer->out;
    const bool even = of->stride.rows == 0;
    return (Part){even ? even_span(y, out.rows, in.rows)
                       : window_span(y, of->size.rows, of->stride.rows, of->pad.rows, in.rows),
                  even ? even_span(x, out.columns, in.columns)
                       : window_span(x, of->size.columns, of->stride.columns, of->pad.columns, in.columns),
                  (size_t)in.columns * vectors, vectors};
}

static size_t place_in(const Part *part, int y, int x) {
    return (size_t)y * part->row + (size_t)x * part->step;
}

static Lanes part_maximum(const Lanes *plane, const Part *part) {
    Lanes maximum = plane[place_in(part, part->rows.from, part->columns.from)];
    for (int y = part->rows.from; y < part->rows.to; y++)
        for (int x = part->columns.from; x < part->columns.to; x++)
            maximum = larger(maximum, plane[place_in(part, y, x)]);
    return maximum;
}

static Lanes part_sum(const Lanes *plane, const Part *part) {
    Lanes sum = lanes_of(0);
    for (int y = part->rows.from; y < part->rows.to; y++)
        for (int x = part->columns.from; x < part->columns.to; x++)
            sum += plane[place_in(part, y, x)];
    return sum;
}

// Adds the gradient to the part's first maximum. Windows may overlap, so it adds, unlike window_backward.
static void add_to_maximum(Lanes *in_gradient, const Lanes *plane, const Part *part, Lanes gradient, bool rectified) {
    const Lanes maximum = part_maximum(plane, part);
    gradient = gradient_through(maximum, gradient, rectified);
    for (int y = part->rows.from; y < part->rows.to; y++)
        for (int x = part->columns.from; x < part->columns.to; x++) {
            const size_t place = place_in(part, y, x);
            const IntLanes first = plane[place] == maximum;
            in_gradient[place] += lanes_select(first, gradient, lanes_of(0));
            gradient = lanes_select(first, lanes_of(0), gradient);
        }
}

static void add_everywhere(Lanes *in_gradient, const Part *part, Lanes gradient) {
    for (int y = part->rows.from; y < part->rows.to; y++)
        for (int x = part->columns.from; x < part->columns.to; x++)
            in_gradient[place_in(part, y, x)] += gradient;
}

// Padding counts: the divisor is the whole window's size, as with PyTorch's count_include_pad. Even parts have none.
static Lanes share_of(const Layer *layer, const Part *part) {
    const Sides size = layer->window.size;
    if (layer->window.stride.rows > 0) return lanes_of(1.0f / (float)(size.rows * size.columns));
    return lanes_of(1.0f / (float)((part->rows.to - part->rows.from) * (part->columns.to - part->columns.from)));
}

// Maxima and averages of any windows differ in one line each, so they share the walk over windows.
static void windows_forward(float *out, const float *in, const Layer *layer, int samples, bool average) {
    const size_t vectors = (size_t)samples / SOUNDER_LANES;
    const size_t plane = (size_t)layer->in.rows * (size_t)layer->in.columns * vectors;
    Lanes *to = (Lanes *)out;
    for (size_t c = 0; c < (size_t)layer->out.channels; c++)
        for (int y = 0; y < layer->out.rows; y++)
            for (int x = 0; x < layer->out.columns; x++) {
                const Part part = part_of(layer, y, x, vectors);
                const Lanes share = average ? share_of(layer, &part) : lanes_of(0);
                const Lanes *from = (const Lanes *)in + c * plane;
                for (size_t v = 0; v < vectors; v++, to++)
                    if (average)
                        *to = part_sum(from + v, &part) * share;
                    else
                        *to = part_maximum(from + v, &part);
            }
}

// Windows may overlap or leave gaps, so the gradient starts as zeros and every window adds to it. The order of the
// windows is fixed, and with it the bits of the sums where windows overlap.
static void windows_backward(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                             int samples, bool average) {
    const size_t vectors = (size_t)samples / SOUNDER_LANES;
    const size_t plane = (size_t)layer->in.rows * (size_t)layer->in.columns * vectors;
    const Lanes *gradient = (const Lanes *)out_gradient;
    memset(in_gradient, 0, shape_size(layer->in) * (size_t)samples * sizeof *in_gradient);
    for (size_t c = 0; c < (size_t)layer->out.channels; c++)
        for (int y = 0; y < layer->out.rows; y++)
            for (int x = 0; x < layer->out.columns; x++) {
                const Part part = part_of(layer, y, x, vectors);
                const Lanes share = average ? share_of(layer, &part) : lanes_of(0);
                Lanes *to = (Lanes *)in_gradient + c * plane;
                for (size_t v = 0; v < vectors; v++, gradient++)
                    if (average)
                        add_everywhere(to + v, &part, *gradient * share);
                    else
                        add_to_maximum(to + v, (const Lanes *)in + c * plane + v, &part, *gradient, layer->rectified);
            }
}

// The ops -------------------------------------------------------------------------------------------------------------

void ISA_NAME(pool_forward)(float *out, const float *in, const Layer *layer, int samples) {
    if (layer_is_plain(layer))
        plain_forward(out, in, layer, samples);
    else
        windows_forward(out, in, layer, samples, false);
}

void ISA_NAME(pool_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                             int samples) {
    if (layer_is_plain(layer))
        plain_backward(in_gradient, in, out_gradient, layer, samples);
    else
        windows_backward(in_gradient, in, out_gradient, layer, samples, false);
}

void ISA_NAME(average_forward)(float *out, const float *in, const Layer *layer, int samples) {
    windows_forward(out, in, layer, samples, true);
}

void ISA_NAME(average_backward)(float *in_gradient, const float *out_gradient, const Layer *layer, int samples) {
    windows_backward(in_gradient, NULL, out_gradient, layer, samples, true);
}
