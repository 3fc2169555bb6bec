// M models at work for op tests: each one's tensors on the host, and all of them on the GPU.
#ifndef SOUNDER_TESTS_GPU_GPU_TRIAL_H
#define SOUNDER_TESTS_GPU_GPU_TRIAL_H

#include "gpu_tensor.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/kernels.h"
#include "tests/tensor.h"

enum { MOST_MODELS = 8, PARAMETER_GAP = 3 }; // floats between two models' parameters: nothing is aligned

typedef struct Trial {
    int models, samples;
    uint32_t counts[MOST_MODELS];
    GpuTensor gpu_counts;
    CudaStep step;
    const Kernels *cpu;
} Trial;

typedef struct Values {
    Tensor host[MOST_MODELS]; // (each)
    GpuTensor gpu;            // (models strided; each)
    size_t each, stride;
    int models;
    const uint32_t *counts;    // of the trial
    bool computes_idle;        // cuBLAS multiplies idle models, too: their values are not looked at
    Tensor began[MOST_MODELS]; // of idle models: what was uploaded; none: NaNs
} Values;

static inline Values values_of(const Trial *trial, size_t each, size_t gap) {
    Values values = {.each = each, .stride = each + gap, .models = trial->models, .counts = trial->counts};
    for (int m = 0; m < values.models; m++)
        values.host[m] = tensor_new(each);
    values.gpu = gpu_new((size_t)values.models * values.stride * sizeof(float), 0);
    return values;
}

static inline float *on_gpu(const Values *values) {
    return gpu_floats(values->gpu);
}

static inline void upload(Values *values) {
    for (int m = 0; m < values->models; m++) {
        check_cuda(cudaMemcpy(on_gpu(values) + (size_t)m * values->stride, values->host[m].at,
                              values->each * sizeof(float), cudaMemcpyHostToDevice));
        if (values->counts[m] > 0) continue;
        if (values->began[m].at) tensor_free(values->began[m]);
        values->began[m] = tensor_new(values->each);
        memcpy(values->began[m].at, values->host[m].at, values->each * sizeof(float));
    }
}

// Random numbers for all models.
static inline Values random_values(const Trial *trial, size_t each, size_t gap, uint32_t stream) {
    Values values = values_of(trial, each, gap);
    for (int m = 0; m < values.models; m++) {
        tensor_free(values.host[m]);
        values.host[m] = tensor_random(each, stream * MOST_MODELS + (uint32_t)m);
    }
    upload(&values);
    return values;
}

static inline Values parameters(const Trial *trial, size_t each, uint32_t stream) {
    return random_values(trial, each, PARAMETER_GAP, stream);
}

// (M, features,N): random in the columns that are real, zero in the others.
static inline Values lanes(const Trial *trial, size_t features, uint32_t stream) {
    size_t columns = (size_t)trial->samples;
    Values values = random_values(trial, features * columns, 0, stream);
    for (int m = 0; m < values.models; m++)
        for (size_t i = 0; i < values.each; i++)
            if (i % columns >= trial->counts[m]) values.host[m].at[i] = 0;
    upload(&values);
    return values;
}

// An idle model's tensors must be as they began: its blocks end at once.
static inline void check_idle(const char *what, const Values *values, int m, const float *actual) {
    for (size_t i = 0; i < values->each; i++)
        if (values->began[m].at ? actual[i] != values->began[m].at[i] : !isnan(actual[i]))
            fail_msg("%s: element %zu of model %d, which is idle, has become %g", what, i, m, (double)actual[i]);
}

// Compares the first `real[m]` of every `columns` (all of them if real is NULL); the others must be finite.
static inline void compare(const char *what, const Values *values, const uint32_t *real, size_t columns,
                           double tolerance) {
    float *actual = malloc(values->gpu.bytes);
    assert_non_null(actual);
    gpu_read(actual, values->gpu);
    for (int m = 0; m < values->models; m++) {
        float *of = actual + (size_t)m * values->stride;
        if (values->counts[m] == 0) {
            if (!values->computes_idle) check_idle(what, values, m, of);
            continue;
        }
        double *expected = doubles(values->host[m].at, values->each);
        for (size_t i = 0; i < values->each; i++)
            if (real && i % columns >= real[m] && isfinite(of[i]) != 0) expected[i] = (double)of[i];
        check_close(what, of, expected, values->each, tolerance);
        free(expected);
        for (size_t i = values->each; i < values->stride && m < values->models - 1; i++)
            if (!isnan(of[i])) fail_msg("%s: written between the parameters of models %d and %d", what, m, m + 1);
    }
    free(actual);
}

static inline void drop(const Values *values) {
    for (int m = 0; m < values->models; m++) {
        tensor_free(values->host[m]);
        if (values->began[m].at) tensor_free(values->began[m]);
    }
    gpu_free(values->gpu);
}

#define drop_all(...)                                                                                                  \
    do {                                                                                                               \
        const Values all_[] = {__VA_ARGS__};                                                                           \
        for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; i_++)                                                     \
            drop(&all_[i_]);                                                                                           \
    } while (0)

static inline bool is_idle(const Trial *trial, int m) {
    return trial->counts[m] == 0;
}

#endif
