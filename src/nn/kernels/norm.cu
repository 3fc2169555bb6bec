// The GPU's side of norm.c. A block works on one group of channels of one model and WIDTH neighbouring quads of
// samples; each column of DEPTH threads shares the group's values, and adds them up in a fixed order.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"

namespace {

enum { WIDTH = 8, DEPTH = 32, NORM_THREADS = WIDTH * DEPTH, MOST_CHANNELS_AT_ONCE = 16 };

// Plain data, an argument of the kernels.
struct Norm {
    uint32_t groups, channels; // of a model; of a group
    uint32_t plane, quads;     // places of a channel; fours of samples
    uint32_t step; // from a row of the group to the next: 1, or all places if a group is the channels of one
    bool singly;   // each value has a weight of its own
    bool repeats;  // all groups share their weights
    float epsilon;
};

// The layer's parameters, of model 0; and whether a relu follows the normalisation.
struct Affine {
    const float *weight, *bias;
    size_t stride;
    bool relu;
};

// The place of a thread: the group's values are rows of `quads`, of which the thread reads every DEPTH-th.
struct Place {
    uint32_t model, group, quad, lane; // a quad >= `quads` has nothing to do
    size_t first;                      // the group's first row
};

// The number of a group's first row among those of its model; the others are `step` apart.
__device__ uint32_t first_row(const Norm &norm, uint32_t group) {
    return norm.step > 1 ? group : group * norm.channels * norm.plane;
}

// Neighbouring threads have neighbouring quads, so that a block reads whole lines; quads beyond the last still take
// part in the sums, with zeros.
__device__ Place place_of(const Norm &norm) {
    const uint32_t segments = parts_of(norm.quads, WIDTH), group = blockIdx.x / segments;
    Place place;
    place.model = group / norm.groups;
    place.group = group - place.model * norm.groups;
    place.quad = (blockIdx.x - group * segments) * WIDTH + threadIdx.x % WIDTH;
    place.lane = threadIdx.x / WIDTH;
    place.first = (size_t)place.model * norm.groups * norm.channels * norm.plane + first_row(norm, place.group);
    return place;
}

// Sums over a column of threads; all of them get the sum.
__device__ float4 sum_column(float4 (&shared)[DEPTH][WIDTH], float4 value) {
    const uint32_t lane = threadIdx.x / WIDTH, column = threadIdx.x % WIDTH;
    __syncthreads(); // the former sum has been read
    shared[lane][column] = value;
    for (uint32_t left = DEPTH / 2; left > 0; left /= 2) {
        __syncthreads();
        if (lane < left) shared[lane][column] = plus(shared[lane][column], shared[lane + left][column]);
    }
    __syncthreads();
    return shared[0][column];
}

__device__ float scale_of(float variance, float epsilon) {
    return 1.0f / sqrtf(variance + epsilon);
}

// Offset of the first weight of the place's group; and the number within the group of a row's weight.
__device__ size_t first_weight(const Norm &norm, const Place &place, size_t stride) {
    const uint32_t weights = norm.channels * (norm.singly ? norm.plane : 1);
    return place.model * stride + (norm.repeats ? 0 : (size_t)place.group * weights);
}

__device__ uint32_t weight_of(const Norm &norm, uint32_t row) {
    return norm.singly ? row : row / norm.plane;
}

// The layer's values before its relu: one formula for the forward pass and for the backward pass, which computes them
// again to see where the relu stopped them.
__device__ float4 affine(float4 value, float4 mean, float4 scale, float weight, float bias) {
    return shifted(times(minus(value, mean), scaled(scale, weight)), bias);
}

// The gradient of a value of the normalisation, from that of the relu's output.
__device__ float4 given_to(float4 out_gradient, float4 value, float4 mean, float4 scale, const Affine &of, size_t own) {
    if (!of.relu) return out_gradient;
    return rectified_gradient(out_gradient, affine(value, mean, scale, of.weight[own], of.bias[own]));
}

// Three passes over the group's values: mean, variance and result. The variance is that of distances from the mean, as
// on the CPU: the difference of mean square and squared mean would cancel. The result is the third pass rather than a
// second kernel, because the block that has the statistics in registers still has the values in its cache.
__global__ void __launch_bounds__(NORM_THREADS)
    norm_forward(float4 *out, float4 *statistics, const float4 *in, Affine of, Norm norm, const uint32_t *counts) {
    __shared__ float4 shared[DEPTH][WIDTH];
    const Place place = place_of(norm);
    if (counts[place.model] == 0) return; // the whole block
    const uint32_t rows = place.quad < norm.quads ? norm.channels * norm.plane : 0;
    const float share = 1.0f / (float)(norm.channels * norm.plane);
    const float4 *from = in + place.first * norm.quads + place.quad;
    float4 sum = make_float4(0, 0, 0, 0);
    for (uint32_t row = place.lane; row < rows; row += DEPTH)
        sum = plus(sum, from[(size_t)row * norm.step * norm.quads]);
    const float4 mean = scaled(sum_column(shared, sum), share);
    sum = make_float4(0, 0, 0, 0);
    for (uint32_t row = place.lane; row < rows; row += DEPTH) {
        const float4 distance = minus(from[(size_t)row * norm.step * norm.quads], mean);
        sum = plus(sum, times(distance, distance));
    }
    const float4 variance = scaled(sum_column(shared, sum), share);
    const float4 scale = make_float4(scale_of(variance.x, norm.epsilon), scale_of(variance.y, norm.epsilon),
                                     scale_of(variance.z, norm.epsilon), scale_of(variance.w, norm.epsilon));
    const size_t first = first_weight(norm, place, of.stride);
    for (uint32_t row = place.lane; row < rows; row += DEPTH) {
        const size_t own = first + weight_of(norm, row);
        const float4 value =
            affine(from[(size_t)row * norm.step * norm.quads], mean, scale, of.weight[own], of.bias[own]);
        out[(place.first + (size_t)row * norm.step) * norm.quads + place.quad] = of.relu ? rectified(value) : value;
    }
    if (place.lane > 0 || rows == 0) return;
    statistics += 2 * ((size_t)place.model * norm.groups + place.group) * norm.quads + place.quad;
    statistics[0] = mean;
    statistics[norm.quads] = scale;
}

// With g = w d out and v the normalised value: d in = scale * (g - mean of g - v * mean of g v). Both means are
// sums over the group, which a first pass takes; this second pass writes the gradient. at: the place of the group's
// first row; first: of its first weight.
__device__ void write_gradient(float4 *in_gradient, const float4 *in, const float4 *out_gradient, float4 mean,
                               float4 scale, float4 gradients, float4 products, const Affine &of, const Norm &norm,
                               const Place &place, uint32_t rows, size_t at, size_t first) {
    for (uint32_t row = place.lane; row < rows; row += DEPTH) {
        const size_t i = at + (size_t)row * norm.step * norm.quads, own = first + weight_of(norm, row);
        const float4 given = given_to(out_gradient[i], in[i], mean, scale, of, own);
        const float4 value = times(minus(in[i], mean), scale), gradient = scaled(given, of.weight[own]);
        in_gradient[i] = times(scale, minus(minus(gradient, gradients), times(value, products)));
    }
}

__global__ void __launch_bounds__(NORM_THREADS)
    norm_backward_input(float4 *in_gradient, const float4 *statistics, const float4 *in, const float4 *out_gradient,
                        Affine of, Norm norm, const uint32_t *counts) {
    __shared__ float4 shared[DEPTH][WIDTH];
    const Place place = place_of(norm);
    if (counts[place.model] == 0) return; // the whole block
    const uint32_t rows = place.quad < norm.quads ? norm.channels * norm.plane : 0;
    const float share = 1.0f / (float)(norm.channels * norm.plane);
    const size_t at = place.first * norm.quads + place.quad, first = first_weight(norm, place, of.stride);
    float4 mean = make_float4(0, 0, 0, 0), scale = mean, gradients = mean, products = mean;
    if (rows > 0) {
        statistics += 2 * ((size_t)place.model * norm.groups + place.group) * norm.quads + place.quad;
        mean = statistics[0];
        scale = statistics[norm.quads];
    }
    for (uint32_t row = place.lane; row < rows; row += DEPTH) {
        const size_t i = at + (size_t)row * norm.step * norm.quads, own = first + weight_of(norm, row);
        const float4 gradient = scaled(given_to(out_gradient[i], in[i], mean, scale, of, own), of.weight[own]);
        gradients = plus(gradients, gradient);
        products = plus(products, times(gradient, times(minus(in[i], mean), scale)));
    }
    gradients = scaled(sum_column(shared, gradients), share);
    products = scaled(sum_column(shared, products), share);
    write_gradient(in_gradient, in, out_gradient, mean, scale, gradients, products, of, norm, place, rows, at, first);
}

// A channel's terms of the gradients of its weight and bias.
struct ChannelSums {
    float product, sum;
    __device__ ChannelSums &operator+=(const ChannelSums &other) {
        product += other.product;
        sum += other.sum;
        return *this;
    }
};

// All gradients at once, where a block has a group's values of all samples and each channel has one weight: the first
// pass takes the sums of one channel after the other, of each sample for the input's gradient and of all samples for
// the weight's, and so reads values and gradients once for both. Three blocks on a multiprocessor: for Turing the
// compiler would otherwise keep to 64 registers, and spill.
__global__ void __launch_bounds__(NORM_THREADS, 3)
    norm_backward(float *weight_gradient, float *bias_gradient, size_t gradient_stride, float4 *in_gradient,
                  const float4 *statistics, const float4 *in, const float4 *out_gradient, Affine of, Norm norm,
                  const uint32_t *counts) {
    __shared__ float4 shared[DEPTH][WIDTH];
    __shared__ ChannelSums sums[NORM_THREADS];
    const Place place = place_of(norm);
    if (counts[place.model] == 0) return; // the whole block
    const bool is_real = place.quad < norm.quads;
    const size_t at = place.first * norm.quads + place.quad, first = first_weight(norm, place, of.stride);
    const size_t own = place.model * gradient_stride + (size_t)place.group * norm.channels;
    const float share = 1.0f / (float)(norm.channels * norm.plane);
    float4 mean = make_float4(0, 0, 0, 0), scale = mean, gradients = mean, products = mean;
    if (is_real) {
        statistics += 2 * ((size_t)place.model * norm.groups + place.group) * norm.quads + place.quad;
        mean = statistics[0];
        scale = statistics[norm.quads];
    }
    for (uint32_t channel = 0; channel < norm.channels; channel++) {
        float4 sum = make_float4(0, 0, 0, 0), product = sum;
        for (uint32_t row = place.lane; is_real && row < norm.plane; row += DEPTH) {
            const size_t i = at + ((size_t)channel * norm.plane + row) * norm.quads;
            const float4 value = in[i], given = given_to(out_gradient[i], value, mean, scale, of, first + channel);
            sum = plus(sum, given);
            product = plus(product, times(given, times(minus(value, mean), scale)));
        }
        gradients = plus(gradients, scaled(sum, of.weight[first + channel]));
        products = plus(products, scaled(product, of.weight[first + channel]));
        const ChannelSums all = sum_block(sums, ChannelSums{sum_of(product), sum_of(sum)});
        if (threadIdx.x > 0) continue;
        weight_gradient[own + channel] = all.product;
        bias_gradient[own + channel] = all.sum;
    }
    gradients = scaled(sum_column(shared, gradients), share);
    products = scaled(sum_column(shared, products), share);
    write_gradient(in_gradient, in, out_gradient, mean, scale, gradients, products, of, norm, place,
                   is_real ? norm.channels * norm.plane : 0, at, first);
}

// Offsets of the i-th four gradients that one weight sums up, and of the statistics of their group.
struct Source {
    size_t at, statistics;
};

// There are four layouts: a weight per channel, whose rows are the channel's places; a weight per value; and a weight
// per value of a row, or per channel of a place, which all groups share.
__device__ Source source_of(const Norm &norm, uint32_t model, uint32_t own, uint32_t i) {
    const uint32_t row = i / norm.quads, quad = i - row * norm.quads, values = norm.channels * norm.plane;
    const uint32_t group = norm.repeats ? row : norm.singly ? own / values : own / norm.channels;
    const uint32_t place = norm.repeats  ? first_row(norm, row) + own * norm.step
                           : norm.singly ? own
                                         : own * norm.plane + row;
    Source source;
    source.at = ((size_t)model * norm.groups * values + place) * norm.quads + quad;
    source.statistics = 2 * ((size_t)model * norm.groups + group) * norm.quads + quad;
    return source;
}

// Sums over the places and samples of one weight. A block per model and weight. The sums of weight and bias run
// over samples, while those of norm_backward_input stay within a sample: hence a kernel of its own. Its threads'
// sums are halved in pairs, in a fixed order.
__global__ void __launch_bounds__(NORM_THREADS)
    norm_backward_weight(float *weight_gradient, float *bias_gradient, size_t gradient_stride, const float4 *statistics,
                         const float4 *in, const float4 *out_gradient, Affine of, Norm norm, const uint32_t *counts) {
    __shared__ float shared[NORM_THREADS];
    const uint32_t all = norm.groups * norm.channels;
    const uint32_t weights = norm.repeats ? norm.channels * norm.plane : all * (norm.singly ? norm.plane : 1);
    const uint32_t model = blockIdx.x / weights, own = blockIdx.x - model * weights;
    if (counts[model] == 0) return;                                                  // the whole block
    const uint32_t rows = norm.repeats ? norm.groups : norm.singly ? 1 : norm.plane; // with the weight
    float product = 0, sum = 0;
    for (uint32_t i = threadIdx.x; i < rows * norm.quads; i += NORM_THREADS) {
        const Source source = source_of(norm, model, own, i);
        const float4 *from = statistics + source.statistics, mean = from[0], scale = from[norm.quads];
        const float4 given = given_to(out_gradient[source.at], in[source.at], mean, scale, of, model * of.stride + own);
        const float4 value = times(minus(in[source.at], mean), scale);
        product += sum_of(times(given, value));
        sum += sum_of(given);
    }
    product = sum_block(shared, product);
    sum = sum_block(shared, sum);
    if (threadIdx.x > 0) return;
    weight_gradient[model * gradient_stride + own] = product;
    bias_gradient[model * gradient_stride + own] = sum;
}

// The sizes as kernels read them: with `each` a row is a group of one channel, with `across` a place is a group of
// channels of one place. So the kernels have one form for all four layouts of weights.
Norm norm_of(const Layer *layer, const CudaStep *step) {
    Norm norm;
    norm.groups = (uint32_t)layer->groups;
    norm.channels = (uint32_t)(layer->each ? 1 : layer->in.channels / (layer->across ? 1 : layer->groups));
    norm.plane = (uint32_t)((layer->each ? 1 : layer->in.rows) * layer->in.columns);
    norm.step = layer->across ? norm.plane : 1;
    if (layer->across) norm.plane = 1;
    norm.quads = (uint32_t)step->samples / 4;
    norm.singly = layer->each || norm_weights(layer) > (size_t)layer->in.channels;
    norm.repeats = layer->each || layer->across;
    norm.epsilon = norm_epsilon(layer);
    return norm;
}

size_t blocks_of(const Norm &norm, const CudaStep *step) {
    return (size_t)step->models * norm.groups * parts_of(norm.quads, WIDTH);
}

} // namespace

