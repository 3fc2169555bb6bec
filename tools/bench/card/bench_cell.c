#include "bench_cell.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuda_try.h"

enum { CLASSES = 10, WARM_STEPS = 33 }; // directly, in a large and in a small graph
enum { ARRAYS = 6 };

typedef struct Cell {
    CudaNetPlan plan;
    CudaNet *net;
    void *memory[ARRAYS]; // owned: pixels, labels, order, weights, velocity, gradient
    cudaEvent_t begin, end;
} Cell;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_size);
    return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

static void close_cell(Cell *cell) {
    cuda_net_free(cell->net);
    if (cell->begin) cudaEventDestroy(cell->begin);
    if (cell->end) cudaEventDestroy(cell->end);
    for (int i = 0; i < ARRAYS; i++)
        cudaFree(cell->memory[i]);
}

static Status allocate(void **memory, size_t bytes, Error *err) {
    CUDA_TRY(cudaMalloc(memory, bytes), err, "%zu bytes of the card's memory", bytes);
    CUDA_TRY(cudaMemset(*memory, 0, bytes), err, "clearing %zu bytes", bytes);
    return STATUS_OK;
}

// Little-endian whole numbers below one of at most 256, each of so many bytes: from a generator that need not be good.
static Status fill(void *to, size_t bytes, size_t each, uint32_t below, Error *err) {
    uint8_t *noise = calloc(bytes, 1);
    uint32_t state = 12345;
    if (!noise) return fail(err, STATUS_OS, "no memory for %zu bytes of data", bytes);
    for (size_t i = 0; i < bytes; i += each) {
        state = state * 1664525 + 1013904223;
        noise[i] = (uint8_t)((state >> 24) % below);
    }
    cudaError_t copied = cudaMemcpy(to, noise, bytes, cudaMemcpyHostToDevice);
    free(noise);
    CUDA_TRY(copied, err, "copying %zu bytes of data", bytes);
    return STATUS_OK;
}

// Samples that a model has: as many as its steps need.
static uint32_t task_samples(const CellPlan *plan) {
    int most = plan->steps > WARM_STEPS ? plan->steps : WARM_STEPS;
    return (uint32_t)most * plan->batch_size;
}

static Status fill_order(uint32_t *to, const CellPlan *plan, size_t count, Error *err) {
    uint32_t *order = malloc(count * sizeof *order);
    if (!order) return fail(err, STATUS_OS, "no memory for the order of %zu samples", count);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)(i * 7919 % (size_t)plan->rows);
    cudaError_t copied = cudaMemcpy(to, order, count * sizeof *order, cudaMemcpyHostToDevice);
    free(order);
    CUDA_TRY(copied, err, "copying the order of %zu samples", count);
    return STATUS_OK;
}

static Status fill_weights(Cell *cell, Error *err) {
    size_t count = cell->plan.spec.parameter_count;
    float *weights = malloc(count * sizeof *weights);
    if (!weights) return fail(err, STATUS_OS, "no memory for %zu parameters", count);
    spec_initialise(weights, &cell->plan.spec, 1);
    cudaError_t copied = cudaSuccess;
    for (int m = 0; m < cell->plan.models && copied == cudaSuccess; m++)
        copied = cudaMemcpy(cell->plan.weights + (size_t)m * cell->plan.stride, weights, count * sizeof *weights,
                            cudaMemcpyHostToDevice);
    free(weights);
    CUDA_TRY(copied, err, "copying %zu parameters", count);
    return STATUS_OK;
}

static Status read_spec(Spec *spec, const CellPlan *plan, Error *err) {
    char text[SPEC_TEXT_BYTES];
    Shape shape;
    if (sscanf(plan->shape, "%dx%dx%d", &shape.channels, &shape.rows, &shape.columns) != 3)
        return fail(err, STATUS_USAGE, "--shape %s: give CHANNELSxROWSxCOLUMNS", plan->shape);
    if (strcmp(plan->net, "cifar-cnn") == 0) shape = (Shape){3, 32, 32};
    zoo_expand(text, sizeof text, plan->net, CLASSES);
    return spec_parse(spec, text, shape, CLASSES, err);
}

