// Part of gpu.h: the parent's arithmetic on the GPU. The host's shared memory (weights and lasting slots) is
// overwritten only when a round has succeeded: if the GPU fails, it holds the model of the last successful round.
#include <stdlib.h>
#include <string.h>

#include "base/cuda_try.h"
#include "base/log.h"
#include "fedavg/gpu/cuda_blocks.h"
#include "fedavg/gpu/cuda_rules.h"
#include "fedavg/gpu/cuda_samples.h"
#include "fedavg/gpu/cuda_view.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/sum/aggregate.h"

// Three copies of the weights exist: the model in the block, which workers read or train; the copy of the round's
// beginning, for engines that may have to put it back; and the host's view, from which publish copies into shared
// memory. The slots exist once, on the GPU; the host has only their lasting part.

typedef struct CudaParent {
    CudaArrays arrays;
    CudaBlocks blocks;
    CudaView view; // the new weights
    void *pinned;  // the lasting slots in the host's memory, which the driver has pinned; NULL: it has not
    int gpu;
    uint32_t generations[MAX_WORKERS]; // of each rank's process, as the workers' fences know them
    size_t free_bytes;                 // of the GPU, before workers allocated; 0: measure_workers has written its line
    uint8_t *used;                     // device, owned (MAX_WORKERS)
    uint32_t *not_finite;              // device, owned: how many of the new weights are not
    uint8_t host_used[MAX_WORKERS];    // copied to and from here: a copy may still wait when its caller has failed
    uint32_t host_not_finite;
    float *begun_weights; // device, owned (parameters): as the round began
    float *begun_vectors; // device, owned (kept vectors, parameters)
    CudaSamples samples;  // what the evaluator sees of the test set
    CudaNet *evaluator;   // owned
    cudaStream_t stream;  // owned
} CudaParent;

// For a failed cuda_init as well as for the end of a run: all that is not allocated yet is NULL. The blocks are freed
// last, when no worker lives any more: a worker's import would keep the memory taken.
static void release(CudaParent *self) {
    if (self->pinned) cudaHostUnregister(self->pinned);
    cuda_net_free(self->evaluator);
    cuda_samples_free(&self->samples);
    if (self->stream) cudaStreamDestroy(self->stream);
    cuda_arrays_free(&self->arrays);
    cuda_view_free(&self->view);
    cuda_blocks_free(&self->blocks);
    free(self);
}

static void cuda_free(Parent *parent) {
    release(parent->state);
}

// Copies of the round's beginning exist only for engines whose workers write the weights (Hogwild, lockstep). With all
// others a round that fails has changed nothing on the GPU that the parent would have to put back; cuda_begin then does
// nothing, and no engine calls cuda_restore.
static Status allocate(CudaParent *self, RunConfig *config, Error *err) {
    size_t bytes = config->parameters * sizeof(float);
    CUDA_TRY(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking), err, "a stream");
    TRY(cuda_blocks_create(&self->blocks, &config->gpu, err));
    TRY(cuda_view_create(&self->view, bytes, self->gpu, err));
    TRY(cuda_allocate(&self->arrays, &self->used, MAX_WORKERS, 1, "the list of slots", err));
    TRY(cuda_allocate(&self->arrays, &self->not_finite, 1, sizeof *self->not_finite, "a counter", err));
    if (run_algorithm(config).engine->writes_weights)
        TRY(cuda_allocate(&self->arrays, &self->begun_weights, bytes, 1, "a copy of the model", err));
    bytes = slots_restored_bytes(&config->slots);
    return cuda_allocate(&self->arrays, &self->begun_vectors, bytes, 1, "a copy of the velocity", err);
}

// The data set is copied once per run: workers import the block and read their samples there in every round. Test
// samples follow the training samples (cuda_plan.c), so that one array of pixels and one of labels serve the training
// and the evaluation of clients.
//
// Weights and velocities are as initialised, or from a checkpoint. Velocities and the server rule's states are the
// lasting part of the slots; the other part is zeros already.
static Status upload(const CudaParent *self, const RunMemory *memory, Error *err) {
    const RunConfig *config = memory->config;
    const GpuConfig *gpu = &config->gpu;
    const Dataset *data = &memory->data;
    const size_t label = data->items.label_bytes;
    uint8_t *block = self->blocks.data_block.memory;
    TRY(cuda_copy(block, data->train.pixels, dataset_sample_bytes(data, &data->train), self->stream, err));
    TRY(cuda_copy(block + gpu->train_labels_offset, data->train.labels, data->train.count * label, self->stream, err));
    TRY(cuda_copy(block + gpu->test_pixels_offset, data->test.pixels, dataset_sample_bytes(data, &data->test),
                  self->stream, err));
    TRY(cuda_copy(block + gpu->test_labels_offset, data->test.labels, data->test.count * label, self->stream, err));
    TRY(cuda_copy(self->blocks.weights, memory->weights, config->parameters * sizeof(float), self->stream, err));
    TRY(cuda_copy(self->blocks.slots, memory->slots, slots_lasting_bytes(&config->slots), self->stream, err));
    return cuda_wait(self->stream, err, "copying data set and model to the GPU");
}

