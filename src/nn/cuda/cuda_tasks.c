// Part of cuda_net.h: the tasks of the models, and the steps of all of them.
#include "cuda_net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuda_try.h"
#include "nn/carver.h"
#include "nn/cuda/cuda_index.h"
#include "nn/cuda/cuda_pass.h"
#include "nn/layers/cuda_layer.h"

enum { MOST_MODELS = 65535 }; // limit of a batched product in all versions of cuBLAS
enum { MOST_CHANNELS = 16 };

typedef enum StepKind { STEP_TRAIN, STEP_LOOK, STEP_GRADIENT, STEP_EVALUATE, STEP_KINDS } StepKind;

// A net owns one stream, one device allocation and cuBLAS. Everything that its steps read or write is at fixed
// addresses from cuda_net_init on, since captured graphs hold these addresses.
struct CudaNet {
    CudaPass pass;
    CudaBlas blas;        // owned
    cudaStream_t stream;  // owned
    char *arena;          // owned, device: activations, gradients, progress, counters
    CudaProgress counted; // the counters that the host has read last, in `counters`
    char *counters;       // owned
    size_t counter_bytes;
    float lr;                        // of all later steps: kept until the stream has read it
    CudaGraph graphs[STEP_KINDS];    // owned
    CudaHold *holds[CUDA_NET_HOLDS]; // owned; NULL until they are used
    CudaHold *hold;                  // one of them, of later steps of training; NULL: none
    CudaAssignment *pending;         // owned (M): assignments that have not been sent to the GPU
    int pending_count;
};

// Memory --------------------------------------------------------------------------------------------------------------

// Aligned as cudaMalloc aligns, so that no two arrays share a cache line and every array suits float4.
enum { ALIGNMENT = 256 };

// Columns of a tensor: whole float4s, which the ops read. In a smaller last batch the columns after the samples count
// for nothing.
static int columns_of(uint32_t batch_size) {
    return (int)((batch_size + 3) / 4 * 4);
}

// Places the models' progress in device memory. Returns its bytes. The progress is cleared to zeros as a whole: so
// every model starts idle.
static size_t carve_progress(CudaPass *pass, char *base, const Spec *spec, int models) {
    CudaProgress *progress = &pass->progress;
    size_t m = (size_t)models;
    Carver carver = {.base = base, .alignment = ALIGNMENT};
    uint32_t **const words[] = {&progress->counts, &progress->firsts,       &progress->numbers, &progress->next,
                                &progress->left,   &progress->next_numbers, &progress->applied};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *words[i] = carve(&carver, m * sizeof(uint32_t));
    progress->keys = carve(&carver, m * ((size_t)spec->layer_count + 1) * sizeof(RngKey));
    progress->read_at = carve(&carver, sizeof(uint64_t));
    pass->whole.parts = parts_of((uint32_t)spec->parameter_count, CUDA_LENGTH_PART);
    pass->whole.lengths = carve(&carver, m * pass->whole.parts * sizeof(double));
    pass->whole.factors = carve(&carver, m * sizeof(float));
    pass->whole.adam = carve(&carver, m * sizeof(AdamStep));
    pass->scale = carve(&carver, MOST_CHANNELS * sizeof(float));
    pass->shift = carve(&carver, MOST_CHANNELS * sizeof(float));
    pass->lr = carve(&carver, sizeof(float));
    return carver.used;
}

// Places the counters that the host reads: on the device, and in the host's copy. Returns their bytes.
static size_t carve_counters(CudaProgress *progress, char *base, int models) {
    Carver carver = {.base = base, .alignment = ALIGNMENT};
    progress->loss_sums = carve(&carver, (size_t)models * sizeof(double));
    progress->hits = carve(&carver, (size_t)models * sizeof(uint32_t));
    progress->refused = carve(&carver, sizeof(uint64_t));
    progress->staleness = carve(&carver, (CUDA_NET_BUCKETS + 1) * sizeof(uint64_t));
    return carver.used;
}

