#include "cuda_costs.h"

#include <stdio.h>
#include <string.h>

#include "base/cuda_try.h"
#include "nn/cuda/cuda_pass.h"
#include "nn/layers/cuda_layer.h"

// The measurement of one step.
typedef struct Record {
    const CudaPass *pass;
    CudaCost *costs;
    int count;
    cudaEvent_t events[CUDA_MOST_COSTS + 1]; // owned; the first before the step
    cudaError_t failure;
} Record;

// Number of arrays of parameters that a step of SGD reads and writes: weights, and with momentum velocities. Each is
// read and written.
static double stepped(const CudaPass *pass) {
    return pass->plan.sgd.momentum > 0 ? 4 : 2;
}

// Number of parameters whose step is not made in their gradient's kernel but by the last kernel of the step.
static size_t parameters_left(const Record *record) {
    const CudaPass *pass = record->pass;
    bool steps_early = false;
    for (int i = 0; i < record->count; i++)
        steps_early |= strstr(record->costs[i].name, "and step") != NULL;
    size_t left = 0;
    for (int i = 0; i < pass->ops.count; i++)
        if (!steps_early || !layer_has(pass->ops.ops[i].layer, HEADS)) left += layer_parameters(pass->ops.ops[i].layer);
    return left;
}

// The bytes of the steps of all linear layers, or half of the operations of their products.
static double of_linear_layers(const CudaPass *pass, bool bytes) {
    double sum = 0;
    for (int i = pass->ops.first; i < pass->ops.count; i++) {
        const Layer *layer = pass->ops.ops[i].layer;
        if (!layer_has(layer, HEADS)) continue;
        sum += bytes ? cuda_values_bytes(pass, &pass->ops.ops[i], 1, 1) +
                           stepped(pass) * cuda_arrays_bytes(pass, layer_parameters(layer))
                     : layer_products(layer);
    }
    return sum;
}

// Counts every tensor once per kernel that reads or writes it. Caches make the real traffic smaller: a part that takes
// less time than its bytes need has found them there. The numbers are of the algorithm, not of the GPU: a table of
// costs can so be compared between cards.
static double bytes_of(const Record *record, CudaPart part, const CudaOp *op) {
    const CudaPass *pass = record->pass;
    const Spec *spec = &pass->plan.spec;
    const CudaLayer *layer = op ? cuda_layer(op->layer) : NULL;
    double in = op ? cuda_lanes_bytes(pass, shape_size(op->layer->in)) : 0,
           out = op ? cuda_lanes_bytes(pass, shape_size(op->layer->out)) : 0;
    double own = op ? cuda_arrays_bytes(pass, layer_parameters(op->layer)) : 0;
    switch (part) {
    case CUDA_PART_GATHER:
        return cuda_lanes_bytes(pass, shape_size(spec->input)) * 1.25; // reads a byte for each float that it writes
    case CUDA_PART_FORWARD:
        return layer->bytes
                   ? layer->bytes(pass, op)
                   : cuda_values_bytes(pass, op, layer->in != 0 ? layer->in : 1, layer->out != 0 ? layer->out : 1);
    case CUDA_PART_LOSS:
        return 3 * cuda_lanes_bytes(pass, (size_t)spec->classes);
    case CUDA_PART_BACK:
        return cuda_values_bytes(pass, op, layer->back_in, layer->back_in + layer->back_out > 0 ? layer->back_out : 3) +
               (op->relu && !op->relu_is_left && layer->traits & READS_RELU_OUTPUT ? out : 0);
    case CUDA_PART_INPUT:
        return in * (op->relu_before || op->adds ? 2 : 1) + out + own;
    case CUDA_PART_PARAMETERS:
        return in + out + own;
    case CUDA_PART_PARAMETERS_AND_STEP:
        return of_linear_layers(pass, true);
    case CUDA_PART_STEP:
        return (stepped(pass) + 1) * cuda_arrays_bytes(pass, parameters_left(record));
    }
    return 0;
}