void cuda_norm_forward(float *out, float *statistics, const float *in, const float *weight, const float *bias,
                       size_t stride, bool relu, const Layer *layer, const CudaStep *step) {
    const Norm norm = norm_of(layer, step);
    const Affine of = {weight, bias, stride, relu};
    launch(norm_forward, blocks_of(norm, step), NORM_THREADS, step->stream, (float4 *)out, (float4 *)statistics,
           (const float4 *)in, of, norm, step->counts);
}

// A block adds up its group's channels one after the other, which takes longer than a second launch if they are many.
bool cuda_norm_backs_at_once(const Layer *layer, const CudaStep *step) {
    const Norm norm = norm_of(layer, step);
    return norm.quads <= WIDTH && !norm.singly && !norm.repeats && norm.channels <= MOST_CHANNELS_AT_ONCE;
}

void cuda_norm_backward(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *statistics,
                        const float *in, const float *out_gradient, const float *weight, const float *bias,
                        size_t stride, size_t gradient_stride, bool relu, const Layer *layer, const CudaStep *step) {
    const Norm norm = norm_of(layer, step);
    const Affine of = {weight, bias, stride, relu};
    if (in_gradient && weight_gradient && cuda_norm_backs_at_once(layer, step)) {
        launch(norm_backward, blocks_of(norm, step), NORM_THREADS, step->stream, weight_gradient, bias_gradient,
               gradient_stride, (float4 *)in_gradient, (const float4 *)statistics, (const float4 *)in,
               (const float4 *)out_gradient, of, norm, step->counts);
        return;
    }
    if (in_gradient)
        launch(norm_backward_input, blocks_of(norm, step), NORM_THREADS, step->stream, (float4 *)in_gradient,
               (const float4 *)statistics, (const float4 *)in, (const float4 *)out_gradient, of, norm, step->counts);
    if (weight_gradient)
        launch(norm_backward_weight, (size_t)step->models * norm_weights(layer), NORM_THREADS, step->stream,
               weight_gradient, bias_gradient, gradient_stride, (const float4 *)statistics, (const float4 *)in,
               (const float4 *)out_gradient, of, norm, step->counts);
}
