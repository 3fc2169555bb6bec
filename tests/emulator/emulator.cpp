#include "emulator.h"

#include <string>

#include "call.h"
#include "gpu.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"

using namespace emulator;

void emulator_reset() {
    streams_reset();
    memory_free_all();
    forget_calls();
    settings() = settings_from_environment();
}

void emulator_set_devices(int devices) {
    settings().devices = devices;
}
void emulator_set_driver(int version) {
    settings().driver = version;
}
void emulator_set_memory_bytes(size_t bytes) {
    settings().memory_bytes = bytes;
}
void emulator_set_ipc(int works) {
    settings().ipc = works != 0;
}
void emulator_set_cublas(int works) {
    settings().cublas = works != 0;
}
void emulator_set_pageable(int late) {
    settings().late_pageable = late != 0;
}
void emulator_set_order(const char *order) {
    settings().order = order_named(order);
}
void emulator_fail(const char *what) {
    set_failure(settings(), what ? what : "");
}
void emulator_fail_call(uint64_t number) {
    set_failure(settings(), number ? std::to_string(number) : "");
}
void emulator_fail_for_good() {
    fail_for_good(cudaErrorIllegalAddress);
}

uint64_t emulator_calls() {
    return calls_made();
}
size_t emulator_objects() {
    return memory_blocks() + stream_objects();
}
size_t emulator_used_bytes() {
    return gpu_used_bytes();
}
