// A lockstep net on the GPU with its data, and the CPU's net beside it that starts from the same weights.
#ifndef SOUNDER_TESTS_GPU_GPU_NET_H
#define SOUNDER_TESTS_GPU_GPU_NET_H

#include "gpu_tensor.h"
#include "nn/cuda/cuda_net.h"
#include "nn/net.h"
#include "nn/spec.h"
#include "tests/tensor.h"

enum { GPU_MOST_MODELS = 8, GPU_SAMPLES = 640, GPU_CLASSES = 7 };

static const Sgd gpu_sgd = {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.001f};

typedef struct GpuNet {
    CudaNet *net;
    CudaNetPlan plan;
    uint8_t *pixels;
    uint16_t labels[GPU_SAMPLES];
    uint32_t order[GPU_SAMPLES];
    GpuTensor gpu_pixels, gpu_labels, gpu_order, weights, velocity, gradient;
    Net cpu;
    float *initial; // (models, parameters)
} GpuNet;

static inline float *gpu_initial(const GpuNet *on, int m) {
    return on->initial + (size_t)m * on->plan.spec.parameter_count;
}

static inline void gpu_net_data(GpuNet *on, Shape shape) {
    size_t bytes = GPU_SAMPLES * shape_size(shape);
    RngKey key = rng_key(1, RNG_SYNTHETIC, 0, 0, 0);
    on->pixels = malloc(bytes);
    assert_non_null(on->pixels);
    for (size_t p = 0; p < bytes; p++)
        on->pixels[p] = (uint8_t)(rng_block(key, (uint32_t)p, 0, 0, 0).word[0] >> 24);
    for (uint32_t s = 0; s < GPU_SAMPLES; s++) {
        on->labels[s] = (uint16_t)rng_below(rng_block(key, s, 1, 0, 0).word[0], GPU_CLASSES);
        on->order[s] = s * 37 % GPU_SAMPLES;
    }
    on->gpu_pixels = gpu_copy(on->pixels, bytes, 0);
    on->gpu_labels = gpu_copy(on->labels, sizeof on->labels, 0);
    on->gpu_order = gpu_copy(on->order, sizeof on->order, 0);
}

// Everything that a plan points to; the caller may change the plan before gpu_net_start.
static inline void gpu_net_prepare(GpuNet *on, const char *model, Shape shape, int models, uint32_t batch_size) {
    Error err;
    char text[SPEC_TEXT_BYTES];
    *on = (GpuNet){.plan = {.models = models, .batch_size = batch_size, .sgd = gpu_sgd}};
    CudaNetPlan *plan = &on->plan;
    zoo_expand(text, sizeof text, model, GPU_CLASSES);
    check_ok(spec_parse(&plan->spec, text, shape, GPU_CLASSES, &err));
    check_ok(net_init(&on->cpu, &plan->spec, kernels_best(), &err));
    gpu_net_data(on, shape);
    for (int c = 0; c < shape.channels; c++) {
        plan->scale[c] = 0.01f + 0.002f * (float)c;
        plan->shift[c] = -1 + 0.1f * (float)c;
    }
    size_t count = plan->spec.parameter_count, bytes = (size_t)models * count * sizeof(float);
    on->initial = malloc(bytes);
    assert_non_null(on->initial);
    for (int m = 0; m < models; m++)
        spec_initialise(gpu_initial(on, m), &plan->spec, (uint64_t)m);
    on->weights = gpu_copy(on->initial, bytes, 0);
    on->velocity = gpu_zeros(bytes);
    on->gradient = gpu_new(bytes, 0);
    plan->pixels = on->gpu_pixels.at;
    plan->labels = (const uint16_t *)(const void *)on->gpu_labels.at;
    plan->order = gpu_at(on->gpu_order);
    plan->weights = gpu_floats(on->weights);
    plan->weights_stride = plan->stride = count;
    plan->velocity = gpu_floats(on->velocity);
    plan->gradient = gpu_floats(on->gradient);
}

static inline void gpu_net_start(GpuNet *on, const char *model, Shape shape, int models, uint32_t batch_size) {
    Error err;
    gpu_net_prepare(on, model, shape, models, batch_size);
    check_ok(cuda_net_init(&on->net, &on->plan, &err));
}

static inline void gpu_net_stop(GpuNet *on) {
    cuda_net_free(on->net);
    const GpuTensor all[] = {on->gpu_pixels, on->gpu_labels, on->gpu_order, on->weights, on->velocity, on->gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(all[i]);
    net_free(&on->cpu);
    free(on->initial);
    free(on->pixels);
}

// The task of model m: `count` samples from a place of its own, with noise of its own.
static inline CudaTask gpu_task(int m, uint32_t count) {
    return (CudaTask){.first = (uint32_t)(m * 13),
                      .count = count,
                      .noise = {.seed = 3, .round = 2, .client = (uint32_t)m, .step = 5}};
}

static inline void gpu_assign(GpuNet *on, int m, uint32_t count) {
    Error err;
    CudaTask task = gpu_task(m, count);
    check_ok(cuda_net_assign(on->net, m, &task, true, &err));
}

// Batch `number` of a task as the CPU takes it.
static inline Batch gpu_batch(const GpuNet *on, const CudaTask *task, uint32_t number) {
    uint32_t first = number * on->plan.batch_size, left = first < task->count ? task->count - first : 0;
    return (Batch){.pixels = on->pixels,
                   .labels = on->labels,
                   .indices = on->order + task->first + first,
                   .count = left < on->plan.batch_size ? left : on->plan.batch_size,
                   .scale = on->plan.scale,
                   .shift = on->plan.shift};
}

// What the GPU computed for all models, (models, parameters); the caller frees it.
static inline float *gpu_download(GpuTensor tensor) {
    float *values = malloc(tensor.bytes);
    assert_non_null(values);
    gpu_read(values, tensor);
    return values;
}

#endif
