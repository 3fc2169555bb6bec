// Whether the GPU that is current can run this program's kernels: compiled by nvcc, for device_cuda.c alone.
#ifndef SOUNDER_BASE_DEVICE_PROBE_H
#define SOUNDER_BASE_DEVICE_PROBE_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// cudaErrorNoKernelImageForDevice and the like: the program holds no code for this GPU.
cudaError_t device_probe(void);

#ifdef __cplusplus
}
#endif

#endif