size_t cuda_net_bytes(const Spec *spec, int models, uint32_t batch_size, bool needs_blas) {
    CudaPass pass = {0};
    return cuda_ops_carve(&pass.ops, NULL, spec, models, columns_of(batch_size), true) +
           carve_progress(&pass, NULL, spec, models) + carve_counters(&pass.progress, NULL, models) +
           (needs_blas ? CUDA_BLAS_WORKSPACE_BYTES : 0);
}

// Allocates one block for counters, progress and activations. The counters are at its beginning, so that one copy
// brings them to the host.
static Status allocate(CudaNet *net, Error *err) {
    CudaPass *pass = &net->pass;
    const Spec *spec = &pass->plan.spec;
    int models = pass->plan.models, columns = columns_of(pass->plan.batch_size);
    bool training = pass->plan.gradient != NULL;
    net->counter_bytes = carve_counters(&pass->progress, NULL, models);
    size_t progress = net->counter_bytes + carve_progress(pass, NULL, spec, models);
    size_t bytes = progress + cuda_ops_carve(&pass->ops, NULL, spec, models, columns, training);
    CUDA_TRY(cudaMalloc((void **)&net->arena, bytes), err,
             "no memory on the GPU for the %zu bytes of activations of %d models with batches of %u; use fewer models "
             "per launch or smaller batches",
             bytes, models, pass->plan.batch_size);
    carve_counters(&pass->progress, net->arena, models);
    carve_progress(pass, net->arena + net->counter_bytes, spec, models);
    cuda_ops_carve(&pass->ops, net->arena + progress, spec, models, columns, training);
    // All zeros: every model is idle until it is assigned a task.
    CUDA_TRY(cudaMemsetAsync(net->arena, 0, progress, net->stream), err, "clearing the progress of %d models", models);
    net->pending = malloc((size_t)models * sizeof *net->pending);
    net->counters = malloc(net->counter_bytes);
    if (!net->pending || !net->counters)
        return fail_errno(err, STATUS_OS, "no memory for the tasks of %d models", models);
    carve_counters(&net->counted, net->counters, models);
    return STATUS_OK;
}

// Life ----------------------------------------------------------------------------------------------------------------

// Whether a tensor would have more floats than 32 bits can count.
static bool is_too_large(const Spec *spec, uint32_t batch_size) {
    size_t most = shape_size(spec->input);
    for (int l = 0; l < spec->layer_count; l++)
        if (most < shape_size(spec->layers[l].out)) most = shape_size(spec->layers[l].out);
    for (int l = 0; l < spec->layer_count; l++) {
        const size_t kept = cuda_layer_statistics(&spec->layers[l]);
        if (most < kept) most = kept;
    }
    return most > INT32_MAX / 4 || batch_size > INT32_MAX / most - 3;
}

Status cuda_net_check(const Spec *spec, int models, uint32_t batch_size, Error *err) {
    if (models < 1 || models > MOST_MODELS)
        return fail(err, STATUS_USAGE, "%d models in one launch; from 1 to %d are possible", models, MOST_MODELS);
    if (batch_size < 1 || is_too_large(spec, batch_size))
        return fail(err, STATUS_USAGE, "batches of %u samples cannot be computed at once on a GPU; use smaller ones",
                    batch_size);
    if (spec->input.channels > MOST_CHANNELS)
        return fail(err, STATUS_USAGE, "samples of %d channels; on a GPU at most %d are possible", spec->input.channels,
                    MOST_CHANNELS);
    return STATUS_OK;
}

// Our own products are made for few samples; with more of them, and in training alone, cuBLAS's are faster.
enum { MOST_SAMPLES_WITHOUT_BLAS = 64 };

bool cuda_net_needs_blas(uint32_t batch_size, bool tf32, bool trains) {
    return tf32 || (trains && batch_size > MOST_SAMPLES_WITHOUT_BLAS);
}

