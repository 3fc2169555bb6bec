#include "call.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "settings.h"

namespace emulator {

namespace {

struct Calls {
    uint64_t all = 0, kernels = 0;
    std::map<std::string, uint64_t> by_name;
    cudaError_t last = cudaSuccess, lasting = cudaSuccess;
};

Calls &calls() {
    static Calls calls;
    return calls;
}

cudaError_t planned_error(const std::string &name) {
    if (settings().fail_error) return static_cast<cudaError_t>(settings().fail_error);
    if (name.find("Alloc") != std::string::npos || name.find("Malloc") != std::string::npos)
        return cudaErrorMemoryAllocation;
    if (name == "cudaIpcOpenMemHandle") return cudaErrorMapBufferObjectFailed;
    if (name == "cudaFuncGetAttributes") return cudaErrorNoKernelImageForDevice;
    return cudaErrorUnknown;
}

bool is_planned(const std::string &name, uint64_t count_of_name, uint64_t count_of_all) {
    const Settings &plan = settings();
    if (plan.fail_at == 0) return false;
    if (plan.fail_name.empty()) return count_of_all == plan.fail_at;
    return name == plan.fail_name && count_of_name == plan.fail_at;
}

cudaError_t count_call(const char *name) {
    uint64_t count = ++calls().by_name[name];
    calls().all++;
    if (is_planned(name, count, calls().all)) return leave(planned_error(name));
    return calls().lasting;
}

cudaError_t missing_device() {
    if (settings().driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
    return settings().devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

} // namespace

cudaError_t enter(const char *name) {
    cudaError_t missing = missing_device();
    return missing != cudaSuccess ? leave(missing) : count_call(name);
}

cudaError_t enter_anywhere(const char *name) {
    return count_call(name);
}

cudaError_t leave(cudaError_t error) {
    if (error != cudaSuccess) calls().last = error;
    return error;
}

void fail_for_good(cudaError_t error) {
    if (calls().lasting == cudaSuccess) calls().lasting = calls().last = error;
}

cudaError_t failed_for_good() {
    return calls().lasting;
}

bool kernel_fails() {
    calls().kernels++;
    return settings().fail_name == "kernel" && settings().fail_at == calls().kernels;
}

// One write at the end of the file: lines of several processes do not mix.
void note_copy(const char *direction, size_t bytes, const char *memory) {
    if (settings().copies.empty()) return;
    std::ofstream(settings().copies, std::ios::app)
        << settings().process + " " + direction + " " + std::to_string(bytes) + " " + memory + "\n";
}

uint64_t calls_made() {
    return calls().all;
}

void forget_calls() {
    calls() = Calls{};
}

void fault(const char *format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::fputs("emulator: ", stderr);
    std::vfprintf(stderr, format, arguments);
    std::fputs("\n", stderr);
    va_end(arguments);
    std::abort();
}

} // namespace emulator

cudaError_t cudaGetLastError() {
    cudaError_t last = emulator::calls().last;
    emulator::calls().last = emulator::calls().lasting;
    return last;
}

cudaError_t cudaPeekAtLastError() {
    return emulator::calls().last;
}

#define EMULATED_NAME(name, value, sentence)                                                                           \
    case name:                                                                                                         \
        return #name;
const char *cudaGetErrorName(cudaError_t error) {
    switch (error) { EMULATED_ERRORS(EMULATED_NAME) }
    return "unrecognized error code";
}

#define EMULATED_SENTENCE(name, value, sentence)                                                                       \
    case name:                                                                                                         \
        return sentence;
const char *cudaGetErrorString(cudaError_t error) {
    switch (error) { EMULATED_ERRORS(EMULATED_SENTENCE) }
    return "unrecognized error code";
}