// Only products count: the other kernels are bound by memory.
static double operations_of(const CudaPass *pass, CudaPart part, const CudaOp *op) {
    const bool product = part == CUDA_PART_FORWARD || part == CUDA_PART_INPUT || part == CUDA_PART_PARAMETERS;
    const double products = part == CUDA_PART_PARAMETERS_AND_STEP ? of_linear_layers(pass, false)
                            : product                             ? layer_products(op->layer)
                                                                  : 0;
    return 2.0 * pass->step.models * pass->plan.batch_size * products;
}

// The mark of the measured pass: called after each part, it names the part, counts its bytes and records an event.
static void note(void *context, CudaPart part, const CudaOp *op) {
    Record *record = context;
    CudaCost *cost = &record->costs[record->count];
    static const char *const parts[] = {
        "gather", "forward", "loss", "back", "input", "gradient", "linear gradient and step", "step"};
    if (op)
        snprintf(cost->name, sizeof cost->name, "%s %d %s", layer_type(op->layer)->name, op->number + 1, parts[part]);
    else
        snprintf(cost->name, sizeof cost->name, "%s", parts[part]);
    cost->bytes = bytes_of(record, part, op);
    cost->operations = operations_of(record->pass, part, op);
    record->count++;
    cudaError_t failure = cudaEventRecord(record->events[record->count], record->pass->step.stream);
    if (record->failure == cudaSuccess) record->failure = failure;
}

// The time of a part is that between the events around it.
static Status take_times(Record *record, Error *err) {
    for (int i = 0; i < record->count; i++) {
        float milliseconds;
        CUDA_TRY(cudaEventElapsedTime(&milliseconds, record->events[i], record->events[i + 1]), err,
                 "reading the time between two events");
        record->costs[i].microseconds = 1000 * (double)milliseconds;
    }
    return STATUS_OK;
}

// Makes one step outside the graph, with an event after each part: a captured step has no places to measure. So the
// times include the launches, which a replayed graph does not have.
Status cuda_net_costs(CudaNet *net, CudaCost *costs, int *count, Error *err) {
    const CudaPass *own;
    TRY(cuda_net_pass(net, &own, err));
    CudaPass pass = *own;
    Record record = {.pass = &pass, .costs = costs};
    Status status = STATUS_OK;
    pass.mark = note;
    pass.mark_context = &record;
    for (int i = 0; i <= CUDA_MOST_COSTS && record.failure == cudaSuccess; i++)
        record.failure = cudaEventCreateWithFlags(&record.events[i], cudaEventDefault);
    if (record.failure == cudaSuccess) record.failure = cudaEventRecord(record.events[0], pass.step.stream);
    if (record.failure == cudaSuccess) cuda_pass_train(&pass);
    if (record.failure == cudaSuccess) record.failure = cudaGetLastError();
    if (record.failure == cudaSuccess) record.failure = cudaStreamSynchronize(pass.step.stream);
    if (record.failure != cudaSuccess)
        status = cuda_fail(err, record.failure, "looking at a step");
    else
        status = cuda_blas_check(pass.blas, err);
    if (status == STATUS_OK) status = take_times(&record, err);
    *count = record.count;
    for (int i = 0; i <= CUDA_MOST_COSTS; i++)
        if (record.events[i]) cudaEventDestroy(record.events[i]);
    return status;
}

// Captures a step without running it, and counts the nodes of the graph.
Status cuda_net_kernels(CudaNet *net, size_t *kernels, Error *err) {
    const CudaPass *pass;
    TRY(cuda_net_pass(net, &pass, err));
    cudaGraph_t graph = NULL;
    CUDA_TRY(cudaStreamBeginCapture(pass->step.stream, cudaStreamCaptureModeThreadLocal), err, "capturing a step");
    cuda_pass_train(pass);
    CUDA_TRY(cudaStreamEndCapture(pass->step.stream, &graph), err, "capturing a step");
    cudaError_t counted = cudaGraphGetNodes(graph, NULL, kernels);
    cudaGraphDestroy(graph);
    CUDA_TRY(counted, err, "counting the kernels of a step");
    return STATUS_OK;
}
