// The GPU's side of activation.c, and copies of parts of tensors.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/kernels/activation.h"

namespace {

// Relu treats all columns alike, so a thread takes four neighbouring floats: a warp then reads 512 bytes in a row.
__global__ void __launch_bounds__(ITEM_THREADS) relu_forward(float4 *values, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    values[i] = rectified(values[i]);
}

// In place, as on the CPU: the output tells where the gradient stops.
__global__ void __launch_bounds__(ITEM_THREADS)
    relu_backward(float4 *gradient, const float4 *out, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    gradient[i] = rectified_gradient(gradient[i], out[i]);
}

// The function is a template parameter, so that each kernel computes one without a branch; the formulas are the CPU's
// (activation.h).
template <Activation KIND> __device__ float value_of(float x, float number) {
#define APPLY(kind, name)                                                                                              \
    if (KIND == kind) return name##_value(x, number);
    ACTIVATIONS(APPLY)
#undef APPLY
    return x;
}

template <Activation KIND> __device__ float derivative_of(float x, float number) {
#define APPLY(kind, name)                                                                                              \
    if (KIND == kind) return name##_derivative(x, number);
    ACTIVATIONS(APPLY)
#undef APPLY
    return x;
}

// Columns without a sample are computed, too: their values are finite, and their gradient is zero.
template <Activation KIND>
__global__ void __launch_bounds__(ITEM_THREADS)
    activation_forward(float4 *out, const float4 *in, float number, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    float4 x = in[i];
    out[i] = make_float4(value_of<KIND>(x.x, number), value_of<KIND>(x.y, number), value_of<KIND>(x.z, number),
                         value_of<KIND>(x.w, number));
}

// The backward pass computes the derivative from the input again. Storing it on the forward pass would cost a tensor
// and its traffic, and these kernels wait for memory, not for arithmetic.
template <Activation KIND>
__global__ void __launch_bounds__(ITEM_THREADS)
    activation_backward(float4 *in_gradient, const float4 *in, const float4 *out_gradient, float number, uint32_t items,
                        const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    float4 x = in[i], gradient = out_gradient[i];
    in_gradient[i] =
        make_float4(gradient.x * derivative_of<KIND>(x.x, number), gradient.y * derivative_of<KIND>(x.y, number),
                    gradient.z * derivative_of<KIND>(x.z, number), gradient.w * derivative_of<KIND>(x.w, number));
}

// One thread computes four samples of one value; `each`: such threads of one slope. A division finds the slope: a grid
// with an axis of slopes would leave blocks half empty where planes are small.
__global__ void __launch_bounds__(ITEM_THREADS)
    prelu_forward(float4 *out, const float4 *in, const float *weight, size_t stride, uint32_t each, uint32_t items,
                  const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    const float slope = weight[at.model * stride + at.item / each];
    const float4 x = in[i];
    out[i] =
        make_float4(leaky_value(x.x, slope), leaky_value(x.y, slope), leaky_value(x.z, slope), leaky_value(x.w, slope));
}

// The slope is read from memory again, not kept: neighbouring threads share it, and its cache line serves them all.
__global__ void __launch_bounds__(ITEM_THREADS)
    prelu_backward_input(float4 *in_gradient, const float4 *in, const float4 *out_gradient, const float *weight,
                         size_t stride, uint32_t each, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    const float slope = weight[at.model * stride + at.item / each];
    const float4 x = in[i], gradient = out_gradient[i];
    in_gradient[i] = make_float4(gradient.x * leaky_derivative(x.x, slope), gradient.y * leaky_derivative(x.y, slope),
                                 gradient.z * leaky_derivative(x.z, slope), gradient.w * leaky_derivative(x.w, slope));
}

// A slope's share in the loss: it acts on negative values alone.
__device__ float below_zero(float x, float gradient) {
    return x > 0 ? 0 : x * gradient;
}

// A block per model and slope sums x * gradient over the negative x. One block takes all of it, without atomic
// additions, so that the order of the sum depends on nothing but the layer's and the batch's size.
__global__ void __launch_bounds__(ITEM_THREADS)
    prelu_backward_weight(float *weight_gradient, const float4 *in, const float4 *out_gradient, size_t stride,
                          uint32_t slopes, uint32_t each, const uint32_t *counts) {
    __shared__ float shared[ITEM_THREADS];
    const uint32_t model = blockIdx.x / slopes, slope = blockIdx.x - model * slopes;
    if (counts[model] == 0) return; // the whole block
    float sum = 0;
    for (uint32_t quad = threadIdx.x; quad < each; quad += ITEM_THREADS) {
        const float4 x = in[(size_t)blockIdx.x * each + quad],
                     gradient = out_gradient[(size_t)blockIdx.x * each + quad];
        sum += (below_zero(x.x, gradient.x) + below_zero(x.y, gradient.y)) +
               (below_zero(x.z, gradient.z) + below_zero(x.w, gradient.w));
    }
    sum = sum_block(shared, sum);
    if (threadIdx.x == 0) weight_gradient[model * stride + slope] = sum;
}

// A sum of two layers' values, and the relu after it: in a residual net a launch of its own would read and write the
// tensor once more.
__global__ void __launch_bounds__(ITEM_THREADS)
    sum_forward(float4 *out, const float4 *in, const float4 *other, bool relu, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    const float4 sum = plus(in[i], other[i]);
    out[i] = relu ? rectified(sum) : sum;
}

// The relu's gradient is that of both terms. The output tells where it stops, as in relu_backward.
__global__ void __launch_bounds__(ITEM_THREADS)
    sum_backward(float4 *gradient, float4 *other_gradient, bool other_adds, const float4 *out, uint32_t items,
                 const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const size_t i = (size_t)at.model * items + at.item;
    const float4 given = rectified_gradient(gradient[i], out[i]);
    gradient[i] = given;
    if (other_gradient) other_gradient[i] = other_adds ? plus(other_gradient[i], given) : given;
}

// One thread computes four samples of one value of the product; a_plane, b_plane: values that one value of the factor
// serves.
__global__ void __launch_bounds__(ITEM_THREADS)
    mul_forward(float4 *out, const float4 *a, const float4 *b, uint32_t a_plane, uint32_t b_plane, uint32_t quads,
                uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const uint32_t feature = at.item / quads, quad = at.item - feature * quads;
    const float4 left = a[(size_t)at.model * (items / a_plane) + feature / a_plane * quads + quad];
    const float4 right = b[(size_t)at.model * (items / b_plane) + feature / b_plane * quads + quad];
    out[(size_t)at.model * items + at.item] = times(left, right);
}

// PARTS threads per four samples of a value of one factor add up what that value served, each thread every PARTS-th
// product; the parts are then added in pairs, in one order. items: of the factor whose gradient this is; plane,
// factor_plane: values that one value of it, and of the other factor, serves. Sixteen neighbouring items share a warp's
// reads.
template <uint32_t PARTS>
__global__ void __launch_bounds__(ITEM_THREADS)
    mul_backward(float4 *gradient, bool adds, const float4 *factor, const float4 *out_gradient, uint32_t plane,
                 uint32_t factor_plane, uint32_t quads, uint32_t items, const uint32_t *counts) {
    constexpr uint32_t ITEMS = ITEM_THREADS / PARTS;
    __shared__ float4 parts[PARTS][ITEMS];
    const uint32_t place = threadIdx.x % ITEMS, part = threadIdx.x / ITEMS;
    const ModelItem at = model_item(blockIdx.x, place, ITEMS, items);
    if (counts[at.model] == 0) return; // the whole block
    const uint32_t feature = at.item / quads, quad = at.item - feature * quads;
    const float4 *given = out_gradient + (size_t)at.model * items * plane + quad;
    const float4 *of = factor + (size_t)at.model * (items * (size_t)plane / factor_plane) + quad;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 2
    for (uint32_t p = feature * plane + part; at.item < items && p < (feature + 1) * plane; p += PARTS)
        sum = plus(sum, times(given[(size_t)p * quads], of[(size_t)(p / factor_plane) * quads]));
    for (uint32_t half = PARTS / 2; half > 0; half /= 2) {
        parts[part][place] = sum;
        __syncthreads();
        if (part < half) sum = plus(sum, parts[part + half][place]);
        __syncthreads();
    }
    if (part > 0 || at.item >= items) return;
    float4 *to = gradient + (size_t)at.model * items + at.item;
    *to = adds ? plus(*to, sum) : sum;
}

// Copies or adds features of tensors with `to_all` and `from_all` floats per model. A thread handles four samples of
// one feature. Copies serve concat, which puts two tensors side by side, and layers that work in place but may not
// (cuda_values.c).
__global__ void __launch_bounds__(ITEM_THREADS) add_rows(float4 *to, const float4 *from, size_t to_all, size_t from_all,
                                                         bool adds, uint32_t items, const uint32_t *counts) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    to += at.model * to_all + at.item;
    const float4 more = from[at.model * from_all + at.item], old = *to;
    *to = adds ? plus(old, more) : more;
}

