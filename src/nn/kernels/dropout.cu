// The GPU's side of dropout.c.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"

namespace {

// One bit per feature of the block's four; the key is the model's. A value is kept if its number is at least the rate,
// as on the CPU: the masks are equal, and do not only have as many zeros.
__device__ uint32_t kept_features(RngKey key, uint32_t feature, uint32_t sample, uint32_t number, float rate) {
    RngBlock block = rng_block(key, feature / DROPOUT_FEATURES, sample, number, 0);
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < DROPOUT_FEATURES; i++)
        kept |= (uint32_t)(rng_float(block.word[i]) >= rate) << i;
    return kept;
}

// One byte per sample: the factor of a value is that of its gradient.
__device__ float4 dropped(float4 value, uint32_t kept, float factor) {
    return make_float4(value.x * (kept & 0xffu ? factor : 0), value.y * (kept & 0xff00u ? factor : 0),
                       value.z * (kept & 0xff0000u ? factor : 0), value.w * (kept & 0xff000000u ? factor : 0));
}

// Four features of a sample share one block of random numbers, as on the CPU, so that both draw the same mask. A thread
// draws four samples, and applies what it has drawn to its place. With dropout2d, all threads of a plane draw it again,
// which costs less than a launch and a pass over the values; those of place 0 write the bytes, as one word per feature.
__global__ void __launch_bounds__(ITEM_THREADS)
    dropout_forward(float4 *out, uint32_t *keep, const float4 *in, const RngKey *keys, const uint32_t *numbers,
                    float rate, float factor, uint32_t features, uint32_t plane, uint32_t samples,
                    const uint32_t *counts) {
    uint32_t items = dropout_items(features, plane, samples), quads = samples / DROPOUT_SAMPLES;
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    DropoutPlace place = dropout_place(at.item, features, plane, samples);
    RngKey key = keys[at.model];
    uint32_t number = numbers[at.model], kept = 0; // kept: byte s holds sample s's four bits
#pragma unroll
    for (uint32_t s = 0; s < DROPOUT_SAMPLES; s++)
        kept |= kept_features(key, place.feature, place.sample + s, number, rate) << 8 * s;
    const uint32_t quad = place.sample / DROPOUT_SAMPLES;
    for (uint32_t i = 0; i < place.count; i++) {
        const size_t row = (size_t)at.model * features + place.feature + i;
        const size_t value = (row * plane + place.place) * quads + quad;
        const uint32_t own = (kept >> i & 0x01010101u) * 255u; // four samples, all ones or zeros each
        if (place.place == 0) keep[row * quads + quad] = own;
        out[value] = dropped(in[value], own, factor);
    }
}

// With dropout2d a byte of the mask holds for a whole plane.
__global__ void __launch_bounds__(ITEM_THREADS)
    dropout_backward(float4 *in_gradient, const uint32_t *keep, const float4 *out_gradient, const float4 *relu_out,
                     float factor, uint32_t features, uint32_t plane, uint32_t quads, const uint32_t *counts) {
    uint32_t items = features * plane * quads;
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    uint32_t feature = at.item / (plane * quads), quad = at.item % quads;
    uint32_t kept = keep[((size_t)at.model * features + feature) * quads + quad];
    const size_t place = (size_t)at.model * items + at.item;
    const float4 value = dropped(out_gradient[place], kept, factor);
    in_gradient[place] = relu_out ? rectified_gradient(value, relu_out[place]) : value;
}

} // namespace

void cuda_dropout_forward(float *out, int8_t *keep, const float *in, const RngKey *keys, const uint32_t *numbers,
                          float rate, size_t features, size_t plane, const CudaStep *step) {
    const uint32_t samples = (uint32_t)step->samples;
    launch_items(dropout_forward, dropout_items((uint32_t)features, (uint32_t)plane, samples), step, (float4 *)out,
                 (uint32_t *)keep, (const float4 *)in, keys, numbers, rate, 1.0f / (1.0f - rate), (uint32_t)features,
                 (uint32_t)plane, samples);
}

void cuda_dropout_backward(float *in_gradient, const int8_t *keep, const float *out_gradient, const float *relu_out,
                           float rate, size_t features, size_t plane, const CudaStep *step) {
    uint32_t quads = (uint32_t)step->samples / 4;
    launch_items(dropout_backward, (uint32_t)(features * plane) * quads, step, (float4 *)in_gradient,
                 (const uint32_t *)keep, (const float4 *)out_gradient, (const float4 *)relu_out, 1.0f / (1.0f - rate),
                 (uint32_t)features, (uint32_t)plane, quads);
}
