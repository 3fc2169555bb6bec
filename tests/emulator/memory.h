// Allocations of the emulated GPU: between pages that nobody may touch, ending as near to such a page as their
// alignment allows, with guard bands in what is left over, and full of a pattern that is NaN as a float and a huge
// index as a number. Where a freed block lay nothing is ever mapped again.
//
// Device memory can be touched only while a DeviceAccess lives, that is while the GPU works: the host that follows
// such a pointer gets a segmentation fault, as it would with a GPU.
#ifndef SOUNDER_TESTS_EMULATOR_MEMORY_H
#define SOUNDER_TESTS_EMULATOR_MEMORY_H

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"
#include "gpu.h"

namespace emulator {

enum class Place { device, managed, pinned, imported };

struct Block {
    char *base;
    size_t bytes;
    Place place;
    char *pages; // what is mapped and not a guard page; null: memory of the host's that was registered
    size_t page_bytes;
    int fd; // device memory that can be exported: its memory file; otherwise -1
    uint64_t serial;
    ProcessId owner;   // of what is imported
    unsigned int uses; // how often it has been opened
};

// What an IPC handle holds.
struct Export {
    uint64_t magic, serial, bytes;
    ProcessId owner;
    int32_t fd;
    int32_t zero;
};

class DeviceAccess {
  public:
    DeviceAccess();
    ~DeviceAccess();
    DeviceAccess(const DeviceAccess &) = delete;
    DeviceAccess &operator=(const DeviceAccess &) = delete;
};

cudaError_t memory_allocate(void **memory, size_t bytes, Place place);
cudaError_t memory_free(void *memory, bool host);
cudaError_t memory_register(void *memory, size_t bytes);
cudaError_t memory_unregister(void *memory);
cudaError_t memory_export(Export *handle, void *memory);
cudaError_t memory_import(void **memory, const Export &handle);
cudaError_t memory_close(void *memory);
void memory_free_all();

// The block an address lies in, or null.
const Block *memory_block(const void *address);

// Faults if a guard band has been written to. While a DeviceAccess lives.
void memory_check_guards();

// "byte 4100 of the 4096 at 0x7f..." for messages about an address; a freed block is recognised.
const char *memory_describe(const void *address);

size_t memory_blocks();

// The GPU's memory that this process's context takes, from the first call that needs one.
cudaError_t memory_open_context();

} // namespace emulator

#endif
