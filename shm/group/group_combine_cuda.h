// The GPU's side of group_combine: the same order, hence the same bits.
#ifndef SOUNDER_SHM_GROUP_GROUP_COMBINE_CUDA_H
#define SOUNDER_SHM_GROUP_GROUP_COMBINE_CUDA_H

#include "shm/group/group.h"

#ifdef __cplusplus
extern "C" {
#endif

// All pointers inside out and inputs are the device's, the list of inputs is the host's. Launches into the default
// stream; what goes wrong shows in cudaGetLastError.
void group_combine_cuda(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op);

#ifdef __cplusplus
}
#endif

#endif
