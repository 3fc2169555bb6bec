// The GPU's side of norm_batch.c. A block adds up the values of one channel of one model in a fixed order; then a
// thread per four neighbouring samples of a place writes the results.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/kernels/batch_statistics.h"

namespace {

enum { THREADS = 256 };

// Plain data, an argument of the kernels.
struct BatchNorm {
    uint32_t channels; // of a model
    uint32_t quads;    // fours of samples of a channel, over all its places
    uint32_t columns;  // fours of samples of a place
    float epsilon, momentum;
};

// The numbers of a channel: from the forward pass, and the means that the backward pass needs. Aligned so that a thread
// reads all four numbers at once.
struct alignas(16) ChannelSums {
    float mean, scale;       // scale: 1 / sqrt(variance + epsilon)
    float gradient, product; // of d out, and of that times the normalised value
};

// Zeros the columns that hold no sample.
__device__ float4 real_ones(float4 value, uint32_t column, uint32_t count) {
    return make_float4(4 * column < count ? value.x : 0, 4 * column + 1 < count ? value.y : 0,
                       4 * column + 2 < count ? value.z : 0, 4 * column + 3 < count ? value.w : 0);
}

__device__ float4 normalised(float4 value, const ChannelSums &of) {
    return make_float4((value.x - of.mean) * of.scale, (value.y - of.mean) * of.scale, (value.z - of.mean) * of.scale,
                       (value.w - of.mean) * of.scale);
}

// The mean of a channel's values, or with `squares` the mean of their squared distances from `from`. Two passes over
// the values, the mean first: the mean of squares minus the squared mean would cancel where the mean is far from zero,
// and could become negative.
__device__ float mean_of(float (&shared)[THREADS], const float4 *in, float from, bool squares, const BatchNorm &norm,
                         uint32_t count) {
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < norm.quads; i += THREADS) {
        const float4 value = in[i];
        float4 distance = make_float4(value.x - from, value.y - from, value.z - from, value.w - from);
        if (squares) distance = times(distance, distance);
        sum += sum_of(real_ones(distance, i % norm.columns, count));
    }
    return sum_block(shared, sum) / (float)(norm.quads / norm.columns * count);
}

// In training the channel's mean and variance are those of the batch, which also move the running ones; in tests they
// are the running ones. A running variance below zero counts as zero.
__global__ void __launch_bounds__(THREADS)
    batch_norm_statistics(ChannelSums *statistics, float *means, float *variances, const float4 *in,
                          const float *parameters, size_t stride, bool trains, BatchNorm norm, const uint32_t *counts) {
    __shared__ float shared[THREADS];
    const uint32_t model = blockIdx.x / norm.channels, channel = blockIdx.x - model * norm.channels;
    if (counts[model] == 0) return; // the whole block
    const uint32_t count = trains ? counts[model] : 0;
    const float *running = parameters + model * stride + 2 * norm.channels + channel;
    const float running_mean = running[0], running_variance = running[norm.channels];
    float mean = running_mean, variance = running_variance < 0 ? 0 : running_variance;
    if (count > 0) {
        const float4 *from = in + (size_t)blockIdx.x * norm.quads;
        mean = mean_of(shared, from, 0, false, norm, count);
        variance = mean_of(shared, from, mean, true, norm, count);
    }
    if (threadIdx.x > 0) return;
    const ChannelSums sums = {mean, 1.0f / sqrtf(variance + norm.epsilon), 0, 0};
    statistics[blockIdx.x] = sums;
    if (count == 0) return;
    const float values = (float)(norm.quads / norm.columns * count);
    if (means) means[model * stride + channel] = norm_follow_mean(running_mean, mean, norm.momentum);
    if (variances)
        variances[model * stride + channel] = norm_follow_variance(running_variance, variance, values, norm.momentum);
}

// The four values that a thread writes. Threads after the model's last values, and those of an idle model, have none.
struct Four {
    uint32_t channel, column; // of all models; of the place
    size_t at;
    bool is_real;
};

// Statistics are numbered by the channels of all models, values by those of one.
__device__ Four four_of(const BatchNorm &norm, const uint32_t *counts) {
    const uint32_t items = norm.channels * norm.quads;
    const ModelItem item = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    Four four = {item.model * norm.channels + item.item / norm.quads, item.item % norm.columns,
                 (size_t)item.model * items + item.item, has_work(item, items, counts)};
    return four;
}

// The channel's values before its relu: one formula for both passes, as in norm.cu.
__device__ float4 affine(float4 normal, float factor, float shift) {
    return shifted(scaled(normal, factor), shift);
}

__device__ float4 given_to(float4 out_gradient, float4 normal, float factor, float shift, bool relu) {
    return relu ? rectified_gradient(out_gradient, affine(normal, factor, shift)) : out_gradient;
}

// The statistics' kernel has written each channel's mean and scale; this one applies them to all values.
__global__ void __launch_bounds__(ITEM_THREADS)
    batch_norm_forward(float4 *out, const ChannelSums *statistics, const float4 *in, const float *parameters,
                       size_t stride, bool relu, BatchNorm norm, const uint32_t *counts) {
    const Four four = four_of(norm, counts);
    if (!four.is_real) return;
    const uint32_t model = four.channel / norm.channels;
    const float *weight = parameters + model * stride + (four.channel - model * norm.channels);
    const float factor = weight[0], shift = weight[norm.channels];
    const float4 value = affine(normalised(in[four.at], statistics[four.channel]), factor, shift);
    out[four.at] = relu ? rectified(value) : value;
}

