// CUDA_TRY(call, err, "what was being done, printf style", ...): returns from the function with a Status and one
// sentence if a CUDA call fails.
//
// Errors of the GPU are sticky: after a kernel has failed, every later call of the process fails, too, until the
// process ends. A worker therefore exits with a code and counts as dead; other workers repeat its work.
#ifndef SOUNDER_BASE_CUDA_TRY_H
#define SOUNDER_BASE_CUDA_TRY_H

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

#define CUDA_TRY(call, err, ...)                                                                                       \
    do {                                                                                                               \
        cudaError_t cuda_try_ = (call);                                                                                \
        if (cuda_try_ != cudaSuccess) return cuda_fail(err, cuda_try_, __VA_ARGS__);                                   \
    } while (0)

// Status OS if the GPU's memory is full, UNAVAILABLE for all other errors. The sentence ends with CUDA's own text for
// the error.
__attribute__((format(printf, 3, 4))) static inline Status cuda_fail(Error *err, cudaError_t error, const char *format,
                                                                     ...) {
    char doing[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    cudaGetLastError(); // clears the error, which a later check would report again
    return fail(err, error == cudaErrorMemoryAllocation ? STATUS_OS : STATUS_UNAVAILABLE, "%s: %s (%s)", doing,
                cudaGetErrorString(error), cudaGetErrorName(error));
}

#endif
