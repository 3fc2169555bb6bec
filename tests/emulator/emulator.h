// A GPU that is not there: the CUDA runtime and a device, emulated on the CPU, so that .cu files and the C code that
// calls the runtime run - and are tested - on any machine. The same sources are compiled by the host's compiler against
// include/ (its cuda_runtime_api.h, cuda_runtime.h, cublas_v2.h and dlfcn.h stand in for the real ones) and linked with
// this library: CMake's sounder_device_emulated does both.
//
// What it checks, with a sentence on stderr and an abort, because it is a bug that a GPU may or may not show:
//   - threads of a block that wait at different barriers, or wait for threads that have ended;
//   - accesses outside allocations (guard pages and bands) and to freed ones; the host following a device pointer;
//   - fresh memory that is used: it is full of 0xff, NaN as floats; so are __shared__ variables of a kernel at the
//     begin of each block (not those of functions that it calls);
//   - results that are read before the stream was waited for: work runs when somebody waits for it, no earlier;
//   - an allocation that is freed while another process has it open, or exported though it is no multiple of 2 MiB.
// What CUDA would refuse it refuses with CUDA's error: launches beyond the limits, copies across the end of an
// allocation or in a direction that is not theirs, what may not be done while a stream captures (copies of pageable
// memory are among it here), opening one's own handle.
//
// Environment, read at the first call:
//   SOUNDER_EMULATED_ORDER          forward, reversed, shuffled: in which order blocks run, and threads between
//                                   barriers
//   SOUNDER_EMULATED_STREAMS        lazy, eager: eager runs work when it is queued, for debuggers
//   SOUNDER_EMULATED_DEVICES        number of GPUs (1); 0: a driver without a GPU
//   SOUNDER_EMULATED_DRIVER         its version (13000 is CUDA 13.0); 0: no driver
//   SOUNDER_EMULATED_MEMORY_BYTES   of the GPU (4 GiB), SOUNDER_EMULATED_CONTEXT_BYTES: of it, for a process (64 MiB)
//   SOUNDER_EMULATED_CARD           file with the account of the GPU's memory, common to processes that share a GPU;
//                                   unset: the first process makes one and hands it to its children
//   SOUNDER_EMULATED_IPC, _CUBLAS   on, off: cudaIpcOpenMemHandle fails; libcublas.so is missing
//   SOUNDER_EMULATED_PAGEABLE       early, late: when an asynchronous copy reads pageable memory: before its call
//                                   returns, as most machines do, or when the stream comes to it, as CUDA allows
//   SOUNDER_EMULATED_MANAGED        on, off: the GPU has no managed memory; refused: it has, it says, but gives none
//   SOUNDER_EMULATED_MODE           default, exclusive: the compute mode that the GPU names; it shuts no process out
//   SOUNDER_EMULATED_RESET_MILLISECONDS   how long cudaDeviceReset takes (0)
//   SOUNDER_EMULATED_FAIL           what fails: "7" the seventh call, "cudaMalloc" the first of that name,
//                                   "cudaMalloc:3" the third, "kernel:3" the third kernel - which, as on a GPU, makes
//                                   every later call of the process fail; "=805" behind it: with this error
//   SOUNDER_EMULATED_COPIES         file that gets a line for each copy between host and GPU: PROCESS (a worker's rank,
//                                   "parent"), "to-host" or "to-gpu", BYTES, and "pageable" or "pinned"
//   SOUNDER_EMULATED_FAIL_RANK      only in the process started as "worker RANK"; "parent": in all but workers
// The program is one thread as far as the emulated runtime is concerned.
#ifndef SOUNDER_TESTS_EMULATOR_EMULATOR_H
#define SOUNDER_TESTS_EMULATOR_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Everything as at the start of a process: allocations, streams and graphs are gone, calls count from 0, settings are
// those of the environment.
void emulator_reset(void);

// As the variables above; NULL and 0: nothing fails.
void emulator_set_devices(int devices);
void emulator_set_driver(int version);
void emulator_set_memory_bytes(size_t bytes);
void emulator_set_ipc(int works);
void emulator_set_cublas(int works);
void emulator_set_pageable(int late);
void emulator_set_order(const char *order);
void emulator_fail(const char *what);
void emulator_fail_call(uint64_t number);

// As if a kernel had failed: from now on every call does.
void emulator_fail_for_good(void);

uint64_t emulator_calls(void); // of the runtime, so far

// What this process has and has not given back: allocations, imports, streams, events, graphs.
size_t emulator_objects(void);

// Bytes that living processes have on the GPU, contexts included.
size_t emulator_used_bytes(void);

#ifdef __cplusplus
}
#endif

#endif
