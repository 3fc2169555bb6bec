#include "cuda_state_rows.h"

#include <stdlib.h>

#include "fedavg/gpu/cuda_blocks.h"

enum { MOST_BYTES = 4 << 20 }; // of the buffer: more make a write no faster

// Pinned memory may be limited (WSL); the driver copies to any other memory through a pinned buffer of its own.
Status cuda_state_rows_init(CudaStateRows *rows, const ClientStateFile *file, Error *err) {
    *rows = (CudaStateRows){.file = file};
    if (file->plan.rows == 0) return STATUS_OK;
    rows->bytes = file->plan.row_bytes < MOST_BYTES ? file->plan.row_bytes : MOST_BYTES;
    rows->pinned = cudaHostAlloc(&rows->buffer, rows->bytes, cudaHostAllocDefault) == cudaSuccess;
    if (rows->pinned) return STATUS_OK;
    cudaGetLastError(); // clears the error, which the first wait would report
    rows->buffer = malloc(rows->bytes);
    if (rows->buffer) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for %zu bytes of client state", rows->bytes);
}

void cuda_state_rows_free(CudaStateRows *rows) {
    rows->pinned ? (void)cudaFreeHost(rows->buffer) : free(rows->buffer);
    *rows = (CudaStateRows){0};
}

Status cuda_state_rows_write(const CudaStateRows *rows, uint32_t row, size_t first, const void *from, size_t bytes,
                             cudaStream_t stream, Error *err) {
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < rows->bytes ? bytes - done : rows->bytes;
        TRY(cuda_copy(rows->buffer, (const uint8_t *)from + done, part, stream, err));
        TRY(cuda_wait(stream, err, "copying client state from the GPU"));
        client_state_row_write_bytes(rows->file, row, first + done, rows->buffer, part);
    }
    return STATUS_OK;
}
