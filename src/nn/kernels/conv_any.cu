// The GPU's side of conv_columns.c: convolutions of any stride, padding, dilation and kernel, in groups, computed
// directly. One thread computes four samples of one place of the output, or of the input's gradient; one block the
// weights of one pair of channels. Sums are taken in a fixed order.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/kernels/conv_bias.h"

namespace {

enum { WEIGHT_THREADS = 128 };

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
    convolve(float4 *out, const float4 *in, const float *weight, const float *bias, size_t stride, Geometry of) {
    uint32_t items = pool_items(of.out, of.quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
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

// The place of the output that reads `place` through a tap; negative: none. With a stride, only every `stride`-th place
// of the input is read through a given tap.
__device__ int seen_from(int place, int pad, int tap, int dilation, int stride, int length) {
    int from = place + pad - tap * dilation;
    return from < 0 || from % stride != 0 || from / stride >= length ? -1 : from / stride;
}

// Each place of the input gathers from the places of the output that read it, instead of adding to places from
// there: so no place is added to by several threads.
__global__ void __launch_bounds__(ITEM_THREADS, RESIDENT)
    convolve_back(float4 *in_gradient, bool adds, const float4 *out_gradient, const float *weight, size_t stride,
                  Geometry of) {
    uint32_t items = pool_items(of.in, of.quads);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    const PoolPlace place = pool_place(at.item, of.in, of.quads);
    const Window &window = of.window;
    const int group = (int)place.channel / of.ins, i = (int)place.channel - group * of.ins;
    const int height = window.size.rows, width = window.size.columns, plane = of.out.rows * of.out.columns;
    out_gradient +=
        ((size_t)at.model * (uint32_t)of.out.channels + (uint32_t)(group * of.outs)) * (uint32_t)plane * of.quads;
    weight += at.model * stride + (size_t)((group * of.outs * of.ins + i) * height * width);
    float4 sum = make_float4(0, 0, 0, 0);
    for (int ky = 0; ky < height; ky++)
        for (int kx = 0; kx < width; kx++) {
            int y = seen_from((int)place.row, window.pad.rows, ky, of.dilation.rows, window.stride.rows, of.out.rows);
            int x = seen_from((int)place.column, window.pad.columns, kx, of.dilation.columns, window.stride.columns,
                              of.out.columns);
            if (y < 0 || x < 0) continue;
            for (int o = 0; o < of.outs; o++)
                sum = plus_product(sum, weight[(size_t)((o * of.ins * height + ky) * width + kx)],
                                   out_gradient[(size_t)(o * plane + y * of.out.columns + x) * of.quads + place.quad]);
        }
    in_gradient += (size_t)at.model * items + at.item;
    *in_gradient = adds ? plus(*in_gradient, sum) : sum;
}

// The sum of this thread's places for the gradient of one tap. Threads take neighbouring fours of samples, then
// neighbouring places, so that a warp reads whole lines.
__device__ float tap_gradient(const float4 *in, const float4 *out_gradient, const Geometry &of, int ky, int kx) {
    const uint32_t places = (uint32_t)(of.out.rows * of.out.columns);
    float sum = 0;
    for (uint32_t item = threadIdx.x; item < places * of.quads; item += WEIGHT_THREADS) {
        int place = (int)(item / of.quads), row = place / of.out.columns, column = place - row * of.out.columns;
        int y = row * of.window.stride.rows - of.window.pad.rows + ky * of.dilation.rows;
        int x = column * of.window.stride.columns - of.window.pad.columns + kx * of.dilation.columns;
        if (y < 0 || x < 0 || y >= of.in.rows || x >= of.in.columns) continue;
        float4 gradient = out_gradient[item];
        float4 value = in[(size_t)(y * of.in.columns + x) * of.quads + item % of.quads];
        sum += (gradient.x * value.x + gradient.y * value.y) + (gradient.z * value.z + gradient.w * value.w);
    }
    return sum;
}

// Computes the gradient of all taps of one pair of channels. A block per model, output channel and input channel of its
// group. The block's threads share the places of the plane, tap after tap; their sums are added in pairs, in a fixed
// order. The places are many and the taps few, so the threads divide the places. The last blocks sum the bias's
// gradient.
__global__ void __launch_bounds__(WEIGHT_THREADS)
    weight_gradients(float *gradient, const float4 *in, const float4 *out_gradient, size_t stride, Geometry of,
                     ConvBias bias) {
    __shared__ float sums[WEIGHT_THREADS], parts[CONV_BIAS_FLOATS];
    if (conv_bias_block(parts, bias, out_gradient)) return;
    const uint32_t pairs = (uint32_t)(of.out.channels * of.ins), model = blockIdx.x / pairs;
    const uint32_t pair = blockIdx.x - model * pairs, o = pair / (uint32_t)of.ins, i = pair - o * (uint32_t)of.ins;
    const uint32_t group = o / (uint32_t)of.outs;
    const int height = of.window.size.rows, width = of.window.size.columns;
    in += ((size_t)model * (uint32_t)of.in.channels + group * (uint32_t)of.ins + i) *
          (uint32_t)(of.in.rows * of.in.columns) * of.quads;
    out_gradient +=
        ((size_t)model * (uint32_t)of.out.channels + o) * (uint32_t)(of.out.rows * of.out.columns) * of.quads;
    gradient += model * stride + (size_t)pair * (uint32_t)(height * width);
    for (int tap = 0; tap < height * width; tap++) {
        const float sum = sum_block(sums, tap_gradient(in, out_gradient, of, tap / width, tap % width));
        if (threadIdx.x == 0) gradient[tap] = sum;
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
           (const float4 *)in, (const float4 *)out_gradient, stride, of, bias);
}
