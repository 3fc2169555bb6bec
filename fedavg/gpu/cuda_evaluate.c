// Part of gpu.h: the test set on the GPU, for the parent of a run and for programs of one process.
#include "fedavg/gpu/cuda_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_samples.h"
#include "fedavg/gpu/gpu.h"
#include "nn/net.h"

// The net has no velocity and no gradient, so that it allocates the activations of one chunk only. It reads the weights
// where they are: each run evaluates the model that is there at that time.
Status cuda_evaluator_init(CudaNet **net, float *weights, const uint8_t *pixels, const uint16_t *labels,
                           const struct CudaSamples *samples, const Spec *spec, const Dataset *data, bool tf32,
                           Error *err) {
    CudaNetPlan plan = {.spec = *spec,
                        .models = 1,
                        .batch_size = EVALUATION_CHUNK,
                        .tf32 = tf32,
                        .pixels = pixels,
                        .labels = labels,
                        .floats = data->items.pixel_bytes > 1,
                        .weights = weights};
    if (samples) cuda_samples_plan(&plan, samples);
    static_assert(sizeof plan.scale == sizeof data->scale && sizeof plan.shift == sizeof data->shift, "by channel");
    memcpy(plan.scale, data->scale, sizeof plan.scale);
    memcpy(plan.shift, data->shift, sizeof plan.shift);
    return cuda_net_init(net, &plan, err);
}

// Logits need a copy per chunk; loss and hits are summed on the GPU, and only two numbers travel.
Status cuda_evaluator_run(BatchResult *result, float *logits, CudaNet *net, const Dataset *data, Error *err) {
    CudaTask task = {.count = data->test.count};
    TRY(cuda_net_assign(net, 0, &task, true, err));
    if (logits)
        TRY(cuda_net_logits(net, logits, task.count, err));
    else
        TRY(cuda_net_evaluate(net, (task.count + EVALUATION_CHUNK - 1) / EVALUATION_CHUNK, err));
    return cuda_net_results(net, result, err);
}

Status cuda_evaluator_answer(BatchResult *result, Answer *answers, CudaNet *net, const struct CudaSamples *samples,
                             const Dataset *data, Error *err) {
    const Spec *spec = &samples->memory->config->spec;
    float *logits = malloc(data->test.count * (size_t)spec->classes * sizeof *logits);
    if (!logits) return fail(err, STATUS_OS, "no memory for the logits of %u samples", data->test.count);
    const Status status = cuda_evaluator_run(result, logits, net, data, err);
    if (status == STATUS_OK) net_answers_of(answers, logits, data->test.labels, data->test.count, spec);
    for (uint32_t i = 0; i < data->test.count && status == STATUS_OK && samples->labels_of; i++)
        answers[i].label = samples->host_labels_of[answers[i].label];
    free(logits);
    return status;
}

// Weights, pixels and labels in one allocation, each at a multiple of 256 bytes.
typedef struct EvaluationMemory {
    uint8_t *memory; // device, owned
    size_t pixels, labels, bytes;
} EvaluationMemory;

static size_t align(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// One allocation holds all three arrays, so that one free ends it on every path. The wait is for the caller's
// memory: its copies are under way until then.
static Status upload(EvaluationMemory *self, const float *parameters, const Spec *spec, const Dataset *data,
                     Error *err) {
    size_t weight_bytes = spec->parameter_count * sizeof *parameters;
    const size_t pixel_bytes = dataset_sample_bytes(data, &data->test);
    const size_t label_bytes = data->test.count * data->items.label_bytes;
    self->pixels = align(weight_bytes);
    self->labels = self->pixels + align(pixel_bytes);
    self->bytes = self->labels + label_bytes;
    CUDA_TRY(cudaMalloc((void **)&self->memory, self->bytes), err, "%zu bytes for weights and test set", self->bytes);
    Status status = cuda_copy(self->memory, parameters, weight_bytes, 0, err);
    if (status == STATUS_OK) status = cuda_copy(self->memory + self->pixels, data->test.pixels, pixel_bytes, 0, err);
    if (status == STATUS_OK) status = cuda_copy(self->memory + self->labels, data->test.labels, label_bytes, 0, err);
    if (status == STATUS_OK) status = cuda_wait(0, err, "copying weights and test set to the GPU");
    if (status != STATUS_OK) cudaFree(self->memory);
    return status;
}

// A net for one evaluation: a program that evaluates once has no use for the blocks that processes share.
Status gpu_evaluate(BatchResult *result, float *logits, const float *parameters, const Spec *spec, const Dataset *data,
                    bool tf32, Error *err) {
    EvaluationMemory memory;
    CudaNet *net;
    TRY(upload(&memory, parameters, spec, data, err));
    Status status = cuda_evaluator_init(&net, (float *)(void *)memory.memory, memory.memory + memory.pixels,
                                        (const uint16_t *)(const void *)(memory.memory + memory.labels), NULL, spec,
                                        data, tf32, err);
    if (status == STATUS_OK) {
        status = cuda_evaluator_run(result, logits, net, data, err);
        cuda_net_free(net);
    }
    cudaFree(memory.memory);
    return status;
}
