// Runs a kernel: every thread of every block, one block after the other, on the CPU's calling thread.
//
// Threads of a block run one after the other on a carrier, a fiber that takes one thread after the other. A thread that
// comes to a barrier pauses its carrier, which then belongs to it until it ends, and another carrier takes the threads
// that have not begun. So a kernel without barriers is a plain loop. Once all wait at the same barrier they go on, one
// after the other. It is a fault if they wait at different ones, or if some have ended.
#ifndef SOUNDER_TESTS_EMULATOR_GRID_H
#define SOUNDER_TESTS_EMULATOR_GRID_H

#include <functional>

#include "cuda_runtime.h"

namespace emulator {

struct Grid {
    dim3 blocks, threads;
    const void *kernel;
    std::function<void()> thread; // calls the kernel with its arguments
};

void run_grid(const Grid &grid);

// From now on a bad access, by a kernel or by the host, is explained on stderr before the process dies of it.
void watch_bad_accesses();

} // namespace emulator

#endif
