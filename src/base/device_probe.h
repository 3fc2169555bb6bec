// Tests whether the current GPU can run this program's kernels. Compiled by nvcc; only device_cuda.c uses it.
#ifndef SOUNDER_BASE_DEVICE_PROBE_H
#define SOUNDER_BASE_DEVICE_PROBE_H

#include <cuda_runtime_api.h>

#include "base/host_device.h"

C_BEGIN

// Fails with cudaErrorNoKernelImageForDevice or a similar error if the program contains no code for this GPU.
cudaError_t device_probe(void);

C_END

#endif
