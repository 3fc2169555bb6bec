// CUDA_TRY(call, err, "what was being done, printf style", ...): a failed CUDA call as a Status and one sentence.
//
// Errors of the GPU are sticky: once a kernel has failed, every later call of the process does, and only its end
// helps. A worker therefore exits with a code and counts as dead; its work is done again by others.
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

// OS for want of memory, UNAVAILABLE for everything else; the sentence ends with CUDA's own words for the error.
__attribute__((format(printf, 3, 4))) static inline Status cuda_fail(Error *err, cudaError_t error, const char *format,
                                                                     ...) {
    char doing[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    cudaGetLastError(); // or a later check would find this error again
    return fail(err, error == cudaErrorMemoryAllocation ? STATUS_OS : STATUS_UNAVAILABLE, "%s: %s (%s)", doing,
                cudaGetErrorString(error), cudaGetErrorName(error));
}

#endif
