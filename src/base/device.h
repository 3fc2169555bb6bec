// The GPU: whether there is one, which one, and what it has. One of two files is built in: device_cuda.c, or, where
// the build has no CUDA, device_none.c, whose functions fail with a sentence that says so.
//
//   Device device;
//   if (device_open(&device, -1, err) != STATUS_OK)      // no driver, no GPU: UNAVAILABLE, with a sentence
//
// device_open is the first CUDA call of a process. It makes the GPU current for the calling thread.
#ifndef SOUNDER_BASE_DEVICE_H
#define SOUNDER_BASE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct Device {
    int index;        // as CUDA numbers the visible ones
    char name[128];   // "NVIDIA H200"
    int major, minor; // compute capability
    int multiprocessors;
    size_t memory_bytes, free_bytes; // when it was opened
} Device;

// Whether this program was built with CUDA.
bool device_is_built(void);

// Opens GPU `gpu`; -1: the one LOCAL_RANK names (modulo the number of GPUs), otherwise the first. UNAVAILABLE with
// one sentence and a remedy: not built in, no driver, driver too old, no GPU, no such GPU.
Status device_open(Device *device, int gpu, Error *err);

// Before device_open: from now on a thread that waits for GPU `gpu` sleeps. Where processes have few cores they would
// otherwise take them from each other by looking again and again.
Status device_sleep_when_waiting(int gpu, Error *err);

// Waits for everything the process has asked of the GPU and gives its memory back. After a sticky error too.
void device_close(void);

#endif