// The lasting slots are copied to the host after every round, so that a GPU that fails loses none. Into pinned memory
// the copy has the bus's speed; a driver that cannot pin it (WSL) copies through a buffer of its own.
static void pin_lasting_slots(CudaParent *self, const RunMemory *memory) {
    const size_t bytes = slots_lasting_bytes(&memory->config->slots);
    if (bytes == 0) return;
    if (cudaHostRegister(memory->slots, bytes, cudaHostRegisterDefault) == cudaSuccess) self->pinned = memory->slots;
    cudaGetLastError(); // clears an error, which the first wait would report
}

// The order matters. The blocks are created first, since their handles are part of the shared configuration that a
// worker reads when it starts; here no worker has started. The free memory is asked last, so that measure_workers
// compares two states that differ only by the workers.
static Status cuda_init(Parent *parent, Error *err) {
    RunConfig *config = &parent->memory->control->config; // to be completed by the handles of the blocks
    CudaParent *self = parent->state = calloc(1, sizeof *self);
    if (!self) return fail(err, STATUS_OS, "no memory for the parent");
    self->gpu = (int)config->gpu.gpu;
    Status status;
    size_t all;
    TRY_GOTO(fail, cuda_leave_cores(config, err));
    TRY_GOTO(fail, allocate(self, config, err));
    TRY_GOTO(fail, upload(self, parent->memory, err));
    pin_lasting_slots(self, parent->memory);
    TRY_GOTO(fail, cuda_samples_init(&self->samples, &self->arrays, parent->memory, 1, err));
    TRY_GOTO(fail, cuda_evaluator_init(&self->evaluator, self->blocks.weights, self->blocks.test_pixels,
                                       self->blocks.test_labels, &self->samples, &config->spec, &parent->memory->data,
                                       config->gpu.tf32 != 0, err));
    cudaMemGetInfo(&self->free_bytes, &all); // for a line of the log alone
    return STATUS_OK;
fail:
    release(self);
    return status;
}

// A dead worker's kernels may still be queued on the GPU and would write after its death. The parent changes the
// worker's generation: these kernels find another one than their own and leave shared memory alone. It waits for the
// copy, because the caller then opens the dead worker's jobs again: a kernel that starts later must find the new
// generation before another worker fills or clears the slot.
static Status cuda_bury(Parent *parent, uint32_t rank, Error *err) {
    CudaParent *self = parent->state;
    self->generations[rank]++;
    TRY(cuda_copy(self->blocks.generations + rank, &self->generations[rank], sizeof *self->generations, self->stream,
                  err));
    return cuda_wait(self->stream, err, "shutting out what a dead worker had queued");
}

// Says once how much of the GPU a worker has taken, when all of them have trained. The plan (cuda_plan.c) can only
// estimate what a context and the libraries take with this driver; the line lets a user compare. It is written after
// the first average, because the first step loads cuBLAS and makes the graphs. If other processes have freed memory
// meanwhile, the difference means nothing, and no line is written.
static void measure_workers(CudaParent *self, const RunConfig *config) {
    size_t left, all;
    if (self->free_bytes == 0 || cudaMemGetInfo(&left, &all) != cudaSuccess || left > self->free_bytes) return;
    uint64_t taken = (self->free_bytes - left) / config->workers, planned = config->gpu.worker_bytes;
    uint64_t planned_context = config->gpu.context_bytes, rest = planned - planned_context;
    log_info("a worker takes %llu MiB of the GPU, %llu MiB of them for its context and libraries (planned: %llu and "
             "%llu)",
             (unsigned long long)taken >> 20, (unsigned long long)(taken > rest ? taken - rest : 0) >> 20,
             (unsigned long long)planned >> 20, (unsigned long long)planned_context >> 20);
    self->free_bytes = 0;
}

