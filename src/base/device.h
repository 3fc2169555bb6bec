// The GPU: whether one is available, which one, and its properties. The build compiles one of two files: device_cuda.c,
// or, in a build without CUDA, device_none.c, whose device_open fails with a sentence that says so.
//
//   Device device;
//   if (device_open(&device, -1, err) != STATUS_OK)      // UNAVAILABLE and one sentence: no driver, no GPU ...
//
// device_open is the first CUDA call of a process. It makes the GPU current for the calling thread.
#ifndef SOUNDER_BASE_DEVICE_H
#define SOUNDER_BASE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct Device {
    int index;        // CUDA's number among the visible GPUs
    char name[128];   // "NVIDIA H200"
    int major, minor; // compute capability
    int multiprocessors;
    size_t memory_bytes, free_bytes; // measured by device_open
} Device;

// Says whether this program was built with CUDA.
bool device_is_built(void);

// Opens GPU `gpu`. -1 opens the GPU of this process's rank on its machine (launcher_local_rank, modulo the number of
// GPUs), or GPU 0.
// Fails with UNAVAILABLE, one sentence and a remedy: not built in, no driver, driver too old, no GPU, no such GPU; with
// USAGE if that variable names no rank.
Status device_open(Device *device, int gpu, Error *err);

// Writes the versions of CUDA that the driver supports and that the program was built for (13000: 13.0), after
// device_open. device_code names the compute capabilities that the build has code for: "80 90".
void device_versions(int *driver, int *built_for);
const char *device_code(void);

// Threads that wait for GPU `gpu` will sleep, before device_open or after it. By default they poll, and processes that
// share few cores would take the cores from each other.
Status device_sleep_when_waiting(int gpu, Error *err);

// Waits until the GPU has finished the work of this process, and frees the process's GPU memory. May be called after a
// sticky error.
void device_close(void);

#endif
