// BOTH marks functions that compile for the CPU and, in .cu files, for the GPU: small inline arithmetic that must give
// the same bits on both (random numbers, indices, the steps of an optimizer).
#ifndef SOUNDER_BASE_HOST_DEVICE_H
#define SOUNDER_BASE_HOST_DEVICE_H

#ifdef __CUDACC__
#define BOTH static inline __host__ __device__
#else
#define BOTH static inline
#endif

// C_BEGIN and C_END surround declarations that C files and .cu files share: nvcc compiles C++.
#ifdef __cplusplus
#define C_BEGIN extern "C" {
#define C_END   }
#else
#define C_BEGIN
#define C_END
#endif

#endif
