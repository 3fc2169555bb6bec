// Rows of client state (memory/client_state_file.h) on their way from the GPU into their file.
//
//   TRY(cuda_state_rows_init(&rows, &memory->client_state, err));
//   TRY(cuda_state_rows_write(&rows, job->state_to, 0, device_floats, bytes, stream, err));
//   cuda_state_rows_free(&rows);
//
// A copy straight into the mapping would be stores: each page that is new to the process, or clean since a checkpoint,
// is a fault. On ext4, 66 MB of them took 0.1 to 0.5 s. So the GPU writes a buffer, and a system call writes the file
// from it, as workers on the CPU do; that took 0.03 s.
#ifndef SOUNDER_FEDAVG_GPU_CUDA_STATE_ROWS_H
#define SOUNDER_FEDAVG_GPU_CUDA_STATE_ROWS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/memory/client_state_file.h"

typedef struct CudaStateRows {
    const ClientStateFile *file; // borrowed
    void *buffer;                // host, owned (bytes): pinned if the GPU's driver gives such memory; NULL: no state
    size_t bytes;
    bool pinned;
} CudaStateRows;

// Does nothing for a file without rows. To be freed also after a failure.
Status cuda_state_rows_init(CudaStateRows *rows, const ClientStateFile *file, Error *err);
void cuda_state_rows_free(CudaStateRows *rows);

// The bytes of the row from `first` on = from (device). Waits for the stream.
Status cuda_state_rows_write(const CudaStateRows *rows, uint32_t row, size_t first, const void *from, size_t bytes,
                             cudaStream_t stream, Error *err);

#endif