// Refuses plans that no launch could compute, with the sentence that the user sees.
static Status check_plan(const CudaNetPlan *plan, Error *err) {
    const Spec *spec = &plan->spec;
    TRY(cuda_net_check(spec, plan->models, plan->batch_size, err));
    if (plan->updates && spec_needs_whole_batches(spec))
        return fail(err, STATUS_USAGE,
                    "running statistics of a batchnorm have no gradients, and updates are counted of "
                    "gradients only; normalise with groupnorm");
    if (plan->velocity && spec->parameter_count == 0)
        return fail(err, STATUS_USAGE, "a net without parameters cannot be trained; add a linear layer");
    if (plan->velocity && plan->models > 1 && plan->weights_stride == 0)
        return fail(err, STATUS_USAGE, "%d models cannot train the same weights in one launch; use 1", plan->models);
    assert(!plan->gradient || plan->stride >= spec->parameter_count);
    if (plan->updates && plan->weights_stride > 0)
        return fail(err, STATUS_USAGE, "updates are counted of shared weights only; their stride is %zu, not 0",
                    plan->weights_stride);
    return STATUS_OK;
}

// An embedding reads pixels as the data set has them, as on the CPU (load_images in batches.c).
static void take_numbers(CudaNetPlan *plan) {
    if (!layer_has(&plan->spec.layers[0], READS_NUMBERS)) return;
    for (int c = 0; c < MOST_CHANNELS; c++)
        plan->scale[c] = 1, plan->shift[c] = 0;
}

// Everything that can fail for want of memory or a library. cuda_net_init releases the rest through cuda_net_free,
// which takes a net at any stage.
static Status start(CudaNet *net, Error *err) {
    CudaPass *pass = &net->pass;
    const CudaNetPlan *plan = &pass->plan;
    const bool needs_blas = cuda_net_needs_blas(plan->batch_size, plan->tf32, plan->gradient != NULL);
    // A blocking stream: copies of the caller on the default stream are ordered before the next launch here.
    CUDA_TRY(cudaStreamCreate(&net->stream), err, "making a stream on the GPU");
    TRY(allocate(net, err));
    if (needs_blas) TRY(cuda_blas_open(&net->blas, net->stream, plan->tf32, err));
    size_t bytes = (size_t)plan->spec.input.channels * sizeof(float);
    CUDA_TRY(cudaMemcpyAsync(pass->scale, plan->scale, bytes, cudaMemcpyHostToDevice, net->stream), err,
             "copying the channels' scale to the GPU");
    CUDA_TRY(cudaMemcpyAsync(pass->shift, plan->shift, bytes, cudaMemcpyHostToDevice, net->stream), err,
             "copying the channels' shift to the GPU");
    TRY(cuda_net_set_lr(net, plan->sgd.lr, err));
    pass->blas = needs_blas ? &net->blas : NULL;
    pass->progress.models = plan->models;
    pass->progress.layers = plan->spec.layer_count;
    pass->progress.batch_size = plan->batch_size;
    pass->progress.updates = plan->updates;
    pass->progress.fence = plan->fence;
    pass->progress.views = plan->views;
    pass->progress.labels_of = plan->labels_of;
    pass->step = (CudaStep){plan->models, columns_of(plan->batch_size), pass->progress.counts, net->stream};
    const CudaEnqueue steps[] = {cuda_pass_train, cuda_pass_look, cuda_pass_gradient, cuda_pass_evaluate};
    for (int kind = 0; kind < STEP_KINDS; kind++)
        net->graphs[kind] = (CudaGraph){.enqueue = steps[kind], .pass = pass, .blas = &net->blas};
    CUDA_TRY(cudaStreamSynchronize(net->stream), err, "starting a net on the GPU");
    return STATUS_OK;
}

Status cuda_net_init(CudaNet **net, const CudaNetPlan *plan, Error *err) {
    *net = NULL;
    TRY(check_plan(plan, err));
    CudaNet *made = calloc(1, sizeof *made);
    if (!made) return fail_errno(err, STATUS_OS, "no memory for a net on the GPU");
    made->pass.plan = *plan;
    take_numbers(&made->pass.plan);
    Status status = start(made, err);
    if (status == STATUS_OK)
        *net = made;
    else
        cuda_net_free(made);
    return status;
}

// Waits first, since kernels in flight still use the memory.
void cuda_net_free(CudaNet *net) {
    if (!net) return;
    if (net->stream) cudaStreamSynchronize(net->stream); // a failure is sticky, and nothing else could be done about it
    for (int kind = 0; kind < STEP_KINDS; kind++)
        cuda_graph_free(&net->graphs[kind]);
    for (int i = 0; i < CUDA_NET_HOLDS; i++)
        cuda_hold_free(net->holds[i]);
    cuda_blas_close(&net->blas);
    free(net->counters);
    free(net->pending);
    if (net->arena) cudaFree(net->arena);
    if (net->stream) cudaStreamDestroy(net->stream);
    free(net);
}

