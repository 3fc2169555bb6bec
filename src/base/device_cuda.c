// Part of device.h: the GPU, where CUDA is built in.
#include "base/device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuda_try.h"
#include "base/device_probe.h"
#include "base/launcher.h"
#include "base/text.h"

bool device_is_built(void) {
    return true;
}

// Errors of the Multi-Process Service are the codes between these two. The server reports them at the first request,
// which may be long after its daemon has begun to listen.
static bool is_of_mps(cudaError_t error) {
    return error >= cudaErrorMpsConnectionFailed && error <= cudaErrorMpsClientTerminated;
}

static Status mps_failed(Error *err, cudaError_t error) {
    const char *folder = getenv("CUDA_MPS_LOG_DIRECTORY");
    return cuda_fail(
        err, error,
        "the GPU's Multi-Process Service does not serve this process (server.log in %s may say why; --mps off "
        "does without)",
        folder && *folder ? folder : "/var/log/nvidia-mps");
}

// Writes why cudaGetDeviceCount has failed: the driver is missing or too old, or there is no GPU.
static Status no_gpu(Error *err, cudaError_t error) {
    int driver = 0, runtime = 0;
    if (error == cudaErrorNoDevice)
        return fail(err, STATUS_UNAVAILABLE,
                    "no GPU was found: look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu");
    if (is_of_mps(error)) return mps_failed(err, error);
    if (error != cudaErrorInsufficientDriver)
        return cuda_fail(err, error, "the GPU cannot be used (look at nvidia-smi, or use --device cpu)");
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return fail(err, STATUS_UNAVAILABLE,
                    "no NVIDIA driver was found: install it (in a container: docker run --gpus all), or use --device "
                    "cpu");
    cudaRuntimeGetVersion(&runtime);
    return fail(err, STATUS_UNAVAILABLE,
                "the NVIDIA driver supports CUDA %d.%d, but this program was built for CUDA %d.%d: update the driver, "
                "or use --device cpu",
                driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

// Chooses the GPU that a launcher assigns by a process's rank on its machine; processes share GPUs if there are more
// processes than GPUs.
static Status local_gpu(int *gpu, int gpus, Error *err) {
    const char *name = launcher_local_rank(), *text = name ? getenv(name) : NULL;
    *gpu = 0;
    if (!text) return STATUS_OK;
    long rank;
    if (*text_whole(&rank, text) || rank < 0 || rank > INT_MAX)
        return fail(err, STATUS_USAGE, "%s is \"%s\": set it to a rank, or choose a GPU with --gpu", name, text);
    *gpu = (int)(rank % gpus);
    return STATUS_OK;
}

static Status describe(Device *device, Error *err) {
    struct cudaDeviceProp properties;
    CUDA_TRY(cudaGetDeviceProperties(&properties, device->index), err, "cannot read what GPU %d is", device->index);
    snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1, properties.name);
    device->major = properties.major;
    device->minor = properties.minor;
    device->multiprocessors = properties.multiProcessorCount;
    CUDA_TRY(device_probe(), err,
             "this program has no code for GPU %d (%s, compute capability %d.%d): build it on this machine, or with "
             "-D CMAKE_CUDA_ARCHITECTURES=%d%d",
             device->index, device->name, device->major, device->minor, device->major, device->minor);
    CUDA_TRY(cudaMemGetInfo(&device->free_bytes, &device->memory_bytes), err, "cannot read the memory of GPU %d (%s)",
             device->index, device->name);
    return STATUS_OK;
}

static Status check_use(cudaError_t error, int gpu, Error *err) {
    if (is_of_mps(error)) return mps_failed(err, error);
    CUDA_TRY(error, err, "GPU %d cannot be used (look at nvidia-smi for who uses it)", gpu);
    return STATUS_OK;
}

Status device_open(Device *device, int gpu, Error *err) {
    *device = (Device){0};
    int gpus = 0;
    cudaError_t error = cudaGetDeviceCount(&gpus);
    if (error == cudaSuccess && gpus == 0) error = cudaErrorNoDevice;
    if (error != cudaSuccess) return no_gpu(err, error);
    if (gpu < 0) TRY(local_gpu(&gpu, gpus, err));
    if (gpu >= gpus)
        return fail(err, STATUS_UNAVAILABLE, "there is no GPU %d: this machine has %d, numbered from 0", gpu, gpus);
    TRY(check_use(cudaSetDevice(gpu), gpu, err));
    device->index = gpu;
    return describe(device, err);
}

void device_versions(int *driver, int *built_for) {
    *driver = *built_for = 0;
    cudaDriverGetVersion(driver);
    cudaRuntimeGetVersion(built_for);
}

#ifndef SOUNDER_CUDA_CODE
#define SOUNDER_CUDA_CODE "this machine"
#endif

const char *device_code(void) {
    return SOUNDER_CUDA_CODE;
}

Status device_sleep_when_waiting(int gpu, Error *err) {
    TRY(check_use(cudaSetDevice(gpu), gpu, err));
    return check_use(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), gpu, err);
}

void device_close(void) {
    cudaDeviceReset(); // waits by itself; after a sticky error it fails, and the end of the process frees the memory
}
