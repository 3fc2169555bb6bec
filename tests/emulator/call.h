// What every function of the emulated runtime begins and ends with: is there a device, does this call fail on purpose,
// has the device failed for good, what was the last error.
#ifndef SOUNDER_TESTS_EMULATOR_CALL_H
#define SOUNDER_TESTS_EMULATOR_CALL_H

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

namespace emulator {

// Counts the call; an error means: do nothing and return it.
cudaError_t enter(const char *name);

// Functions that release something do so whatever enter returns: as in CUDA, the error may be that of earlier work.

// The same for functions that need no device.
cudaError_t enter_anywhere(const char *name);

// Remembers an error for cudaGetLastError and returns it.
cudaError_t leave(cudaError_t error);

// From now on every call fails with this.
void fail_for_good(cudaError_t error);
cudaError_t failed_for_good(); // cudaSuccess: has not

// Counts a kernel that is about to run; true: it fails on purpose.
bool kernel_fails();

// Writes the line of a copy, if SOUNDER_EMULATED_COPIES names a file.
void note_copy(const char *direction, size_t bytes, const char *memory);

uint64_t calls_made();
void forget_calls(); // and errors

// Prints "emulator: ..." and aborts: for what must never happen, such as a kernel that writes past its buffer.
[[noreturn]] void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace emulator

#endif