// Work ----------------------------------------------------------------------------------------------------------------

// Assignments are collected on the host and sent with the next call, CUDA_MOST_ASSIGNMENTS per launch: one launch
// then serves many models. A second assignment of a model
// before that replaces the first, but does not undo its `fresh`.
Status cuda_net_assign(CudaNet *net, int model, const CudaTask *task, bool fresh, Error *err) {
    if (model < 0 || model >= net->pass.plan.models)
        return fail(err, STATUS_USAGE, "no model %d in a launch of %d", model, net->pass.plan.models);
    int place = 0;
    while (place < net->pending_count && net->pending[place].model != (uint32_t)model)
        place++;
    if (place == net->pending_count) net->pending[net->pending_count++] = (CudaAssignment){.model = (uint32_t)model};
    CudaAssignment *assignment = &net->pending[place];
    assignment->task = *task;
    assignment->fresh |= fresh;
    return STATUS_OK;
}

// Sends the assignments to the GPU, CUDA_MOST_ASSIGNMENTS per launch.
static Status flush(CudaNet *net, Error *err) {
    for (int first = 0; first < net->pending_count; first += CUDA_MOST_ASSIGNMENTS) {
        int left = net->pending_count - first;
        cuda_progress_assign(&net->pass.progress, net->pending + first,
                             left < CUDA_MOST_ASSIGNMENTS ? left : CUDA_MOST_ASSIGNMENTS, net->stream);
    }
    if (net->pending_count > 0) CUDA_TRY(cudaGetLastError(), err, "assigning tasks to %d models", net->pending_count);
    net->pending_count = 0;
    return STATUS_OK;
}

// Each kind of step has a graph of its own, captured when it first runs, and so has each range that training leaves.
static Status run_steps(CudaNet *net, StepKind kind, uint32_t steps, Error *err) {
    CudaGraph *graph = kind == STEP_TRAIN && net->hold ? &net->hold->graph : &net->graphs[kind];
    TRY(flush(net, err));
    return cuda_graph_run(graph, steps, err);
}

Status cuda_net_hold(CudaNet *net, size_t first, size_t end, Error *err) {
    int place = 0;
    net->hold = NULL;
    if (first == end) return STATUS_OK;
    while (place < CUDA_NET_HOLDS && net->holds[place] &&
           (net->holds[place]->first != first || net->holds[place]->end != end))
        place++;
    if (place == CUDA_NET_HOLDS)
        return fail(err, STATUS_USAGE, "more than %d ranges of parameters that a net's steps leave", CUDA_NET_HOLDS);
    if (!net->holds[place]) net->holds[place] = cuda_hold_new(&net->graphs[STEP_TRAIN], first, end);
    net->hold = net->holds[place];
    return net->hold ? STATUS_OK : fail_errno(err, STATUS_OS, "no memory for steps that leave parameters");
}

// The rate is read from device memory by captured steps, so that a new rate needs no new capture. CUDA does not promise
// that a copy from pageable memory has read it when the call returns: a local variable would not do.
Status cuda_net_set_lr(CudaNet *net, float lr, Error *err) {
    net->lr = lr;
    CUDA_TRY(cudaMemcpyAsync(net->pass.lr, &net->lr, sizeof net->lr, cudaMemcpyHostToDevice, net->stream), err,
             "copying the learning rate to the GPU");
    return STATUS_OK;
}

Status cuda_net_train(CudaNet *net, uint32_t steps, Error *err) {
    assert(net->pass.plan.gradient && net->pass.plan.velocity);
    return run_steps(net, STEP_TRAIN, steps, err);
}

Status cuda_net_gradient(CudaNet *net, Error *err) {
    assert(net->pass.plan.gradient);
    return run_steps(net, STEP_GRADIENT, 1, err);
}

Status cuda_net_look(CudaNet *net, uint32_t steps, Error *err) {
    assert(net->pass.plan.full_gradient && net->pass.plan.totals);
    return run_steps(net, STEP_LOOK, steps, err);
}