// Saves what workers may write, to be put back if the round fails; workers that only read the weights leave nothing to
// save. All workers wait at the barrier: none of their kernels is under way, and the fence keeps kernels of dead
// workers from the weights, so that the copy is one state of the model.
static Status cuda_begin(Parent *parent, Error *err) {
    const RunConfig *config = parent->memory->config;
    CudaParent *self = parent->state;
    size_t bytes = config->parameters * sizeof(float);
    if (!self->begun_weights) return STATUS_OK;
    TRY(cuda_copy(self->begun_weights, self->blocks.weights, bytes, self->stream, err));
    TRY(cuda_copy(self->begun_vectors, self->blocks.slots, slots_restored_bytes(&config->slots), self->stream, err));
    CUDA_TRY(cudaMemsetAsync(self->blocks.updates, 0, sizeof(uint64_t), self->stream), err, "clearing a counter");
    return cuda_wait(self->stream, err, "keeping the model as the round began");
}

// Lockstep calls it after a death, Hogwild and lockstep when weights are not finite. The host's copy of the model needs
// no such step: publish is the only writer, and it has not run in this round.
static Status cuda_restore(Parent *parent, Error *err) {
    const RunConfig *config = parent->memory->config;
    CudaParent *self = parent->state;
    size_t bytes = config->parameters * sizeof(float);
    TRY(cuda_copy(self->blocks.weights, self->begun_weights, bytes, self->stream, err));
    TRY(cuda_copy(self->blocks.slots, self->begun_vectors, slots_restored_bytes(&config->slots), self->stream, err));
    return cuda_wait(self->stream, err, "putting the model back as the round began");
}

// Makes one step of the server rule on the first `sums` slots of those that are used; then the host's view of the
// weights, and whether they are finite. The mean of no sums is zero. One kernel sums, steps and counts weights that are
// not finite, so that each slot is read once. Slots without `used` are left out because they hold an older round's
// sums: a worker that has finished no client in this round has not cleared its slot (begin_sum).
//
// Variances are floored after the step, in the weights and in the host's view, by one small kernel per tensor that has
// any. All of it is in one stream, so that a single wait at the end orders the host after it.
static Status apply(Parent *parent, bool *finite, const bool *used, uint32_t sums, const Mean *mean,
                    const ServerTurn *turn, Error *err) {
    const RunConfig *config = parent->memory->config;
    CudaParent *self = parent->state;
    for (uint32_t rank = 0; rank < MAX_WORKERS; rank++)
        self->host_used[rank] = rank < sums && used[rank];
    TRY(cuda_copy(self->used, self->host_used, sizeof self->host_used, self->stream, err));
    CudaServerStep step = {.weights = self->blocks.weights,
                           .host_view = self->view.on_gpu,
                           .not_finite = self->not_finite,
                           .sums = sums > 0 ? cuda_blocks_sum(&self->blocks, &config->slots, 0, 0) : NULL,
                           .used = self->used,
                           .slots = (int)sums,
                           .each = config->slots.each,
                           .stride = config->slots.sum_bytes / sizeof(int64_t),
                           .count = config->parameters,
                           .arrived = mean->arrived,
                           .factor = mean->factor};
    for (uint32_t s = 0; s < config->slots.states; s++)
        step.states[s] = cuda_blocks_state(&self->blocks, &config->slots, s);
    if (parent->memory->algorithm.server->tells)
        step.common = cuda_blocks_vector(&self->blocks, &config->slots, state_vector(parent->memory, STATE_COMMON));
    cuda_server_apply(&step, turn, config->recipe.server.row, self->stream);
    if (config->training.optimizer_state == OPTIMIZER_AVERAGED && mean->arrived > 0)
        cuda_server_mean(
            cuda_blocks_vector(&self->blocks, &config->slots, state_vector(parent->memory, STATE_MOMENTUM)), &step,
            self->stream);
    for (int t = 0; t < config->spec.tensor_count; t++) {
        const ParameterTensor *tensor = &config->spec.tensors[t];
        if (tensor_is_variance(tensor))
            cuda_floor(step.weights + tensor->first, step.host_view + tensor->first, tensor->count, self->stream);
    }
    TRY(cuda_view_fetch(&self->view, self->stream, err));
    TRY(cuda_copy(&self->host_not_finite, self->not_finite, sizeof self->host_not_finite, self->stream, err));
    TRY(cuda_wait(self->stream, err, "averaging the updates"));
    *finite = self->host_not_finite == 0;
    measure_workers(self, config);
    return STATUS_OK;
}

