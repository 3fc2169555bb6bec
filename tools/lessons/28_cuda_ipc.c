// Lesson 28. A CUDA IPC handle: two processes, one piece of device memory.
//
// What cudaMalloc returns is a pointer of this process alone. A handle is 64 bytes that name the allocation for others
// on the same machine: rank 0 sends it, rank 1 opens it and has a pointer of its own to the very same memory. Nothing
// is copied; that is how many ranks share one model on one GPU. Four rules: share whole allocations of 2 MiB (smaller
// ones lie together in a block, and all of it would be shared); no kernel or copy of one process waits for one of the
// other, so the ranks meet at a barrier after the device has finished; the importer closes before the owner frees; and
// a process starts using CUDA after it was started itself, never before a fork (hence a launcher).
//
//   rank 0   cudaMalloc: 0x7f..2000 ─▶ [ 2 MiB on the GPU ] ◀─ 0x7f..8000: cudaIpcOpenMemHandle   rank 1
//               └── the handle, 64 bytes ──▶ [ group's memory, on the host ] ──────┘
//
// PyTorch: a CUDA tensor sent through a torch.multiprocessing queue does this behind the scenes.
//
// Question: a handle is 64 bytes that one could write to a file. What happens to it when its owner ends?
// Build: nvcc -O2 -o lesson 28_cuda_ipc.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch --standalone -n 2 ./lesson
// Prints, in any order:
//   [1] rank 1 reads what rank 0 wrote: 1 2 3 4
//   [0] rank 0 reads what rank 1 wrote: 10 20 30 40
// Read: shm/cuda_share.h: how does a worker know that a handle is of this run, and what if its owner is killed?
#include <cuda_runtime_api.h>

#include "lesson.h"
#include <sounder/shm/group/group.h>

enum { COUNT = 4, ALLOCATION_BYTES = 2 << 20 };

// A failed CUDA call as a Status.
static Status cuda(cudaError_t error, Error *err) {
    return error == cudaSuccess ? STATUS_OK : fail(err, STATUS_UNAVAILABLE, "CUDA: %s", cudaGetErrorString(error));
}

static void print(const char *title, const float values[COUNT]) {
    printf("%s: %g %g %g %g\n", title, values[0], values[1], values[2], values[3]);
}

int main(void) {
    Error err;
    Group *group;
    must(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 30}, &err), &err);
    const uint32_t rank = group_rank(group);
    const size_t bytes = COUNT * sizeof(float);
    float values[COUNT] = {1, 2, 3, 4};
    void *memory; // on the device
    cudaIpcMemHandle_t handle;

    if (rank == 0) {
        must(cuda(cudaMalloc(&memory, ALLOCATION_BYTES), &err), &err);
        must(cuda(cudaMemcpy(memory, values, bytes, cudaMemcpyHostToDevice), &err), &err);
        must(cuda(cudaIpcGetMemHandle(&handle, memory), &err), &err);
    }
    must(group_broadcast(group, &handle, sizeof handle, GROUP_U8, 0, &err), &err);
    if (rank == 1) {
        must(cuda(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), &err), &err);
        must(cuda(cudaMemcpy(values, memory, bytes, cudaMemcpyDeviceToHost), &err), &err);
        print("rank 1 reads what rank 0 wrote", values);
        for (int i = 0; i < COUNT; i++)
            values[i] *= 10;
        must(cuda(cudaMemcpy(memory, values, bytes, cudaMemcpyHostToDevice), &err), &err);
        must(cuda(cudaDeviceSynchronize(), &err), &err);
        must(cuda(cudaIpcCloseMemHandle(memory), &err), &err);
    }
    must(group_barrier(group, &err), &err); // rank 1 has written and closed
    if (rank == 0) {
        must(cuda(cudaMemcpy(values, memory, bytes, cudaMemcpyDeviceToHost), &err), &err);
        print("rank 0 reads what rank 1 wrote", values);
        must(cuda(cudaFree(memory), &err), &err);
    }
    must(group_finish(group, &err), &err);
    return 0;
}
