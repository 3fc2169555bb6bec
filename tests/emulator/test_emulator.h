// Kernels of test_emulator.cu.
#ifndef SOUNDER_TESTS_EMULATOR_TEST_EMULATOR_H
#define SOUNDER_TESTS_EMULATOR_TEST_EMULATOR_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum Mistake {
    NO_MISTAKE,
    READS_UNWRITTEN_SHARED,
    SOME_LEAVE_BEFORE_BARRIER,
    BARRIERS_DIFFER,
    NO_SECOND_BARRIER,
    WRITES_BEHIND_THE_END,
    WRITES_JUST_BEHIND_THE_END,
} Mistake;

// All: device memory, asynchronous on the stream.
cudaError_t launch_scale(float *values, float factor, size_t count, cudaStream_t stream);
cudaError_t launch_block_sums(float *sums, const float *values, unsigned int blocks, cudaStream_t stream);
cudaError_t launch_mistaken(float *sums, Mistake mistake, unsigned int blocks, cudaStream_t stream);
cudaError_t launch_threads(float *values, unsigned int threads, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