// Computes the two sums of a channel, which are the gradients of bias and weight, and stores their means for
// batch_norm_backward_input. The running statistics' gradients are zeros: nothing but a batch moves them.
__global__ void __launch_bounds__(THREADS)
    batch_norm_backward_weight(float *gradient, ChannelSums *statistics, const float4 *in, const float4 *out_gradient,
                               const float *parameters, size_t stride, size_t gradient_stride, bool relu,
                               BatchNorm norm, const uint32_t *counts) {
    __shared__ float shared[THREADS];
    const uint32_t model = blockIdx.x / norm.channels, channel = blockIdx.x - model * norm.channels;
    const uint32_t count = counts[model];
    if (count == 0) return; // the whole block
    const ChannelSums of = statistics[blockIdx.x];
    const size_t first = (size_t)blockIdx.x * norm.quads;
    const float *weight = parameters + model * stride + channel, factor = weight[0], shift = weight[norm.channels];
    float sum = 0, product = 0;
    for (uint32_t i = threadIdx.x; i < norm.quads; i += THREADS) {
        const float4 value = normalised(in[first + i], of);
        const float4 all = given_to(out_gradient[first + i], value, factor, shift, relu);
        const float4 given = real_ones(all, i % norm.columns, count);
        sum += sum_of(given);
        product += sum_of(times(given, real_ones(value, i % norm.columns, count)));
    }
    sum = sum_block(shared, sum);
    product = sum_block(shared, product);
    if (threadIdx.x > 0) return;
    const float share = 1.0f / (float)(norm.quads / norm.columns * count);
    statistics[blockIdx.x].gradient = sum * share;
    statistics[blockIdx.x].product = product * share;
    if (!gradient) return;
    gradient += model * gradient_stride + channel;
    gradient[0] = product;
    gradient[norm.channels] = sum;
    gradient[2 * norm.channels] = gradient[3 * norm.channels] = 0;
}

// d in = scale * weight * (d out - mean of that - normalised value * mean of their product). The mean and the product's
// mean are the parts of the gradient that would only move or stretch all values of the channel together, which the
// normalisation undoes.
__global__ void __launch_bounds__(ITEM_THREADS)
    batch_norm_backward_input(float4 *in_gradient, const ChannelSums *statistics, const float4 *in,
                              const float4 *out_gradient, const float *parameters, size_t stride, bool relu,
                              BatchNorm norm, const uint32_t *counts) {
    const Four four = four_of(norm, counts);
    if (!four.is_real) return;
    const uint32_t model = four.channel / norm.channels;
    const ChannelSums of = statistics[four.channel];
    const float *weight = parameters + model * stride + (four.channel - model * norm.channels);
    const float factor = of.scale * weight[0];
    const float4 value = normalised(in[four.at], of);
    const float4 gradient = given_to(out_gradient[four.at], value, weight[0], weight[norm.channels], relu);
    const float4 given = make_float4(factor * (gradient.x - of.gradient - value.x * of.product),
                                     factor * (gradient.y - of.gradient - value.y * of.product),
                                     factor * (gradient.z - of.gradient - value.z * of.product),
                                     factor * (gradient.w - of.gradient - value.w * of.product));
    in_gradient[four.at] = real_ones(given, four.column, counts[model]);
}

// A channel's places and samples are one array of quads here: the statistics run over both.
BatchNorm norm_of(const Layer *layer, const CudaStep *step) {
    const uint32_t columns = (uint32_t)step->samples / 4, plane = (uint32_t)(layer->in.rows * layer->in.columns);
    BatchNorm norm = {(uint32_t)layer->in.channels, plane * columns, columns, norm_epsilon(layer),
                      norm_momentum(layer)};
    return norm;
}

size_t blocks_of(const BatchNorm &norm, const CudaStep *step) {
    return (size_t)step->models * norm.channels;
}

} // namespace

// Two launches, since a channel's values are normalised by blocks that must all know its statistics.
void cuda_batch_norm_forward(float *out, float *statistics, float *means, float *variances, const float *in,
                             const float *parameters, size_t stride, bool trains, bool relu, const Layer *layer,
                             const CudaStep *step) {
    const BatchNorm norm = norm_of(layer, step);
    launch(batch_norm_statistics, blocks_of(norm, step), THREADS, step->stream, (ChannelSums *)statistics, means,
           variances, (const float4 *)in, parameters, stride, trains, norm, step->counts);
    launch_items(batch_norm_forward, norm.channels * norm.quads, step, (float4 *)out, (const ChannelSums *)statistics,
                 (const float4 *)in, parameters, stride, relu, norm);
}

// Every backward pass calls it before the input's gradient, also for a frozen layer, because it computes the two means.
void cuda_batch_norm_backward_weight(float *gradient, float *statistics, const float *in, const float *out_gradient,
                                     const float *parameters, size_t stride, size_t gradient_stride, bool relu,
                                     const Layer *layer, const CudaStep *step) {
    const BatchNorm norm = norm_of(layer, step);
    launch(batch_norm_backward_weight, blocks_of(norm, step), THREADS, step->stream, gradient,
           (ChannelSums *)statistics, (const float4 *)in, (const float4 *)out_gradient, parameters, stride,
           gradient_stride, relu, norm, step->counts);
}

void cuda_batch_norm_backward_input(float *in_gradient, const float *statistics, const float *in,
                                    const float *out_gradient, const float *parameters, size_t stride, bool relu,
                                    const Layer *layer, const CudaStep *step) {
    const BatchNorm norm = norm_of(layer, step);
    launch_items(batch_norm_backward_input, norm.channels * norm.quads, step, (float4 *)in_gradient,
                 (const ChannelSums *)statistics, (const float4 *)in, (const float4 *)out_gradient, parameters, stride,
                 relu, norm);
}
