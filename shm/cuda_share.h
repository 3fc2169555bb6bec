// Device memory shared between processes: CUDA IPC. The parent allocates and exports, workers import.
//
//   parent:  TRY(cuda_share_create(&block, bytes, err));  ... the workers read block.handle ...
//            cuda_share_free(&block);
//   worker:  TRY(cuda_share_open(&block, &handle, err));
//            cuda_share_free(&block);
//
// Rules of CUDA IPC that this code follows: an exported block is an allocation of its own, in multiples of 2 MiB
// (smaller ones share an allocation, and IPC would export all of it); managed memory is never exported; the exporting
// process cannot open its own handle; a block is freed only after all importers have closed it or are dead: the parent
// frees last. Kernels of two processes are not ordered: synchronise the stream, then meet at a barrier.
#ifndef SOUNDER_SHM_CUDA_SHARE_H
#define SOUNDER_SHM_CUDA_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { CUDA_SHARE_UNIT_BYTES = 2 << 20, CUDA_SHARE_HANDLE_BYTES = 64 };

// Plain data, stored in the control segment.
typedef struct CudaShareHandle {
    uint8_t handle[CUDA_SHARE_HANDLE_BYTES];
    uint64_t bytes; // of the allocation
    uint64_t nonce; // also in the block's last 8 bytes: proves to an importer that it maps the same memory
} CudaShareHandle;

typedef struct CudaShare {
    void *memory; // on the device
    size_t bytes; // usable bytes: at least as many as requested
    bool imported;
    CudaShareHandle handle;
} CudaShare;

// Allocates zeroed memory. Nothing to free on failure.
Status cuda_share_create(CudaShare *block, size_t bytes, Error *err);

// Opens the parent's block and reads its nonce. Fails with UNAVAILABLE and a remedy if IPC does not work (separate PID
// namespaces, WSL, another device or container) or maps other memory. Nothing to free on failure.
Status cuda_share_open(CudaShare *block, const CudaShareHandle *handle, Error *err);

// Closes an imported block, frees an own one; does nothing for a zeroed block.
void cuda_share_free(CudaShare *block);

#endif