// Copies all that outlives the round to the host, the weights last. A failure before leaves weights of the round before
// and a momentum that is one round ahead, never weights without their round: a checkpoint names its round beside the
// weights, and these decide from which round a run continues.
//
// The host's weights change here alone, after all copies from the GPU have succeeded. Checkpoints, live/ and the final
// model read them there: whatever fails on the GPU before, they find the model of the last round that succeeded.
static Status publish(const Parent *parent, Error *err) {
    const CudaParent *self = parent->state;
    const RunMemory *memory = parent->memory;
    TRY(cuda_copy(memory->slots, self->blocks.slots, slots_lasting_bytes(&memory->config->slots), self->stream, err));
    TRY(cuda_wait(self->stream, err, "copying from the GPU what outlives the round"));
    memcpy(memory->weights, self->view.on_host, memory->config->parameters * sizeof(float));
    return STATUS_OK;
}

// total (parameters) = the sum of this node's slots with used. All host memory; slots (workers, parameters): workspace.
// One wait serves the copies of all workers. The sums are integers: their order changes no bit.
static Status sum_slots(const Parent *parent, int64_t *total, int64_t *slots, const bool *used, uint32_t which,
                        Error *err) {
    const RunConfig *config = parent->memory->config;
    const CudaParent *self = parent->state;
    const int64_t *sums[MAX_WORKERS];
    size_t count = config->parameters, sum_count = 0;
    for (uint32_t rank = 0; rank < config->workers; rank++) {
        if (!used[rank]) continue;
        TRY(cuda_copy(slots, cuda_blocks_sum(&self->blocks, &config->slots, rank, which), count * sizeof *slots,
                      self->stream, err));
        sums[sum_count++] = slots;
        slots += count;
    }
    TRY(cuda_wait(self->stream, err, "copying the workers' sums from the GPU"));
    aggregate_total(total, sums, sum_count, 0, count);
    return STATUS_OK;
}

// The sum over all nodes, with node 0's noise, travels through the host and is copied back into slot 0: MPI here knows
// no memory of GPUs. Node 0 adds the noise to its own sum before the nodes' sums are added, so that no node ever holds
// the sum of all updates without it.
static Status sum_over_nodes(Parent *parent, int64_t *total, const bool *used, uint32_t which, double noise,
                             uint32_t round, Error *err) {
    const RunConfig *config = parent->memory->config;
    const CudaParent *self = parent->state;
    size_t count = config->parameters;
    TRY(sum_slots(parent, total, total + count, used, which, err));
    if (parent->nodes->rank == 0 && which == 0) parent_add_noise(total, parent, noise, round);
    TRY(nodes_sum(parent->nodes, total, count, err));
    TRY(cuda_copy(cuda_blocks_sum(&self->blocks, &config->slots, 0, which), total, count * sizeof *total, self->stream,
                  err));
    return cuda_wait(self->stream, err, "copying the sum over the nodes to the GPU");
}

// The sum over the nodes replaces this node's sum in slot 0, and the step reads slot 0 alone: several nodes need no
// kernel of their own. A run that hides its clients takes this way on one node, too, because the noise is made on the
// host.
static Status average_with_nodes(Parent *parent, bool *finite, const bool *used, const Mean *mean,
                                 const ServerTurn *turn, Error *err) {
    const RunConfig *config = parent->memory->config;
    size_t count = config->parameters;
    int64_t *total = malloc((config->workers + 1) * count * sizeof *total);
    if (!total)
        return fail(err, STATUS_OS, "no memory for the sums of %zu parameters of %u workers", count, config->workers);
    Status status = STATUS_OK;
    for (uint32_t which = 0; which < config->slots.each && status == STATUS_OK; which++)
        status = sum_over_nodes(parent, total, used, which, mean->noise, turn->round, err);
    if (status == STATUS_OK) status = apply(parent, finite, (const bool[]){true}, 1, mean, turn, err);
    free(total);
    return status;
}

// Measures the length of the mean update where the run inspects updates: on the host, in the blocks of server_rules.c,
// so that its partial sums and therefore its bits are those of a run on the CPU. The slots still have this round's
// sums, since workers clear them only when they add their next update.
static Status measure_mean(Parent *parent, const bool *used, const Mean *mean, Error *err) {
    enum { BLOCK = 4096 };
    const RunConfig *config = parent->memory->config;
    const double scale = 1.0 / (AGGREGATE_UNIT * mean->arrived);
    size_t count = config->parameters;
    if (!config->inspects_updates) return STATUS_OK;
    int64_t *total = malloc((config->workers + 1) * count * sizeof *total);
    if (!total)
        return fail(err, STATUS_OS, "no memory for the sums of %zu parameters of %u workers", count, config->workers);
    Status status = sum_slots(parent, total, total + count, used, 0, err);
    parent->squared_length = 0;
    for (size_t first = 0; first < count && status == STATUS_OK; first += BLOCK)
        parent->squared_length +=
            aggregate_squared_total(total + first, scale * mean->factor, count - first < BLOCK ? count - first : BLOCK);
    free(total);
    return status;
}

