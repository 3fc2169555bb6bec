// Part of gpu.h: a program without CUDA has no GPU; device_open says so before any of this is called.
#include "fedavg/gpu/gpu.h"

// Callers open a device first, which fails in such a build: these sentences are for a caller that has not.
static Status no_cuda(Error *err) {
    return fail(err, STATUS_UNAVAILABLE, "this sounder was built without CUDA");
}

const ParentBackend *parent_on_gpu(void) {
    return NULL;
}

const WorkerBackend *worker_on_gpu(void) {
    return NULL;
}

Status gpu_serves(const Device *device, bool by_mps, Error *err) {
    (void)device, (void)by_mps;
    return no_cuda(err);
}

bool gpu_has_blas(void) {
    return false;
}

Status gpu_view_memory(const char **name, const Device *device, Error *err) {
    (void)name, (void)device;
    return no_cuda(err);
}

Status gpu_plan(RunConfig *config, const Device *device, const Spec *spec, const Dataset *data,
                uint32_t clients_per_round, uint32_t models, Error *err) {
    (void)config, (void)device, (void)spec, (void)data, (void)clients_per_round, (void)models;
    return no_cuda(err);
}

GpuNeed gpu_need(const RunConfig *config, const Spec *spec, const Dataset *data) {
    (void)config, (void)spec, (void)data;
    return (GpuNeed){0};
}

Status gpu_evaluate(BatchResult *result, float *logits, const float *parameters, const Spec *spec, const Dataset *data,
                    bool tf32, Error *err) {
    (void)result, (void)logits, (void)parameters, (void)spec, (void)data, (void)tf32;
    return no_cuda(err);
}
