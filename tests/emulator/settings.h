// What the emulated machine is like: from the environment at first use, changed by tests through emulator.h.
#ifndef SOUNDER_TESTS_EMULATOR_SETTINGS_H
#define SOUNDER_TESTS_EMULATOR_SETTINGS_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

enum class Order { forward, reversed, shuffled };

struct Settings {
    Order order;
    int devices, current;
    int driver; // as cudaDriverGetVersion has it; 0: there is none
    size_t memory_bytes, context_bytes;
    int reset_milliseconds;
    bool ipc, cublas, lazy_streams, late_pageable, exclusive;
    bool has_managed, gives_managed; // says the attribute; does the call
    std::string fail_name;           // of the call that fails; empty: any
    uint64_t fail_at;                // which call of that name, from 1; 0: none
    int fail_error;                  // with which error; 0: one that suits the call
    std::string copies, process;     // the file that gets a line for each copy; the worker's rank, or "parent"
};

Settings &settings();
Settings settings_from_environment();

// "forward", "reversed" or "shuffled".
Order order_named(const std::string &name);

// Sets fail_name and fail_at from "7", "cudaMalloc", "cudaMalloc:2" or "kernel:3"; behind any of them "=805" is the
// error.
void set_failure(Settings &settings, const std::string &text);

} // namespace emulator

#endif
