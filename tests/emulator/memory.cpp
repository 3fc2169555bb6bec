#include "memory.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "settings.h"

namespace emulator {

namespace {

constexpr size_t page = 4096, alignment = 256, export_unit = size_t{2} << 20;
constexpr size_t off_limits = size_t{1} << 20; // before and behind an allocation: addresses only, no memory
constexpr unsigned char poison = 0xff, guard = 0xa5;
constexpr uint64_t export_magic = 0x64726163646d65ull;

struct Memory {
    std::map<const char *, Block> blocks; // by base
    std::map<const char *, size_t> freed; // base and bytes
    uint64_t serials = 0;
    size_t context_bytes = 0;
    bool context = false;
    int accesses = 0;
};

Memory &memory() {
    static Memory memory;
    return memory;
}

size_t rounded_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

bool is_on_device(const Block &block) {
    return block.place == Place::device || block.place == Place::imported;
}

void protect(const Block &block, int protection) {
    if (mprotect(block.pages, block.page_bytes, protection) != 0) fault("mprotect: %s", std::strerror(errno));
}

// Pages between guard pages, on fd or, if that is -1, anonymous. Null: no memory.
char *map_pages(size_t bytes, int fd) {
    void *reserved =
        mmap(nullptr, bytes + 2 * off_limits, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return nullptr;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *pages =
        mmap(static_cast<char *>(reserved) + off_limits, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (pages != MAP_FAILED) return static_cast<char *>(pages);
    munmap(reserved, bytes + 2 * off_limits);
    return nullptr;
}

// What lies before and behind the block within its pages.
size_t head_bytes(const Block &block) {
    return static_cast<size_t>(block.base - block.pages);
}
size_t tail_bytes(const Block &block) {
    return block.page_bytes - head_bytes(block) - block.bytes;
}

void paint(const Block &block) {
    std::memset(block.pages, guard, block.page_bytes);
    std::memset(block.base, poison, block.bytes);
}

void check_band(const char *band, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (static_cast<unsigned char>(band[i]) != guard)
            fault("somebody has written to %s", memory_describe(band + i));
}

void check_guards(const Block &block) {
    if (block.place == Place::imported || !block.pages) return; // its owner looks after it
    check_band(block.pages, head_bytes(block));
    check_band(block.base + block.bytes, tail_bytes(block));
}

// Gives the memory back and keeps the addresses.
void unmap(const Block &block) {
    mmap(block.pages, block.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (block.fd >= 0) close(block.fd);
    memory().freed[block.base] = block.bytes;
}

Block *find_base(const void *address) {
    auto place = memory().blocks.find(static_cast<const char *>(address));
    return place == memory().blocks.end() ? nullptr : &place->second;
}

void release(Block *block) {
    {
        DeviceAccess access;
        check_guards(*block);
    }
    if (block->place == Place::imported) gpu_note_close(block->owner, block->serial);
    if (block->place == Place::device || block->place == Place::managed) gpu_give_back(block->bytes);
    unmap(*block);
    memory().blocks.erase(block->base);
}

std::string path_of(const Export &handle) {
    return "/proc/" + std::to_string(handle.owner.pid) + "/fd/" + std::to_string(handle.fd);
}

} // namespace

DeviceAccess::DeviceAccess() {
    if (memory().accesses++ > 0) return;
    for (const auto &entry : memory().blocks)
        if (is_on_device(entry.second)) protect(entry.second, PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
    if (--memory().accesses > 0) return;
    for (const auto &entry : memory().blocks)
        if (is_on_device(entry.second)) protect(entry.second, PROT_NONE);
}

cudaError_t memory_open_context() {
    if (memory().context) return cudaSuccess;
    if (!gpu_take(settings().context_bytes)) return cudaErrorMemoryAllocation;
    memory().context_bytes = settings().context_bytes;
    memory().context = true;
    return cudaSuccess;
}

cudaError_t memory_allocate(void **address, size_t bytes, Place place) {
    if (!address) return cudaErrorInvalidValue;
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    bool on_gpu = place != Place::pinned;
    if (on_gpu && !gpu_take(bytes)) return cudaErrorMemoryAllocation;
    size_t padded = rounded_up(bytes, alignment), page_bytes = rounded_up(padded, page);
    int fd = -1;
    if (place == Place::device && bytes % export_unit == 0) fd = memfd_create("emulated-device-memory", MFD_CLOEXEC);
    bool sized = fd < 0 || ftruncate(fd, static_cast<off_t>(page_bytes)) == 0;
    char *pages = sized ? map_pages(page_bytes, fd) : nullptr;
    if (!pages) {
        if (fd >= 0) close(fd);
        if (on_gpu) gpu_give_back(bytes);
        return cudaErrorMemoryAllocation;
    }
    char *base = pages + page_bytes - padded;
    Block block{base, bytes, place, pages, page_bytes, fd, ++memory().serials, this_process(), 1};
    paint(block);
    memory().freed.erase(base);
    memory().blocks[base] = block;
    if (place == Place::device && memory().accesses == 0) protect(block, PROT_NONE);
    *address = base;
    return cudaSuccess;
}

cudaError_t memory_free(void *address, bool host) {
    if (!address) return cudaSuccess;
    Block *block = find_base(address);
    if (!block) fault("freed, but not allocated: %s", memory_describe(address));
    if (host != (block->place == Place::pinned) || block->place == Place::imported || !block->pages)
        return cudaErrorInvalidValue;
    if (block->fd >= 0) {
        int32_t importer = gpu_importer(block->serial);
        if (importer) fault("freed while process %d still has it open: %s", importer, memory_describe(address));
    }
    release(block);
    return cudaSuccess;
}

cudaError_t memory_register(void *address, size_t bytes) {
    char *base = static_cast<char *>(address);
    if (bytes == 0 || memory_block(base) || memory_block(base + bytes - 1)) return cudaErrorInvalidValue;
    memory().blocks[base] = Block{base, bytes, Place::pinned, nullptr, 0, -1, ++memory().serials, this_process(), 1};
    return cudaSuccess;
}

cudaError_t memory_unregister(void *address) {
    Block *block = find_base(address);
    if (!block || block->pages) return cudaErrorInvalidValue;
    memory().blocks.erase(block->base);
    return cudaSuccess;
}

cudaError_t memory_export(Export *handle, void *address) {
    Block *block = find_base(address);
    if (!block || block->place != Place::device) return cudaErrorInvalidValue;
    if (block->fd < 0) fault("exported, but no multiple of 2 MiB: %s", memory_describe(address));
    *handle = Export{export_magic, block->serial, block->bytes, this_process(), block->fd, 0};
    return cudaSuccess;
}

cudaError_t memory_import(void **address, const Export &handle) {
    if (handle.magic != export_magic) return cudaErrorInvalidValue;
    if (handle.owner == this_process()) return cudaErrorDeviceUninitialized; // as CUDA says it
    for (auto &entry : memory().blocks) {
        Block &block = entry.second;
        if (block.place != Place::imported || !(block.owner == handle.owner) || block.serial != handle.serial) continue;
        block.uses++;
        *address = block.base;
        return cudaSuccess;
    }
    int fd = is_alive(handle.owner) ? open(path_of(handle).c_str(), O_RDWR | O_CLOEXEC) : -1;
    char *pages = fd < 0 ? nullptr : map_pages(handle.bytes, fd);
    if (fd >= 0) close(fd);
    if (!pages) return cudaErrorMapBufferObjectFailed;
    Block block{pages, handle.bytes, Place::imported, pages, handle.bytes, -1, handle.serial, handle.owner, 1};
    memory().freed.erase(pages);
    memory().blocks[pages] = block;
    if (memory().accesses == 0) protect(block, PROT_NONE);
    gpu_note_import(handle.owner, handle.serial);
    *address = pages;
    return cudaSuccess;
}

cudaError_t memory_close(void *address) {
    Block *block = find_base(address);
    if (!block) fault("closed, but not open: %s", memory_describe(address));
    if (block->place != Place::imported) return cudaErrorInvalidValue;
    if (--block->uses == 0) release(block);
    return cudaSuccess;
}

void memory_free_all() {
    while (!memory().blocks.empty()) {
        Block &block = memory().blocks.begin()->second;
        if (block.pages)
            release(&block);
        else
            memory_unregister(block.base);
    }
    if (memory().context) gpu_give_back(memory().context_bytes);
    memory().context = false;
}

const Block *memory_block(const void *address) {
    auto place = memory().blocks.upper_bound(static_cast<const char *>(address));
    if (place == memory().blocks.begin()) return nullptr;
    const Block &block = (--place)->second;
    return static_cast<const char *>(address) < block.base + block.bytes ? &block : nullptr;
}

void memory_check_guards() {
    for (const auto &entry : memory().blocks)
        check_guards(entry.second);
}

// How far address is past the end of the nearest block of a table that begins before it, or before the begin of the
// nearest behind it: in bytes from the block's begin.
const char *memory_describe(const void *address) {
    static char text[200];
    const char *at = static_cast<const char *>(address);
    for (const auto &entry : memory().freed) {
        if (at < entry.first || at >= entry.first + entry.second) continue;
        std::snprintf(text, sizeof text, "byte %td of %zu that have been freed", at - entry.first, entry.second);
        return text;
    }
    const Block *nearest = nullptr;
    ptrdiff_t distance = 0;
    for (const auto &entry : memory().blocks) {
        const Block &block = entry.second;
        ptrdiff_t past = at < block.base ? block.base - at : at - (block.base + block.bytes);
        if (nearest && past >= distance) continue;
        nearest = &block;
        distance = past;
    }
    if (!nearest)
        std::snprintf(text, sizeof text, "address %p", address);
    else
        std::snprintf(text, sizeof text, "byte %td of an allocation of %zu bytes", at - nearest->base, nearest->bytes);
    return text;
}

size_t memory_blocks() {
    return memory().blocks.size();
}

} // namespace emulator