// Vectors of four samples of one model. Columns are whole vectors (columns_of in cuda_tasks.c), so that none belongs to
// two values.
uint32_t items_of(size_t features, const CudaStep *step) {
    return (uint32_t)(features * (size_t)step->samples / 4);
}

uint32_t items_of(const Layer *layer, const CudaStep *step) {
    return items_of(shape_size(layer->in), step);
}

} // namespace

void cuda_relu_forward(float *values, size_t features, const CudaStep *step) {
    const uint32_t items = items_of(features, step);
    launch_items(relu_forward, items, step, (float4 *)values, items);
}

void cuda_relu_backward(float *gradient, const float *out, size_t features, const CudaStep *step) {
    const uint32_t items = items_of(features, step);
    launch_items(relu_backward, items, step, (float4 *)gradient, (const float4 *)out, items);
}

// The host chooses the kernel once per launch; a switch in the kernel would make all threads pay for it.
void cuda_activation_forward(float *out, const float *in, const Layer *layer, const CudaStep *step) {
    const uint32_t items = items_of(layer, step);
    void (*kernel)(float4 *, const float4 *, float, uint32_t, const uint32_t *) = NULL;
#define CHOOSE(kind, name)                                                                                             \
    if (layer->activation == kind) kernel = activation_forward<kind>;
    ACTIVATIONS(CHOOSE)
#undef CHOOSE
    launch_items(kernel, items, step, (float4 *)out, (const float4 *)in, layer->rate, items);
}

