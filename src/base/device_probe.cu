#include "base/device_probe.h"

static __global__ void __launch_bounds__(32) nothing() {}

// cudaFuncGetAttributes makes the runtime load the kernel's code, and translate it for this GPU if necessary, without a
// launch.
cudaError_t device_probe(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, nothing);
}
