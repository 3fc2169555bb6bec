// The arithmetic of reduce, all_reduce and reduce_scatter on this machine's memory.
#ifndef SOUNDER_SHM_GROUP_GROUP_COMBINE_H
#define SOUNDER_SHM_GROUP_GROUP_COMBINE_H

#include "base/host_device.h"
#include "shm/group/group.h"

// out[i] = inputs[0][i] op inputs[1][i] op ..., in this order, for `count` elements of `ranks` inputs (>= 1). out may
// be one of the inputs. group_op_is_defined must be true for type and op.
void group_combine(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op);

// False for the bitwise operations on floats.
bool group_op_is_defined(GroupType type, GroupOp op);

C_BEGIN

// group_combine on the GPU: the same order, hence the same bits. `out` and the pointers in `inputs` are device memory,
// the array `inputs` is host memory. Launches into the default stream; cudaGetLastError reports failures.
void group_combine_cuda(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op);

C_END

#endif
