// Groups whose buffers are on one card: the slots and the rings' data are in device memory that the first rank has
// allocated and the others have opened by CUDA IPC; arrivals, envelopes and failures stay in the segment. So any number
// of ranks share a card. Everything runs in the default stream of the device that is current, and has finished when a
// call returns.
#ifndef SOUNDER_SHM_GROUP_GROUP_CUDA_H
#define SOUNDER_SHM_GROUP_GROUP_CUDA_H

#include "shm/group/group_shared.h"

// Weak: a program that does not link the code for cards has none of them, and its groups say so. What was attached is
// freed by detach, importers before they arrive to finish, the first rank after it: CUDA wants it freed last.

// Rank 0 (slot_bytes, ring_bytes: what the group needs) allocates and leaves the handle in the header; the others open
// it. Then the group moves its data on the card.
__attribute__((weak)) Status group_cuda_create(SharedGroup *shared, size_t slot_bytes, size_t ring_bytes, Error *err);
__attribute__((weak)) Status group_cuda_open(SharedGroup *shared, size_t slot_bytes, Error *err);
__attribute__((weak)) void group_cuda_detach(SharedGroup *shared);

#endif
