// The emulated runtime's functions about devices, memory and launches.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "call.h"
#include "cuda_runtime.h"
#include "grid.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"
#include "symbols.h"

using namespace emulator;

// Devices ------------------------------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 0;
    if (cudaError_t error = enter(__func__)) return error;
    *count = settings().devices;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    if (cudaError_t error = enter(__func__)) return error;
    *device = settings().current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    if (cudaError_t error = enter(__func__)) return error;
    if (device < 0 || device >= settings().devices) return leave(cudaErrorInvalidDevice);
    settings().current = device;
    watch_bad_accesses();
    return leave(memory_open_context());
}

// How a thread waits makes no difference here.
cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    if (cudaError_t error = enter(__func__)) return error;
    if (flags != cudaDeviceScheduleBlockingSync) return leave(cudaErrorInvalidValue);
    return leave(memory_open_context());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    if (cudaError_t error = enter(__func__)) return error;
    if (device < 0 || device >= settings().devices) return leave(cudaErrorInvalidDevice);
    *properties = cudaDeviceProp{};
    std::snprintf(properties->name, sizeof properties->name, "Emulated card");
    properties->totalGlobalMem = settings().memory_bytes;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = properties->sharedMemPerMultiprocessor = 48 << 10;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 1 << 16;
    properties->warpSize = warpSize;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 0x7fffffff;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->major = 8;
    properties->multiProcessorCount = 4;
    properties->canMapHostMemory = properties->concurrentKernels = properties->unifiedAddressing = 1;
    properties->pciBusID = device + 1;
    properties->l2CacheSize = 4 << 20;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->managedMemory = properties->concurrentManagedAccess = settings().has_managed;
    properties->uuid.bytes[0] = static_cast<char>(device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp properties;
    if (cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = properties.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(properties.sharedMemPerBlock);
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        break;
    case cudaDevAttrConcurrentKernels:
        *value = properties.concurrentKernels;
        break;
    case cudaDevAttrL2CacheSize:
        *value = properties.l2CacheSize;
        break;
    case cudaDevAttrUnifiedAddressing:
        *value = properties.unifiedAddressing;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = properties.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        break;
    case cudaDevAttrManagedMemory:
        *value = properties.managedMemory;
        break;
    case cudaDevAttrComputeMode:
        *value = settings().exclusive ? cudaComputeModeExclusiveProcess : cudaComputeModeDefault;
        break;
    case cudaDevAttrConcurrentManagedAccess:
        *value = properties.concurrentManagedAccess;
        break;
    default:
        *value = 0;
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = settings().driver;
    return enter_anywhere(__func__);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return enter_anywhere(__func__);
}

cudaError_t cudaDeviceReset() {
    cudaError_t error = enter(__func__);
    std::this_thread::sleep_for(std::chrono::milliseconds(settings().reset_milliseconds));
    streams_forget();
    memory_free_all();
    return error;
}

// Memory -------------------------------------------------------------------------------------------------------------

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    if (cudaError_t error = enter(__func__)) return error;
    if (cudaError_t error = memory_open_context()) return leave(error);
    *total_bytes = settings().memory_bytes;
    size_t used = gpu_used_bytes();
    *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
    return cudaSuccess;
}

static cudaError_t allocate(void **memory, size_t bytes, Place place) {
    if (stream_anybody_captures()) return leave(streams_finish());
    if (cudaError_t error = memory_open_context()) return leave(error);
    return leave(memory_allocate(memory, bytes, place));
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (cudaError_t error = enter(__func__)) return error;
    return allocate(memory, bytes, Place::device);
}

cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned int) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!settings().gives_managed) return leave(cudaErrorNotSupported);
    return allocate(memory, bytes, Place::managed);
}

// Where pages lie makes no difference here, only whether they are managed.
static cudaError_t check_managed(const void *memory, size_t bytes, int device) {
    if (device != cudaCpuDeviceId && (device < 0 || device >= settings().devices)) return cudaErrorInvalidDevice;
    const Block *block = memory_block(memory);
    bool fits = block && block->place == Place::managed &&
                static_cast<const char *>(memory) + bytes <= block->base + block->bytes;
    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemAdvise(const void *memory, size_t bytes, cudaMemoryAdvise, int device) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(check_managed(memory, bytes, device));
}

cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, int device, cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    if (cudaError_t error = check_managed(memory, bytes, device)) return leave(error);
    return leave(stream_add(stream, [] {}));
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    if (cudaError_t error = enter(__func__)) return error;
    return allocate(memory, bytes, Place::pinned);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int) {
    if (cudaError_t error = enter(__func__)) return error;
    return allocate(memory, bytes, Place::pinned);
}

static cudaError_t release(cudaError_t entered, void *memory, bool host) {
    cudaError_t finished = streams_finish(); // what still waits may use it
    cudaError_t freed = memory_free(memory, host);
    return leave(entered ? entered : finished ? finished : freed);
}

cudaError_t cudaFree(void *memory) {
    return release(enter(__func__), memory, false);
}

cudaError_t cudaFreeHost(void *memory) {
    return release(enter(__func__), memory, true);
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(memory_register(memory, bytes));
}

cudaError_t cudaHostUnregister(void *memory) {
    cudaError_t entered = enter(__func__), finished = streams_finish(), ended = memory_unregister(memory);
    return leave(entered ? entered : finished ? finished : ended);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
    if (cudaError_t error = enter(__func__)) return error;
    *attributes = cudaPointerAttributes{};
    attributes->device = -2;
    const Block *block = memory_block(pointer);
    if (!block) return cudaSuccess;
    void *address = const_cast<void *>(pointer);
    bool on_host = block->place == Place::managed || block->place == Place::pinned;
    attributes->device = settings().current;
    attributes->devicePointer = address;
    attributes->hostPointer = on_host ? address : nullptr;
    attributes->type = block->place == Place::pinned    ? cudaMemoryTypeHost
                       : block->place == Place::managed ? cudaMemoryTypeManaged
                                                        : cudaMemoryTypeDevice;
    return cudaSuccess;
}

namespace {

// One side of a copy: rows of width bytes.
struct Side {
    char *address;
    size_t pitch;
};

struct Copy {
    Side to, from;
    size_t width, height;
};

bool is_device(const void *address) {
    const Block *block = memory_block(address);
    return block && block->place != Place::pinned;
}

size_t extent(size_t pitch, size_t width, size_t height) {
    return height == 0 ? 0 : pitch * (height - 1) + width;
}

// Whether all that a side touches is of the kind the caller says, and within one allocation.
cudaError_t check_side(const void *address, size_t bytes, bool said_on_device) {
    if (bytes == 0) return cudaSuccess;
    const Block *block = memory_block(address);
    bool only_device = block && (block->place == Place::device || block->place == Place::imported);
    if (said_on_device && (!block || block->place == Place::pinned)) return cudaErrorInvalidValue;
    if (!said_on_device && only_device) return cudaErrorInvalidValue;
    const char *end = static_cast<const char *>(address) + bytes;
    if (block && end > block->base + block->bytes) return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t check_copy(const Copy &copy, cudaMemcpyKind kind) {
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to_device = is_device(copy.to.address);
        from_device = is_device(copy.from.address);
    }
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (copy.height > 1 && (copy.to.pitch < copy.width || copy.from.pitch < copy.width)) return cudaErrorInvalidValue;
    if (to_device != from_device)
        note_copy(to_device ? "to-gpu" : "to-host", copy.width * copy.height,
                  memory_block(to_device ? copy.from.address : copy.to.address) ? "pinned" : "pageable");
    cudaError_t error = check_side(copy.to.address, extent(copy.to.pitch, copy.width, copy.height), to_device);
    return error ? error : check_side(copy.from.address, extent(copy.from.pitch, copy.width, copy.height), from_device);
}

void copy_rows(const Copy &copy) {
    for (size_t row = 0; row < copy.height; row++)
        std::memmove(copy.to.address + row * copy.to.pitch, copy.from.address + row * copy.from.pitch, copy.width);
}

// Pageable memory is written before the call returns, and read before it returns unless SOUNDER_EMULATED_PAGEABLE is
// late; pinned, managed and device memory is read and written when the stream comes to it. In a graph only the latter is
// allowed here.
cudaError_t copy_async(Copy copy, cudaMemcpyKind kind, cudaStream_t stream) {
    if (cudaError_t error = check_copy(copy, kind)) return error;
    bool pageable_from = !memory_block(copy.from.address), pageable_to = !memory_block(copy.to.address);
    if ((pageable_from || pageable_to) && stream_captures(stream)) return streams_finish();
    if (pageable_from && !settings().late_pageable) {
        size_t bytes = extent(copy.from.pitch, copy.width, copy.height);
        auto staged = std::make_shared<std::vector<char>>(copy.from.address, copy.from.address + bytes);
        copy.from.address = staged->data();
        if (cudaError_t error = stream_add(stream, [copy, staged] { copy_rows(copy); })) return error;
    } else if (cudaError_t error = stream_add(stream, [copy] { copy_rows(copy); }))
        return error;
    return pageable_to ? stream_finish(stream) : cudaSuccess;
}

// Synchronous copies go through the default stream.
cudaError_t copy_now(const Copy &copy, cudaMemcpyKind kind) {
    if (cudaError_t error = check_copy(copy, kind)) return error;
    return stream_add(nullptr, [copy] { copy_rows(copy); });
}

Copy plain(void *to, const void *from, size_t bytes) {
    return Copy{{static_cast<char *>(to), bytes}, {static_cast<char *>(const_cast<void *>(from)), bytes}, bytes, 1};
}

Copy pitched(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height) {
    return Copy{{static_cast<char *>(to), to_pitch},
                {static_cast<char *>(const_cast<void *>(from)), from_pitch},
                width,
                height};
}

cudaError_t set_async(void *memory, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    if (cudaError_t error = check_side(memory, extent(pitch, width, height), true)) return error;
    return stream_add(stream, [=] {
        for (size_t row = 0; row < height; row++)
            std::memset(static_cast<char *>(memory) + row * pitch, value, width);
    });
}

} // namespace

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(copy_now(plain(to, from, bytes), kind));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(copy_async(plain(to, from, bytes), kind, stream));
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(copy_now(pitched(to, to_pitch, from, from_pitch, width, height), kind));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(copy_async(pitched(to, to_pitch, from, from_pitch, width, height), kind, stream));
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(set_async(memory, bytes, value, bytes, 1, nullptr));
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(set_async(memory, bytes, value, bytes, 1, stream));
}

cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(set_async(memory, pitch, value, width, height, stream));
}

// Memory between processes -------------------------------------------------------------------------------------------

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory) {
    if (cudaError_t error = enter(__func__)) return error;
    Export exported;
    if (cudaError_t error = memory_export(&exported, memory)) return leave(error);
    static_assert(sizeof exported <= sizeof handle->reserved, "a handle holds it");
    *handle = cudaIpcMemHandle_t{};
    std::memcpy(handle->reserved, &exported, sizeof exported);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned int flags) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!settings().ipc) return leave(cudaErrorMapBufferObjectFailed);
    if (flags != cudaIpcMemLazyEnablePeerAccess) return leave(cudaErrorInvalidValue);
    if (cudaError_t error = memory_open_context()) return leave(error);
    Export exported;
    std::memcpy(&exported, handle.reserved, sizeof exported);
    return leave(memory_import(memory, exported));
}

cudaError_t cudaIpcCloseMemHandle(void *memory) {
    cudaError_t entered = enter(__func__), finished = streams_finish(), closed = memory_close(memory);
    return leave(entered ? entered : finished ? finished : closed);
}

// Kernels ------------------------------------------------------------------------------------------------------------

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel) {
    if (cudaError_t error = enter(__func__)) return error;
    *attributes = cudaFuncAttributes{};
    attributes->sharedSizeBytes = kernel_symbols(kernel).shared_bytes;
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

namespace {

bool is_launchable(const cudaLaunchConfig_t &config) {
    const dim3 &grid = config.gridDim, &block = config.blockDim;
    size_t threads = size_t{block.x} * block.y * block.z;
    bool grid_fits =
        grid.x >= 1 && grid.x <= 0x7fffffff && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
    bool block_fits = threads >= 1 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 && threads <= 1024;
    return grid_fits && block_fits && config.dynamicSmemBytes == 0 && config.numAttrs == 0;
}

} // namespace

cudaError_t emulator::launch(const cudaLaunchConfig_t &config, const void *kernel, std::function<void()> thread) {
    if (cudaError_t error = enter("cudaLaunchKernelEx")) return error;
    if (!is_launchable(config)) return leave(cudaErrorInvalidConfiguration);
    if (kernel_symbols(kernel).shared_bytes > 48 << 10) return leave(cudaErrorInvalidValue);
    Grid grid{config.gridDim, config.blockDim, kernel, std::move(thread)};
    return leave(stream_add(config.stream, [grid = std::move(grid)] {
        if (kernel_fails())
            fail_for_good(cudaErrorIllegalAddress);
        else
            run_grid(grid);
    }));
}
