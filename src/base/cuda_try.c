#include "base/cuda_try.h"

#include <stdarg.h>
#include <stdio.h>

Status cuda_fail(Error *err, cudaError_t error, const char *format, ...) {
    char doing[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    cudaGetLastError(); // or a later check would find this error again
    return fail(err, error == cudaErrorMemoryAllocation ? STATUS_OS : STATUS_UNAVAILABLE, "%s: %s (%s)", doing,
                cudaGetErrorString(error), cudaGetErrorName(error));
}