// The sum of the updates has three sources: a total that the host has combined, the sum over several nodes or with
// noise, which passes through the host, and else the slots on this GPU. A mean that is not finite is not published: the
// host keeps the weights of the round before, and the run ends with these.
static Status cuda_average(Parent *parent, bool *finite, const bool *used, const Mean *mean, const ServerTurn *turn,
                           Error *err) {
    static const bool first_alone[MAX_WORKERS] = {true}; // it has the sum of several nodes, or of rows
    const RunConfig *config = parent->memory->config;
    const CudaParent *self = parent->state;
    const bool through_host = parent->nodes->size > 1 || config->release.hides;
    if (mean->total) {
        TRY(cuda_copy(cuda_blocks_sum(&self->blocks, &config->slots, 0, 0), mean->total,
                      config->parameters * sizeof *mean->total, self->stream, err));
        TRY(apply(parent, finite, first_alone, 1, mean, turn, err));
    } else if (through_host) {
        TRY(average_with_nodes(parent, finite, used, mean, turn, err));
    } else {
        TRY(apply(parent, finite, used, config->workers, mean, turn, err));
    }
    if (!*finite) return STATUS_OK;
    TRY(measure_mean(parent, mean->total || through_host ? first_alone : used, mean, err));
    return publish(parent, err);
}

// Workers have stepped the weights themselves. A server step by the sum of no slots leaves the weights as they are,
// while its kernel counts those that are not finite and writes the host's view: so Hogwild and lockstep need no kernel
// of their own for that. The count of Hogwild's updates is read from the GPU, where the workers' kernels count.
static Status cuda_adopt(Parent *parent, bool *finite, Error *err) {
    RunMemory *memory = parent->memory;
    CudaParent *self = parent->state;
    const Mean nothing = {.arrived = 1, .factor = 1};
    const ServerTurn turn = server_turn(&memory->config->recipe.server, 1, 1, 1);
    uint64_t updates;
    TRY(apply(parent, finite, NULL, 0, &nothing, &turn, err));
    TRY(cuda_copy(&updates, self->blocks.updates, sizeof updates, self->stream, err));
    TRY(cuda_wait(self->stream, err, "reading the count of updates"));
    atomic_store_explicit(&memory->control->updates, updates, memory_order_relaxed);
    return *finite ? publish(parent, err) : STATUS_OK;
}

// Other weights take the model's place in the block for their test, as they do in the host's memory on the CPU: a run
// that fills the GPU has no room for a second net and test set. The host's weights, which publish has written, are the
// model again afterwards.
static Status evaluate_other(const CudaParent *self, BatchResult *result, const float *weights, const RunMemory *memory,
                             Error *err) {
    const size_t bytes = memory->config->parameters * sizeof *weights;
    const cudaStream_t stream = cuda_net_stream(self->evaluator);
    TRY(cuda_copy(self->blocks.weights, weights, bytes, stream, err));
    TRY(cuda_evaluator_run(result, NULL, self->evaluator, &memory->data, err));
    TRY(cuda_copy(self->blocks.weights, memory->weights, bytes, stream, err));
    return cuda_wait(stream, err, "putting the model back after a test of another");
}

// The net reads the model's own block: nothing is copied for an evaluation of the model but its two results and, in a
// drift, how the test set is seen.
static Status cuda_evaluate(Parent *parent, BatchResult *result, Answer *answers, const float *weights, uint32_t round,
                            Error *err) {
    CudaParent *self = parent->state;
    const Dataset *data = &parent->memory->data;
    TRY(cuda_samples_test_set(&self->samples, round, cuda_net_stream(self->evaluator), err));
    if (answers) return cuda_evaluator_answer(result, answers, self->evaluator, &self->samples, data, err);
    if (weights) return evaluate_other(self, result, weights, parent->memory, err);
    return cuda_evaluator_run(result, NULL, self->evaluator, data, err);
}

// A function and not a table: a build without CUDA has that name in another file and returns NULL.
const ParentBackend *parent_on_gpu(void) {
    static const ParentBackend backend = {.init = cuda_init,
                                          .free = cuda_free,
                                          .bury = cuda_bury,
                                          .begin = cuda_begin,
                                          .restore = cuda_restore,
                                          .average = cuda_average,
                                          .adopt = cuda_adopt,
                                          .evaluate = cuda_evaluate};
    return &backend;
}
