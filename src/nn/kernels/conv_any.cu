// The GPU's side of conv_columns.c: convolutions of any stride, padding, dilation and kernel, in groups, computed
// directly. One thread computes four samples of one place of the output, or of the input's gradient; one block the
// weights of one pair of channels. Sums are taken in a fixed order. A GPU divides whole numbers by some twenty
// instructions, so inner loops count rows, columns and taps up instead.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/kernels/conv_bias.h"

namespace {

// TAPS_AT_ONCE: taps whose sums a thread keeps in registers on one walk over the plane; a 3x3 kernel takes one walk.
enum { WEIGHT_THREADS = 128, TAPS_AT_ONCE = 9 };

// Blocks per multiprocessor: leaves each thread 64 registers, which suffice.
enum { RESIDENT = 4 };

// A convolution's shapes: plain data, an argument of the kernels.
struct Geometry {
    Shape in, out;
    Window window;
    Sides dilation;
    int ins, outs; // channels of a group
    uint32_t quads;
};

__device__ float4 plus_product(float4 sum, float factor, float4 value) {
    return make_float4(sum.x + factor * value.x, sum.y + factor * value.y, sum.z + factor * value.z,
                       sum.w + factor * value.w);
}

// A thread walks over all taps of all input channels of its group; taps outside the image are skipped. Weights are read
// by all threads of a warp at one address. It is the simplest form of the sum, without shared memory: it has to take
// any stride, dilation and groups, and most nets have few such layers.
__global__ void __launch_bounds__(ITEM_THREADS, RESIDENT)
    convolve(float4 *out, const float4 *in, const float *weight, const float *bias, size_t stride, Geometry of,
             const uint32_t *counts) {
    uint32_t items = pool_items(of.out, of.quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const PoolPlace place = pool_place(at.item, of.out, of.quads);
    const int group = (int)place.channel / of.outs, height = of.window.size.rows, width = of.window.size.columns;
    in += ((size_t)at.model * (uint32_t)of.in.channels + (uint32_t)(group * of.ins)) *
          (uint32_t)(of.in.rows * of.in.columns) * of.quads;
    weight += at.model * stride + (size_t)place.channel * (uint32_t)(of.ins * height * width);
    const float start = bias ? bias[at.model * stride + place.channel] : 0;
    float4 sum = make_float4(start, start, start, start);
    for (int i = 0; i < of.ins; i++)
        for (int ky = 0; ky < height; ky++)
            for (int kx = 0; kx < width; kx++, weight++) {
                int y = (int)place.row * of.window.stride.rows - of.window.pad.rows + ky * of.dilation.rows;
                int x = (int)place.column * of.window.stride.columns - of.window.pad.columns + kx * of.dilation.columns;
                if (y < 0 || x < 0 || y >= of.in.rows || x >= of.in.columns) continue;
                sum = plus_product(sum, *weight,
                                   in[(size_t)((i * of.in.rows + y) * of.in.columns + x) * of.quads + place.quad]);
            }
    out[(size_t)at.model * items + at.item] = sum;
}

// The places of the output along one axis that read `place` of the input, tap after tap. Through a tap, only every
// `stride`-th place of the input is read: `rest` is what is left of the division by the stride, whose result is `at`.
struct Reader {
    int at, rest;

    __device__ Reader(int place, int pad, int stride) : at((place + pad) / stride), rest((place + pad) % stride) {}

    __device__ bool reads(int length) const { return rest == 0 && at >= 0 && at < length; }

    // To the next tap. steps: the dilation, divided by the stride.
    __device__ void next(int steps, int steps_rest, int stride) {
        at -= steps, rest -= steps_rest;
        if (rest < 0) at--, rest += stride;
    }
};

// Each place of the input gathers from the places of the output that read it, instead of adding to places from
// there: so no place is added to by several threads.
__global__ void __launch_bounds__(ITEM_THREADS, RESIDENT)
    convolve_back(float4 *in_gradient, bool adds, const float4 *out_gradient, const float *weight, size_t stride,
                  Geometry of, const uint32_t *counts) {
    uint32_t items = pool_items(of.in, of.quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const PoolPlace place = pool_place(at.item, of.in, of.quads);
    const Window &window = of.window;
    const int group = (int)place.channel / of.ins, i = (int)place.channel - group * of.ins;
    const int height = window.size.rows, width = window.size.columns, plane = of.out.rows * of.out.columns;
    out_gradient +=
        ((size_t)at.model * (uint32_t)of.out.channels + (uint32_t)(group * of.outs)) * (uint32_t)plane * of.quads;
    weight += at.model * stride + (size_t)((group * of.outs * of.ins + i) * height * width);
    float4 sum = make_float4(0, 0, 0, 0);
    const Sides stride_by = window.stride, dilation = of.dilation;
    const Sides steps = {dilation.rows / stride_by.rows, dilation.columns / stride_by.columns};
    const Sides rests = {dilation.rows % stride_by.rows, dilation.columns % stride_by.columns};
    const Reader first((int)place.column, window.pad.columns, stride_by.columns);
    Reader y((int)place.row, window.pad.rows, stride_by.rows);
    for (int ky = 0; ky < height; ky++, y.next(steps.rows, rests.rows, stride_by.rows)) {
        if (!y.reads(of.out.rows)) continue;
        Reader x = first;
        for (int kx = 0; kx < width; kx++, x.next(steps.columns, rests.columns, stride_by.columns)) {
            if (!x.reads(of.out.columns)) continue;
            const float *factor = weight + (ky * width + kx);
            const float4 *from = out_gradient + (size_t)(y.at * of.out.columns + x.at) * of.quads + place.quad;
            for (int o = 0; o < of.outs; o++, factor += of.ins * height * width, from += (size_t)plane * of.quads)
                sum = plus_product(sum, *factor, *from);
        }
    }
    in_gradient += (size_t)at.model * items + at.item;
    *in_gradient = adds ? plus(*in_gradient, sum) : sum;
}

// A thread's walk over the places of a plane and their fours of samples: neighbouring threads take neighbouring fours,
// then neighbouring places, so that a warp reads whole lines.
struct PlaneWalk {
    int row, column;
    uint32_t quad;
    int next_row, next_column; // from one of the thread's items to the next, which is WEIGHT_THREADS further
    uint32_t next_quad;

    __device__ PlaneWalk(int columns, uint32_t quads) {
        const int place = (int)(threadIdx.x / quads), next = (int)(WEIGHT_THREADS / quads);
        quad = threadIdx.x % quads, row = place / columns, column = place % columns;
        next_quad = WEIGHT_THREADS % quads, next_row = next / columns, next_column = next % columns;
    }

    __device__ void next(int columns, uint32_t quads) {
        quad += next_quad, column += next_column, row += next_row;
        if (quad >= quads) quad -= quads, column++;
        if (column >= columns) column -= columns, row++;
    }
};

// Adds up this thread's places for the gradients of the taps from (ky, kx) on.
__device__ void add_taps(float (&sums)[TAPS_AT_ONCE], const float4 *in, const float4 *out_gradient, const Geometry &of,
                         int first_ky, int first_kx) {
    const int height = of.window.size.rows, width = of.window.size.columns;
    const uint32_t items = (uint32_t)(of.out.rows * of.out.columns) * of.quads;
    PlaneWalk walk(of.out.columns, of.quads);
    for (uint32_t item = threadIdx.x; item < items; item += WEIGHT_THREADS, walk.next(of.out.columns, of.quads)) {
        const float4 gradient = out_gradient[item];
        const int left = walk.column * of.window.stride.columns - of.window.pad.columns;
        int ky = first_ky, kx = first_kx, x = left + kx * of.dilation.columns;
        int y = walk.row * of.window.stride.rows - of.window.pad.rows + ky * of.dilation.rows;
#pragma unroll
        for (int tap = 0; tap < TAPS_AT_ONCE; tap++) {
            if (ky < height && y >= 0 && x >= 0 && y < of.in.rows && x < of.in.columns) {
                const float4 value = in[(size_t)(y * of.in.columns + x) * of.quads + walk.quad];
                sums[tap] +=
                    (gradient.x * value.x + gradient.y * value.y) + (gradient.z * value.z + gradient.w * value.w);
            }
            kx++, x += of.dilation.columns;
            if (kx == width) kx = 0, x = left, ky++, y += of.dilation.rows;
        }
    }
}

// Computes the gradient of all taps of one pair of channels. A block per model, output channel and input channel of its
// group. The block's threads share the places of the plane; their sums are added in pairs, in a fixed order. The places
// are many and the taps few, so the threads divide the places. The last blocks sum the bias's gradient.
__global__ void __launch_bounds__(WEIGHT_THREADS)
    weight_gradients(float *gradient, const float4 *in, const float4 *out_gradient, size_t stride, Geometry of,
                     ConvBias bias, const uint32_t *counts) {
    __shared__ float sums[WEIGHT_THREADS], parts[CONV_BIAS_FLOATS];
    if (conv_bias_block(parts, bias, out_gradient, counts)) return;
    const uint32_t pairs = (uint32_t)(of.out.channels * of.ins), model = blockIdx.x / pairs;
    if (counts[model] == 0) return; // the whole block
    const uint32_t pair = blockIdx.x - model * pairs, o = pair / (uint32_t)of.ins, i = pair - o * (uint32_t)of.ins;
    const uint32_t group = o / (uint32_t)of.outs;
    const int height = of.window.size.rows, width = of.window.size.columns;
    in += ((size_t)model * (uint32_t)of.in.channels + group * (uint32_t)of.ins + i) *
          (uint32_t)(of.in.rows * of.in.columns) * of.quads;
    out_gradient +=
        ((size_t)model * (uint32_t)of.out.channels + o) * (uint32_t)(of.out.rows * of.out.columns) * of.quads;
    gradient += model * stride + (size_t)pair * (uint32_t)(height * width);
    for (int first = 0; first < height * width; first += TAPS_AT_ONCE) {
        float taps[TAPS_AT_ONCE] = {};
        add_taps(taps, in, out_gradient, of, first / width, first % width);
#pragma unroll
        for (int tap = 0; tap < TAPS_AT_ONCE; tap++) {
            if (first + tap >= height * width) break; // in all threads of the block
            const float sum = sum_block(sums, taps[tap]);
            if (threadIdx.x == 0) gradient[first + tap] = sum;
        }
    }
}

// The same for forward and backward passes, unlike conv.cu's map.
Geometry geometry_of(const Layer *layer, const CudaStep *step) {
    Geometry of = {layer->in,
                   layer->out,
                   layer->window,
                   layer->dilation,
                   layer->in.channels / layer->groups,
                   layer->out.channels / layer->groups,
                   (uint32_t)step->samples / 4};
    return of;
}

} // namespace

void cuda_conv_any_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride,
                           const Layer *layer, const CudaStep *step) {
    const Geometry of = geometry_of(layer, step);
    launch_items(convolve, pool_items(of.out, of.quads), step, (float4 *)out, (const float4 *)in, weight, bias, stride,
                 of);
}

void cuda_conv_any_backward_input(float *in_gradient, bool adds, const float *out_gradient, const float *weight,
                                  size_t stride, const Layer *layer, const CudaStep *step) {
    const Geometry of = geometry_of(layer, step);
    launch_items(convolve_back, pool_items(of.in, of.quads), step, (float4 *)in_gradient, adds,
                 (const float4 *)out_gradient, weight, stride, of);
}

void cuda_conv_any_backward_weight(float *weight_gradient, float *bias_gradient, const float *in,
                                   const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step) {
    const Geometry of = geometry_of(layer, step);
    const size_t pairs = (size_t)step->models * (uint32_t)(of.out.channels * of.ins);
    const ConvBias bias = conv_bias_of(bias_gradient, stride, pairs, layer, step);
    launch(weight_gradients, conv_bias_blocks(bias, step), WEIGHT_THREADS, step->stream, weight_gradient,
           (const float4 *)in, (const float4 *)out_gradient, stride, of, bias, step->counts);
}
