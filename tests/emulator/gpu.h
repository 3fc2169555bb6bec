// The memory of the emulated GPU as all processes see it: how much each living process has, and which allocations
// are open in other processes. A process that dies gives back what it had.
//
// The account lies in a file that SOUNDER_EMULATED_CARD names; where the variable is not set, the first process makes
// one and sets it for its children.
#ifndef SOUNDER_TESTS_EMULATOR_GPU_H
#define SOUNDER_TESTS_EMULATOR_GPU_H

#include <cstddef>
#include <cstdint>

namespace emulator {

// A process, told from an earlier one of the same number by when it was started. 0: nobody.
struct ProcessId {
    int32_t pid;
    uint64_t start;
    bool operator==(const ProcessId &other) const { return pid == other.pid && start == other.start; }
};

ProcessId this_process();
bool is_alive(const ProcessId &process);

size_t gpu_used_bytes(); // by all living processes

// Takes bytes for this process; false: the GPU is full.
bool gpu_take(size_t bytes);
void gpu_give_back(size_t bytes);

// Notes that this process has opened, closed an allocation (serial) of another.
void gpu_note_import(const ProcessId &owner, uint64_t serial);
void gpu_note_close(const ProcessId &owner, uint64_t serial);

// The pid of a living process that has this process's allocation open, or 0.
int32_t gpu_importer(uint64_t serial);

} // namespace emulator

#endif
