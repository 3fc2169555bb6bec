// BOTH stands before functions that compile for the CPU and, in .cu files, for the GPU: small inline arithmetic that
// must be the same on either (random numbers, indices, the steps of an optimizer).
#ifndef SOUNDER_BASE_HOST_DEVICE_H
#define SOUNDER_BASE_HOST_DEVICE_H

#ifdef __CUDACC__
#define BOTH static inline __host__ __device__
#else
#define BOTH static inline
#endif

#endif