Status cuda_net_evaluate(CudaNet *net, uint32_t steps, Error *err) {
    return run_steps(net, STEP_EVALUATE, steps, err);
}

// The host may then read and write what the steps have used. Failures of kernels that ran earlier show here, since
// launches only queue them.
static Status wait(CudaNet *net, Error *err) {
    CUDA_TRY(cudaStreamSynchronize(net->stream), err, "waiting for the GPU to finish its steps");
    return STATUS_OK;
}

// Waits for the stream and copies the counters to the host.
static Status read_counters(CudaNet *net, Error *err) {
    CUDA_TRY(cudaMemcpyAsync(net->counters, net->arena, net->counter_bytes, cudaMemcpyDeviceToHost, net->stream), err,
             "copying the counters from the GPU");
    return wait(net, err);
}

// Assignments are sent first, since a fresh one clears its model's counters.
Status cuda_net_results(CudaNet *net, BatchResult *results, Error *err) {
    TRY(flush(net, err));
    TRY(read_counters(net, err));
    for (int m = 0; m < net->pass.plan.models; m++)
        results[m] = (BatchResult){net->counted.loss_sums[m], net->counted.hits[m]};
    return STATUS_OK;
}

// The device counts staleness in CUDA_NET_BUCKETS buckets; the caller may want fewer, of which the last holds the rest.
Status cuda_net_staleness(CudaNet *net, uint64_t *refused, uint64_t *sum, uint64_t *histogram, int buckets,
                          Error *err) {
    const CudaProgress *progress = &net->pass.progress;
    assert(buckets >= 1 && buckets <= CUDA_NET_BUCKETS);
    TRY(read_counters(net, err));
    *refused = *net->counted.refused;
    *sum = net->counted.staleness[CUDA_NET_BUCKETS];
    memset(histogram, 0, (size_t)buckets * sizeof *histogram);
    for (int others = 0; others < CUDA_NET_BUCKETS; others++)
        histogram[others < buckets ? others : buckets - 1] += net->counted.staleness[others];
    CUDA_TRY(cudaMemsetAsync(progress->refused, 0, sizeof *progress->refused, net->stream), err, "clearing a counter");
    CUDA_TRY(cudaMemsetAsync(progress->staleness, 0, (CUDA_NET_BUCKETS + 1) * sizeof *progress->staleness, net->stream),
             err, "clearing %d counters", CUDA_NET_BUCKETS + 1);
    return STATUS_OK;
}

// Evaluates batch by batch, and transposes each batch's logits (classes,N) to sample-major order on the host. The
// logits are those of the first model.
Status cuda_net_logits(CudaNet *net, float *logits, uint32_t count, Error *err) {
    const CudaNetPlan *plan = &net->pass.plan;
    size_t columns = (size_t)net->pass.step.samples, classes = (size_t)plan->spec.classes;
    float *lanes = malloc(classes * columns * sizeof *lanes); // (classes, N)
    if (!lanes) return fail_errno(err, STATUS_OS, "no memory for the logits of %zu samples", columns);
    Status status = STATUS_OK;
    for (uint32_t first = 0; first < count && status == STATUS_OK; first += plan->batch_size) {
        TRY_GOTO(done, cuda_net_evaluate(net, 1, err));
        cudaError_t copied = cudaMemcpyAsync(lanes, net->pass.ops.logits, classes * columns * sizeof *lanes,
                                             cudaMemcpyDeviceToHost, net->stream);
        if (copied != cudaSuccess) {
            status = cuda_fail(err, copied, "copying logits from the GPU");
            goto done;
        }
        TRY_GOTO(done, wait(net, err));
        for (uint32_t s = 0; s < plan->batch_size && first + s < count; s++)
            for (size_t k = 0; k < classes; k++)
                *logits++ = lanes[k * columns + s];
    }
done:
    free(lanes);
    return status;
}

Status cuda_net_pass(CudaNet *net, const CudaPass **pass, Error *err) {
    TRY(flush(net, err));
    *pass = &net->pass;
    return STATUS_OK;
}

void *cuda_net_stream(CudaNet *net) {
    return net->stream;
}
