// What the program's own symbol table says about a kernel: its name, for messages, and where its __shared__ variables
// lie, so that they can be poisoned before each block. A kernel whose symbols have been stripped has neither.
#ifndef SOUNDER_TESTS_EMULATOR_SYMBOLS_H
#define SOUNDER_TESTS_EMULATOR_SYMBOLS_H

#include <cstddef>
#include <string>
#include <vector>

namespace emulator {

struct Variable {
    void *address;
    size_t bytes;
};

struct KernelSymbols {
    std::string name; // "scale(float*, float)"
    std::vector<Variable> shared;
    size_t shared_bytes = 0;
};

// The same object for every call with the same kernel.
const KernelSymbols &kernel_symbols(const void *kernel);

} // namespace emulator

#endif
