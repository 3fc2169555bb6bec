// Buffers on the GPU for op tests, between guard bands that a test checks afterwards. On the emulated GPU and on a
// real one alike.
//
//   GpuTensor weight = gpu_copy(values, count * sizeof *values, 4);   // begins 4 bytes behind an aligned address
//   cuda_op(gpu_floats(out), gpu_floats(weight), ...);
//   gpu_read(values, out);
//   gpu_free(out);                                                      // fails if something was written outside
#ifndef SOUNDER_TESTS_GPU_GPU_TENSOR_H
#define SOUNDER_TESTS_GPU_GPU_TENSOR_H

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

enum { GPU_GUARD_BYTES = 512 };

typedef struct GpuTensor {
    unsigned char *base, *at; // device; owned; `bytes` from `at` on lie between the guards
    size_t bytes;
} GpuTensor;

#define check_cuda(call)                                                                                               \
    do {                                                                                                               \
        cudaError_t check_cuda_ = (call);                                                                              \
        if (check_cuda_ != cudaSuccess) fail_msg("%s: %s", #call, cudaGetErrorString(check_cuda_));                    \
    } while (0)

// Filled with 0xff, and so are the guards: NaN as floats, so that what is read before it is written shows. `offset`
// bytes behind a 16-byte aligned address.
static inline GpuTensor gpu_new(size_t bytes, size_t offset) {
    GpuTensor tensor = {.bytes = bytes};
    size_t all = bytes + 2 * GPU_GUARD_BYTES + offset;
    void *base = NULL;
    check_cuda(cudaMalloc(&base, all));
    check_cuda(cudaMemset(base, 0xff, all));
    tensor.base = base;
    tensor.at = tensor.base + GPU_GUARD_BYTES + offset;
    return tensor;
}

static inline GpuTensor gpu_copy(const void *values, size_t bytes, size_t offset) {
    GpuTensor tensor = gpu_new(bytes, offset);
    check_cuda(cudaMemcpy(tensor.at, values, bytes, cudaMemcpyHostToDevice));
    return tensor;
}

static inline GpuTensor gpu_zeros(size_t bytes) {
    GpuTensor tensor = gpu_new(bytes, 0);
    check_cuda(cudaMemset(tensor.at, 0, bytes));
    return tensor;
}

// As a pointer to whatever is wanted.
static inline void *gpu_at(GpuTensor tensor) {
    return tensor.at;
}

static inline float *gpu_floats(GpuTensor tensor) {
    return (float *)(void *)tensor.at;
}

// Waits for everything that was launched. values: tensor.bytes.
static inline void gpu_read(void *values, GpuTensor tensor) {
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(values, tensor.at, tensor.bytes, cudaMemcpyDeviceToHost));
}

static inline void gpu_free(GpuTensor tensor) {
    size_t all = (size_t)(tensor.at - tensor.base) + tensor.bytes + GPU_GUARD_BYTES;
    unsigned char *copy = malloc(all);
    assert_non_null(copy);
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(copy, tensor.base, all, cudaMemcpyDeviceToHost));
    size_t first = (size_t)(tensor.at - tensor.base);
    for (size_t i = 0; i < all; i++)
        if ((i < first || i >= first + tensor.bytes) && copy[i] != 0xff)
            fail_msg("byte %td before or behind a tensor of %zu bytes was overwritten", (ptrdiff_t)(i - first),
                     tensor.bytes);
    free(copy);
    check_cuda(cudaFree(tensor.base));
}

#endif
