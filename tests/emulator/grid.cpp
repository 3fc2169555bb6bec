#include "grid.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <unistd.h>
#include <vector>

#include "call.h"
#include "fiber.h"
#include "memory.h"
#include "settings.h"
#include "symbols.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {

namespace {

// The order in which `count` things are done: a permutation of their numbers that needs no memory.
class Turns {
  public:
    Turns(Order order, size_t count, size_t seed) : order_(order), count_(count) {
        if (order != Order::shuffled || count == 0) return;
        // i -> (factor i + first) mod count goes through all of them if factor and count have no common divisor.
        factor_ = 0x9e3779b1u % count;
        while (std::gcd(factor_, count) != 1)
            factor_++;
        first_ = seed * 0x85ebca6bu % count;
    }
    size_t operator[](size_t i) const {
        if (order_ == Order::forward) return i;
        return order_ == Order::reversed ? count_ - 1 - i : (factor_ * i + first_) % count_;
    }

  private:
    Order order_;
    size_t count_, factor_ = 1, first_ = 0;
};

struct Waiting {
    Fiber *carrier;
    uint3 thread;
    const char *file;
    int line;
};

// What is being run. Threads of the current block: begun <= count.
struct Runner {
    const Grid *grid = nullptr;
    const KernelSymbols *symbols = nullptr;
    size_t count = 0, begun = 0, ended = 0, phase = 0;
    Order order = Order::forward;
    Turns turns{Order::forward, 0, 0};
    std::vector<Waiting> waiting, passing; // at a barrier; beyond it, but not yet resumed
    std::vector<std::unique_ptr<Fiber>> carriers;
    std::vector<Fiber *> idle;
};

Runner the_runner;

uint3 place(size_t index, const dim3 &extent) {
    return uint3{static_cast<unsigned>(index % extent.x), static_cast<unsigned>(index / extent.x % extent.y),
                 static_cast<unsigned>(index / extent.x / extent.y)};
}

size_t volume(const dim3 &extent) {
    return size_t{extent.x} * extent.y * extent.z;
}

// A carrier's body: takes threads as long as there are any, then pauses until there are more.
void carry() {
    Runner &run = the_runner;
    for (;;) {
        while (run.begun < run.count) {
            threadIdx = place(run.turns[run.begun++], run.grid->threads);
            run.grid->thread();
            run.ended++;
        }
        run.idle.push_back(Fiber::current());
        Fiber::pause();
    }
}

Fiber *idle_carrier(Runner &run) {
    if (run.idle.empty()) {
        run.carriers.push_back(std::make_unique<Fiber>(run.carriers.size(), carry));
        return run.carriers.back().get();
    }
    Fiber *carrier = run.idle.back();
    run.idle.pop_back();
    return carrier;
}

void poison_shared(const KernelSymbols &symbols) {
    for (const Variable &variable : symbols.shared)
        std::memset(variable.address, 0xff, variable.bytes);
}

void check_all_wait_together(const Runner &run) {
    const Waiting &first = run.waiting.front();
    if (run.ended > 0)
        fault(
            "kernel %s, block (%u,%u,%u): thread (%u,%u,%u) waits at the barrier in %s:%d, but %zu threads have ended",
            run.symbols->name.c_str(), blockIdx.x, blockIdx.y, blockIdx.z, first.thread.x, first.thread.y,
            first.thread.z, first.file, first.line, run.ended);
    for (const Waiting &other : run.waiting)
        if (other.line != first.line || (other.file != first.file && std::strcmp(other.file, first.file) != 0))
            fault("kernel %s, block (%u,%u,%u): thread (%u,%u,%u) waits at the barrier in %s:%d, but thread (%u,%u,%u) "
                  "in %s:%d",
                  run.symbols->name.c_str(), blockIdx.x, blockIdx.y, blockIdx.z, first.thread.x, first.thread.y,
                  first.thread.z, first.file, first.line, other.thread.x, other.thread.y, other.thread.z, other.file,
                  other.line);
}

// Lets everybody go on from the barrier at which all wait.
void pass_barrier(Runner &run) {
    check_all_wait_together(run);
    run.passing.swap(run.waiting);
    run.waiting.clear();
    // They came in their order: only shuffled needs another one each time.
    bool shuffled = run.order == Order::shuffled;
    Turns turns(run.order, run.passing.size(), ++run.phase);
    for (size_t i = 0; i < run.passing.size(); i++) {
        const Waiting &next = run.passing[shuffled ? turns[i] : i];
        threadIdx = next.thread;
        next.carrier->resume();
    }
}

void run_block(Runner &run) {
    poison_shared(*run.symbols);
    run.begun = run.ended = 0;
    run.turns = Turns(run.order, run.count, ++run.phase);
    while (run.begun < run.count)
        idle_carrier(run)->resume();
    while (!run.waiting.empty())
        pass_barrier(run);
}

#ifndef __SANITIZE_ADDRESS__ // which explains bad accesses itself

struct sigaction actions_before[2]; // for SIGSEGV, SIGBUS

// A kernel, or the host, has followed a bad pointer: says where it was and leaves the rest to who was there before.
void report_bad_access(int signal_number, siginfo_t *info, void *) {
    const Runner &run = the_runner;
    char text[600];
    int length;
    if (run.grid)
        length =
            std::snprintf(text, sizeof text, "emulator: kernel %s, block (%u,%u,%u), thread (%u,%u,%u) touches %s\n",
                          run.symbols->name.c_str(), blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
                          threadIdx.z, memory_describe(info->si_addr));
    else
        length = std::snprintf(text, sizeof text, "emulator: the host touches %s, outside any kernel\n",
                               memory_describe(info->si_addr));
    if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
    sigaction(signal_number, &actions_before[signal_number == SIGBUS], nullptr);
}

void watch(int signal_number, struct sigaction *before) {
    struct sigaction now, action = {};
    sigaction(signal_number, nullptr, &now);
    if (now.sa_sigaction == report_bad_access) return;
    *before = now;
    action.sa_sigaction = report_bad_access;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal_number, &action, nullptr);
}

#endif

} // namespace

void barrier(const char *file, int line) {
    Runner &run = the_runner;
    run.waiting.push_back({Fiber::current(), threadIdx, file, line});
    Fiber::pause();
}

void run_grid(const Grid &grid) {
    Runner &run = the_runner;
    watch_bad_accesses(); // again and again: test frameworks set handlers of their own
    run.grid = &grid;
    run.symbols = &kernel_symbols(grid.kernel);
    run.count = volume(grid.threads);
    blockDim = grid.threads;
    gridDim = grid.blocks;
    size_t blocks = volume(grid.blocks);
    run.order = settings().order;
    Turns turns(run.order, blocks, ++run.phase);
    for (size_t i = 0; i < blocks; i++) {
        blockIdx = place(turns[i], grid.blocks);
        run_block(run);
    }
    run.grid = nullptr;
}

void watch_bad_accesses() {
#ifndef __SANITIZE_ADDRESS__
    static char stack[64 * 1024]; // a thread that has overflown its own must be able to say so
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    watch(SIGSEGV, &actions_before[0]);
    watch(SIGBUS, &actions_before[1]);
#endif
}

} // namespace emulator