static Status open_cell(Cell *cell, const CellPlan *plan, Error *err) {
    CudaNetPlan *net = &cell->plan;
    *net = (CudaNetPlan){.models = plan->models,
                         .batch_size = plan->batch_size,
                         .tf32 = plan->tf32,
                         .sgd = {.lr = 0.01f, .momentum = plan->momentum}};
    TRY(read_spec(&net->spec, plan, err));
    size_t rows = (size_t)plan->rows, sample = shape_size(net->spec.input);
    net->stride = net->weights_stride = cuda_net_stride(net->spec.parameter_count);
    size_t arrays = net->stride * (size_t)plan->models * sizeof(float);
    size_t order = task_samples(plan) + (size_t)plan->models;
    const size_t bytes[ARRAYS] = {rows * sample, rows * sizeof(uint16_t), order * sizeof(uint32_t), arrays, arrays,
                                  arrays};
    for (int i = 0; i < ARRAYS; i++)
        TRY(allocate(&cell->memory[i], bytes[i], err));
    net->pixels = cell->memory[0];
    net->labels = cell->memory[1];
    net->order = cell->memory[2];
    net->weights = cell->memory[3];
    net->velocity = cell->memory[4];
    net->gradient = cell->memory[5];
    if (plan->work == CELL_TESTS) net->velocity = net->gradient = NULL;
    for (int c = 0; c < net->spec.input.channels && c < 16; c++)
        net->scale[c] = 1.0f / 128, net->shift[c] = -1;
    TRY(fill(cell->memory[0], bytes[0], 1, 256, err));
    TRY(fill(cell->memory[1], bytes[1], sizeof(uint16_t), CLASSES, err));
    TRY(fill_order(cell->memory[2], plan, order, err));
    TRY(fill_weights(cell, err));
    CUDA_TRY(cudaEventCreateWithFlags(&cell->begin, cudaEventDefault), err, "making an event");
    CUDA_TRY(cudaEventCreateWithFlags(&cell->end, cudaEventDefault), err, "making an event");
    return cuda_net_init(&cell->net, net, err);
}

// `steps` full batches for every model, each from a place of its own.
static Status assign(Cell *cell, int steps, Error *err) {
    for (int m = 0; m < cell->plan.models; m++) {
        const CudaTask task = {.first = (uint32_t)m,
                               .count = (uint32_t)steps * cell->plan.batch_size,
                               .noise = {.seed = 1, .client = (uint32_t)m}};
        TRY(cuda_net_assign(cell->net, m, &task, true, err));
    }
    return STATUS_OK;
}

static Status wait(Cell *cell, Error *err) {
    CUDA_TRY(cudaStreamSynchronize(cuda_net_stream(cell->net)), err, "waiting for the card");
    return STATUS_OK;
}

static Status work(Cell *cell, const CellPlan *plan, int steps, Error *err) {
    return (plan->work == CELL_TRAINS ? cuda_net_train : cuda_net_evaluate)(cell->net, (uint32_t)steps, err);
}

static Status time_run(double *microseconds, Cell *cell, const CellPlan *plan, Error *err) {
    const int steps = plan->steps;
    float milliseconds;
    TRY(assign(cell, steps, err));
    TRY(work(cell, plan, 0, err)); // the tasks go to the GPU before the clock starts
    CUDA_TRY(cudaEventRecord(cell->begin, cuda_net_stream(cell->net)), err, "recording an event");
    TRY(work(cell, plan, steps, err));
    CUDA_TRY(cudaEventRecord(cell->end, cuda_net_stream(cell->net)), err, "recording an event");
    TRY(wait(cell, err));
    CUDA_TRY(cudaEventElapsedTime(&milliseconds, cell->begin, cell->end), err, "reading the time of %d steps", steps);
    *microseconds = 1000 * (double)milliseconds / steps;
    return STATUS_OK;
}

static Status measure(CellResult *result, Cell *cell, const CellPlan *plan, Error *err) {
    double *times = calloc((size_t)plan->runs, sizeof *times);
    if (!times) return fail(err, STATUS_OS, "no memory for %d times", plan->runs);
    Status status;
    TRY_GOTO(done, assign(cell, WARM_STEPS, err));
    TRY_GOTO(done, work(cell, plan, WARM_STEPS, err));
    for (int i = 0; i < plan->runs; i++)
        TRY_GOTO(done, time_run(&times[i], cell, plan, err));
    result->microseconds_a_step = median(times, plan->runs);
    if (plan->work != CELL_TRAINS) goto done;
    TRY_GOTO(done, cuda_net_kernels(cell->net, &result->kernels, err));
    TRY_GOTO(done, assign(cell, 1, err));
    TRY_GOTO(done, cuda_net_costs(cell->net, result->costs, &result->cost_count, err));
    for (int i = 0; i < result->cost_count; i++) {
        result->bytes += result->costs[i].bytes;
        result->operations += result->costs[i].operations;
    }
done:
    free(times);
    return status;
}

Status bench_cell(CellResult *result, const CellPlan *plan, Error *err) {
    Cell cell = {0};
    *result = (CellResult){0};
    Status status = open_cell(&cell, plan, err);
    if (status == STATUS_OK) status = measure(result, &cell, plan, err);
    close_cell(&cell);
    return status;
}

Status bench_one_step(const CellPlan *plan, Error *err) {
    Cell cell = {0};
    Status status;
    TRY_GOTO(done, open_cell(&cell, plan, err));
    TRY_GOTO(done, assign(&cell, 1, err));
    TRY_GOTO(done, cuda_net_train(cell.net, 1, err));
    TRY_GOTO(done, wait(&cell, err));
done:
    close_cell(&cell);
    return status;
}