void cuda_activation_backward(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                              const CudaStep *step) {
    const uint32_t items = items_of(layer, step);
    void (*kernel)(float4 *, const float4 *, const float4 *, float, uint32_t, const uint32_t *) = NULL;
#define CHOOSE(kind, name)                                                                                             \
    if (layer->activation == kind) kernel = activation_backward<kind>;
    ACTIVATIONS(CHOOSE)
#undef CHOOSE
    launch_items(kernel, items, step, (float4 *)in_gradient, (const float4 *)in, (const float4 *)out_gradient,
                 layer->rate, items);
}

void cuda_prelu_forward(float *out, const float *in, const float *weight, size_t stride, const Layer *layer,
                        const CudaStep *step) {
    const uint32_t items = items_of(layer, step);
    launch_items(prelu_forward, items, step, (float4 *)out, (const float4 *)in, weight, stride,
                 items / (uint32_t)layer->groups, items);
}

void cuda_prelu_backward_input(float *in_gradient, const float *in, const float *out_gradient, const float *weight,
                               size_t stride, const Layer *layer, const CudaStep *step) {
    const uint32_t items = items_of(layer, step);
    launch_items(prelu_backward_input, items, step, (float4 *)in_gradient, (const float4 *)in,
                 (const float4 *)out_gradient, weight, stride, items / (uint32_t)layer->groups, items);
}

void cuda_prelu_backward_weight(float *weight_gradient, const float *in, const float *out_gradient, size_t stride,
                                const Layer *layer, const CudaStep *step) {
    const uint32_t slopes = (uint32_t)layer->groups;
    launch(prelu_backward_weight, (size_t)step->models * slopes, ITEM_THREADS, step->stream, weight_gradient,
           (const float4 *)in, (const float4 *)out_gradient, stride, slopes, items_of(layer, step) / slopes,
           step->counts);
}

void cuda_sum_forward(float *out, const float *in, const float *other, bool relu, size_t features,
                      const CudaStep *step) {
    const uint32_t items = items_of(features, step);
    launch_items(sum_forward, items, step, (float4 *)out, (const float4 *)in, (const float4 *)other, relu, items);
}

void cuda_sum_backward(float *gradient, float *other_gradient, bool other_adds, const float *out, size_t features,
                       const CudaStep *step) {
    const uint32_t items = items_of(features, step);
    launch_items(sum_backward, items, step, (float4 *)gradient, (float4 *)other_gradient, other_adds,
                 (const float4 *)out, items);
}

void cuda_mul_forward(float *out, const float *a, const float *b, size_t a_features, size_t b_features,
                      size_t out_features, const CudaStep *step) {
    const uint32_t quads = (uint32_t)step->samples / 4, items = (uint32_t)out_features * quads;
    launch_items(mul_forward, items, step, (float4 *)out, (const float4 *)a, (const float4 *)b,
                 (uint32_t)(out_features / a_features), (uint32_t)(out_features / b_features), quads, items);
}

void cuda_mul_backward(float *gradient, bool adds, const float *factor, const float *out_gradient, size_t features,
                       size_t factor_features, size_t out_features, const CudaStep *step) {
    enum { PARTS = 16, LEAST_PLANE = 2 * PARTS };
    const uint32_t quads = (uint32_t)step->samples / 4, items = (uint32_t)features * quads;
    const uint32_t plane = (uint32_t)(out_features / features);
    const uint32_t parts = plane < LEAST_PLANE ? 1 : PARTS; // by the plane alone, and so are the bits
    launch(parts == 1 ? mul_backward<1> : mul_backward<PARTS>,
           (size_t)step->models * parts_of(items, ITEM_THREADS / parts), ITEM_THREADS, step->stream, (float4 *)gradient,
           adds, (const float4 *)factor, (const float4 *)out_gradient, plane,
           (uint32_t)(out_features / factor_features), quads, items, step->counts);
}

void cuda_add(CudaRows to, CudaRows from, size_t features, bool adds, const CudaStep *step) {
    const size_t quads = (size_t)step->samples / 4;
    const uint32_t items = (uint32_t)(features * quads);
    launch_items(add_rows, items, step, (float4 *)to.at + to.first * quads,
                 (const float4 *)from.at + from.first * quads, to.all * quads, from.all * quads, adds, items);
}
