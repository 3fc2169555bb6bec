// The GPU's side of pool.c. SIZE is the window's side if it is a constant, otherwise 0.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_index.h"
#include "nn/cuda/cuda_launch.h"

namespace {

// The running maximum as PyTorch takes it: a NaN wins over numbers and is never replaced by one.
__device__ float larger(float maximum, float value) {
    return value > maximum || value != value ? value : maximum;
}

__device__ float4 larger(float4 maximum, float4 value) {
    return make_float4(larger(maximum.x, value.x), larger(maximum.y, value.y), larger(maximum.z, value.z),
                       larger(maximum.w, value.w));
}

// The maximum of a window of four samples: neighbours in a row are `step` apart, rows `row`. The loop meets the first
// value again: that changes nothing, and its bounds are constants.
template <int SIZE> __device__ float4 window_maximum(const float4 *window, size_t row, uint32_t step, uint32_t size) {
    const uint32_t side = SIZE ? SIZE : size;
    float4 maximum = *window;
#pragma unroll SIZE ? SIZE : 1
    for (uint32_t y = 0; y < side; y++)
#pragma unroll SIZE ? SIZE : 1
        for (uint32_t x = 0; x < side; x++)
            maximum = larger(maximum, window[y * row + x * step]);
    return maximum;
}

// A thread per window and four samples. With relu, max(0, .) follows at once: rectifying the maximum is rectifying all
// values.
template <int SIZE>
__global__ void __launch_bounds__(ITEM_THREADS)
    pool_forward(float4 *out, const float4 *in, bool relu, Shape in_shape, Shape windows, uint32_t size, uint32_t quads,
                 const uint32_t *counts) {
    uint32_t items = pool_items(windows, quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    PoolPlace place = pool_place(at.item, windows, quads);
    size_t row = (size_t)in_shape.columns * quads, plane = (size_t)in_shape.rows * row;
    in += ((size_t)at.model * (uint32_t)windows.channels + place.channel) * plane;
    in += place.row * size * row + place.column * size * quads + place.quad;
    float4 maximum = window_maximum<SIZE>(in, row, quads, size);
    out[(size_t)at.model * items + at.item] = relu ? rectified(maximum) : maximum;
}

// The gradient of one value of a window. The first maximum takes it all, and leaves zero for the values after it.
__device__ float take_gradient(float *left, float value, float maximum) {
    float taken = value == maximum ? *left : 0;
    if (value == maximum) *left = 0;
    return taken;
}

// Gives the gradient to the window's first maximum. in_gradient may be the window itself: the maximum is known before
// anything is written, and each place is read before it is written.
template <int SIZE>
__device__ void window_backward(float4 *in_gradient, const float4 *window, float4 gradient, bool relu, size_t row,
                                uint32_t step, uint32_t size) {
    const uint32_t side = SIZE ? SIZE : size;
    float4 maximum = window_maximum<SIZE>(window, row, step, size);
    // The relu gave 0 where the maximum is not positive, so no gradient passes there.
    if (relu) {
        gradient.x = maximum.x > 0 ? gradient.x : 0;
        gradient.y = maximum.y > 0 ? gradient.y : 0;
        gradient.z = maximum.z > 0 ? gradient.z : 0;
        gradient.w = maximum.w > 0 ? gradient.w : 0;
    }
#pragma unroll SIZE ? SIZE : 1
    for (uint32_t y = 0; y < side; y++)
#pragma unroll SIZE ? SIZE : 1
        for (uint32_t x = 0; x < side; x++) {
            float4 value = window[y * row + x * step], taken;
            taken.x = take_gradient(&gradient.x, value.x, maximum.x);
            taken.y = take_gradient(&gradient.y, value.y, maximum.y);
            taken.z = take_gradient(&gradient.z, value.z, maximum.z);
            taken.w = take_gradient(&gradient.w, value.w, maximum.w);
            in_gradient[y * row + x * step] = taken;
        }
}

// A thread per window and four samples, where windows also cover the rows and columns that the forward pass
// dropped: threads of such windows write zeros, so that no pass over the gradient must clear it before.
template <int SIZE>
__global__ void __launch_bounds__(ITEM_THREADS)
    pool_backward(float4 *in_gradient, const float4 *in, const float4 *out_gradient, bool relu, Shape in_shape,
                  Shape out_shape, uint32_t size, uint32_t quads, const uint32_t *counts) {
    Shape windows = pool_all_windows(in_shape, (int)size);
    uint32_t items = pool_items(windows, quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    PoolPlace place = pool_place(at.item, windows, quads);
    uint32_t rows = (uint32_t)in_shape.rows, columns = (uint32_t)in_shape.columns, y = place.row * size,
             x = place.column * size;
    uint32_t out_rows = (uint32_t)out_shape.rows, out_columns = (uint32_t)out_shape.columns;
    size_t row = (size_t)columns * quads;
    size_t channel = (size_t)at.model * (uint32_t)in_shape.channels + place.channel;
    size_t corner = (channel * rows + y) * row + (size_t)x * quads + place.quad;
    if (place.row < out_rows && place.column < out_columns) {
        float4 gradient =
            out_gradient[((channel * out_rows + place.row) * out_columns + place.column) * quads + place.quad];
        window_backward<SIZE>(in_gradient + corner, in + corner, gradient, relu, row, quads, size);
        return;
    }
    for (uint32_t i = 0; i < size && y + i < rows; i++)
        for (uint32_t j = 0; j < size && x + j < columns; j++)
            in_gradient[corner + i * row + j * quads] = make_float4(0, 0, 0, 0);
}

// Any windows. On the forward pass a thread computes one place of the output for four samples; on the backward pass one
// place of the input, for which it visits all windows over that place. So no value is added up by several threads.
//
// Windows that overlap read a value several times; its cache has it.
struct Plane {
    size_t row;    // quads from one row to the next
    uint32_t step; // from one column to the next
};

// Four samples of one channel, over the part of the plane that a window covers.
__device__ float4 part_maximum(const float4 *plane, Plane of, Span rows, Span columns) {
    float4 maximum = plane[rows.from * of.row + columns.from * of.step];
    for (int y = rows.from; y < rows.to; y++)
        for (int x = columns.from; x < columns.to; x++)
            maximum = larger(maximum, plane[y * of.row + x * of.step]);
    return maximum;
}

__device__ float4 part_sum(const float4 *plane, Plane of, Span rows, Span columns) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int y = rows.from; y < rows.to; y++)
        for (int x = columns.from; x < columns.to; x++)
            sum = plus(sum, plane[y * of.row + x * of.step]);
    return sum;
}

__device__ Span rows_of(const Window &window, int number, Shape in, Shape out) {
    if (window.stride.rows == 0) return even_span(number, out.rows, in.rows);
    return window_span(number, window.size.rows, window.stride.rows, window.pad.rows, in.rows);
}

__device__ Span columns_of(const Window &window, int number, Shape in, Shape out) {
    if (window.stride.rows == 0) return even_span(number, out.columns, in.columns);
    return window_span(number, window.size.columns, window.stride.columns, window.pad.columns, in.columns);
}

// Padding counts in an average of windows, as in PyTorch; the windows of an adaptive average have none.
__device__ float share_of(const Window &window, Span rows, Span columns) {
    if (window.stride.rows > 0) return 1.0f / (float)(window.size.rows * window.size.columns);
    return 1.0f / (float)((rows.to - rows.from) * (columns.to - columns.from));
}

// A thread has four samples: they share the window's bounds, whose computation costs as much as a small window's loop.
template <bool AVERAGE>
__global__ void __launch_bounds__(ITEM_THREADS)
    windows_forward(float4 *out, const float4 *in, bool relu, Shape in_shape, Shape out_shape, Window window,
                    uint32_t quads, const uint32_t *counts) {
    uint32_t items = pool_items(out_shape, quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    PoolPlace place = pool_place(at.item, out_shape, quads);
    const Plane plane = {(size_t)in_shape.columns * quads, quads};
    in += ((size_t)at.model * (uint32_t)in_shape.channels + place.channel) * (uint32_t)in_shape.rows * plane.row;
    in += place.quad;
    const Span rows = rows_of(window, (int)place.row, in_shape, out_shape);
    const Span columns = columns_of(window, (int)place.column, in_shape, out_shape);
    float4 value = AVERAGE ? part_sum(in, plane, rows, columns) : part_maximum(in, plane, rows, columns);
    if (AVERAGE) value = scaled(value, share_of(window, rows, columns));
    out[(size_t)at.model * items + at.item] = relu ? rectified(value) : value;
}

// Whether the place (y,x) holds the first maximum of a window; with relu, only if that is positive. One sample. A later
// place with an equal value does not count, as on the CPU and in PyTorch.
__device__ bool is_first_maximum(const float *plane, Plane of, Span rows, Span columns, int y, int x, bool relu) {
    const float value = plane[y * of.row + x * of.step];
    if (relu && !(value > 0)) return false;
#pragma unroll 1
    for (int i = rows.from; i < rows.to; i++)
#pragma unroll 1
        for (int j = columns.from; j < columns.to; j++) {
            const float rival = plane[i * of.row + j * of.step];
            const bool before = i < y || (i == y && j < x);
            if (before ? rival >= value : rival > value) return false;
        }
    return true;
}

// Blocks per multiprocessor: leaves each thread 64 registers, which suffice.
enum { WINDOWS_RESIDENT = 4 };

// A thread per sample of a place. For every window over the place, the thread finds out whether the place holds the
// window's first maximum, instead of adding to the maximum's place: neighbouring windows may share that, and additions
// of several threads would have no fixed order. A thread has one sample instead of four, because is_first_maximum ends
// early at places that differ from sample to sample. The loops are not unrolled: their bounds vary, and copies would
// only take registers.
template <bool AVERAGE>
__global__ void __launch_bounds__(ITEM_THREADS, WINDOWS_RESIDENT)
    windows_backward(float *in_gradient, const float *in, const float *out_gradient, bool relu, Shape in_shape,
                     Shape out_shape, Window window, uint32_t samples, const uint32_t *counts) {
    uint32_t items = pool_items(in_shape, samples);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const PoolPlace place = pool_place(at.item, in_shape, samples);
    const Plane plane = {(size_t)in_shape.columns * samples, samples};
    const size_t channel = (size_t)at.model * (uint32_t)in_shape.channels + place.channel;
    if (!AVERAGE) in += channel * (uint32_t)in_shape.rows * plane.row + place.quad;
    out_gradient += channel * (uint32_t)(out_shape.rows * out_shape.columns) * samples + place.quad;
    const int y = (int)place.row, x = (int)place.column;
    const bool even = window.stride.rows == 0;
    const Span over_y = even ? even_span(y, in_shape.rows, out_shape.rows)
                             : windows_over(y, window.size.rows, window.stride.rows, window.pad.rows, out_shape.rows);
    const Span over_x =
        even ? even_span(x, in_shape.columns, out_shape.columns)
             : windows_over(x, window.size.columns, window.stride.columns, window.pad.columns, out_shape.columns);
    float sum = 0;
#pragma unroll 1
    for (int i = over_y.from; i < over_y.to; i++)
#pragma unroll 1
        for (int j = over_x.from; j < over_x.to; j++) {
            const Span rows = rows_of(window, i, in_shape, out_shape);
            const Span columns = columns_of(window, j, in_shape, out_shape);
            if (!AVERAGE && !is_first_maximum(in, plane, rows, columns, y, x, relu)) continue;
            const float share = AVERAGE ? share_of(window, rows, columns) : 1;
            sum += share * out_gradient[(size_t)(i * out_shape.columns + j) * samples];
        }
    in_gradient[(size_t)at.model * items + at.item] = sum;
}

template <bool AVERAGE>
void launch_forward(float *out, const float *in, bool relu, const Layer *layer, const CudaStep *step) {
    uint32_t quads = (uint32_t)step->samples / 4;
    launch_items(windows_forward<AVERAGE>, pool_items(layer->out, quads), step, (float4 *)out, (const float4 *)in, relu,
                 layer->in, layer->out, layer->window, quads);
}

template <bool AVERAGE>
void launch_backward(float *in_gradient, const float *in, const float *out_gradient, bool relu, const Layer *layer,
                     const CudaStep *step) {
    uint32_t samples = (uint32_t)step->samples;
    launch_items(windows_backward<AVERAGE>, pool_items(layer->in, samples), step, in_gradient, in, out_gradient, relu,
                 layer->in, layer->out, layer->window, samples);
}

} // namespace

// Windows of side 2 have kernels of their own, in which the loops over the window are unrolled.
void cuda_pool_forward(float *out, const float *in, bool relu, const Layer *layer, const CudaStep *step) {
    if (!layer_is_plain(layer)) return launch_forward<false>(out, in, relu, layer, step);
    uint32_t quads = (uint32_t)step->samples / 4;
    launch_items(layer->kernel == 2 ? pool_forward<2> : pool_forward<0>, pool_items(layer->out, quads), step,
                 (float4 *)out, (const float4 *)in, relu, layer->in, layer->out, (uint32_t)layer->kernel, quads);
}

void cuda_pool_backward(float *in_gradient, const float *in, const float *out_gradient, bool relu, const Layer *layer,
                        const CudaStep *step) {
    if (!layer_is_plain(layer)) return launch_backward<false>(in_gradient, in, out_gradient, relu, layer, step);
    uint32_t quads = (uint32_t)step->samples / 4;
    launch_items(layer->kernel == 2 ? pool_backward<2> : pool_backward<0>,
                 pool_items(pool_all_windows(layer->in, layer->kernel), quads), step, (float4 *)in_gradient,
                 (const float4 *)in, (const float4 *)out_gradient, relu, layer->in, layer->out, (uint32_t)layer->kernel,
                 quads);
}

void cuda_average_forward(float *out, const float *in, const Layer *layer, const CudaStep *step) {
    launch_forward<true>(out, in, false, layer, step);
}

// An average's gradient does not depend on its values, so there is no input to read.
void cuda_average_backward(float *in_gradient, const float *out_gradient, const Layer *layer, const CudaStep *step) {
    launch_backward<true>(in_gradient, NULL, out_gradient, false, layer, step);
}
