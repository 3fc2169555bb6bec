// Part of gpu.h: the places of a run's data on the GPU, and whether all of it fits.
#include <stdio.h>

#include "fedavg/gpu/cuda_blocks.h"
#include "fedavg/gpu/cuda_clients.h"
#include "fedavg/gpu/cuda_own.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/gpu/gpu.h"
#include "nn/cuda/cuda_blas.h"
#include "nn/cuda/cuda_net.h"

// The plan is made by the parent before it starts any process, from sizes alone and without allocating anything.
// Offsets and sizes of the blocks become part of the shared configuration, so that workers compute no sizes of their
// own.

enum {
    BLOCK_ALIGNMENT = 256,   // of every array in a block, bytes
    MODELS_BY_DEFAULT = 128, // per launch; more make it no faster
    // The bytes of a process on the GPU besides its allocations: its context, cuBLAS as far as it is loaded, kernels
    // and graphs. An estimate for Hopper; a run logs the measured bytes at --log-level info.
    CONTEXT_BYTES = 640 * 1024 * 1024,
    // Numbers that a worker has of each model (shares, refusals, turns, lengths, Adam's powers), and the parent's list
    // of slots and its counter: upper bounds.
    MODEL_NUMBERS_BYTES = 512,
    PARENT_NUMBERS_BYTES = 4096,
};

static uint64_t align(uint64_t bytes) {
    return (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
}

static uint64_t model_bytes(const RunConfig *config) {
    return config->gpu.stride * sizeof(float);
}

// Memory that processes share is allocated in units and ends with a nonce (shm/cuda_share.c), for which a size that is
// a multiple of the unit needs one unit more.
static uint64_t block_bytes(uint64_t bytes) {
    return (bytes / CUDA_SHARE_UNIT_BYTES + 1) * CUDA_SHARE_UNIT_BYTES;
}

// Counts what allocate_device (cuda_worker.c), cuda_clients_init, cuda_send_init, cuda_init (cuda_parent.c) and
// cuda_net_init take; what they allocate must be counted here. A round allocates nothing, nor does the test of another
// model at the end.
static GpuNeed need_of(const RunConfig *config, const Spec *spec, const Dataset *data, uint32_t workers,
                       uint32_t models) {
    const GpuConfig *gpu = &config->gpu;
    SlotPlan slots = config->slots;
    if (slots.rows == 0) slots.sums = workers * slots.each;
    GpuNeed need = {.contexts = (uint64_t)workers * CONTEXT_BYTES}; // the parent's is there already
    // A worker has weights, velocity and gradient of each local model, and what its rule adds and keeps, and zeros
    // where it sends something else than it has trained; the parent the host's view and two copies.
    const uint64_t squares = run_algorithm(config).optimizer->states - 1;
    need.weights = block_bytes(gpu->weights_bytes) + block_bytes(slots_bytes(&slots)) +
                   (uint64_t)workers * cuda_own_bytes(config, models) +
                   model_bytes(config) * ((3 + cuda_clients_arrays(config) + squares) * (uint64_t)workers * models +
                                          (cuda_sends(config) ? workers : 0) + 3);
    const uint64_t order = data->train.count > data->test.count ? data->train.count : data->test.count;
    need.data = block_bytes(gpu->data_bytes) + align(cuda_samples_bytes(config, 1)) + PARENT_NUMBERS_BYTES +
                workers * (align(order * view_holders(&config->view) * sizeof(uint32_t)) +
                           (config->weighs_classes ? align((uint64_t)spec->classes * sizeof(float)) : 0) +
                           align(cuda_samples_bytes(config, models)) + align(config->clients * sizeof(uint32_t)) +
                           align(models * (uint64_t)MODEL_NUMBERS_BYTES));
    const uint32_t batch = config->training.batch_size, chunk = EVALUATION_CHUNK;
    const bool tf32 = gpu->tf32 != 0;
    need.activations = workers * cuda_net_bytes(spec, (int)models, batch, cuda_net_needs_blas(batch, tf32, true)) +
                       cuda_net_bytes(spec, 1, chunk, cuda_net_needs_blas(chunk, tf32, false));
    need.all = need.contexts + need.weights + need.data + need.activations;
    return need;
}

static_assert(sizeof(LocalTurn) + 64 <= MODEL_NUMBERS_BYTES && MAX_WORKERS + 64 <= PARENT_NUMBERS_BYTES,
              "numbers of a model, and of the parent");

GpuNeed gpu_need(const RunConfig *config, const Spec *spec, const Dataset *data) {
    return need_of(config, spec, data, config->workers, config->gpu.models_per_launch);
}

// Returns the bytes that one more worker needs. The difference between two workers and one leaves out all that the run
// needs once.
static uint64_t worker_bytes(const RunConfig *config, const Spec *spec, const Dataset *data) {
    uint32_t models = config->gpu.models_per_launch;
    return need_of(config, spec, data, 2, models).all - need_of(config, spec, data, 1, models).all;
}

static double gibibytes(uint64_t bytes) {
    return (double)bytes / (1 << 30);
}

// The sentence names how many workers fit with these models per launch, because that is the option that a user can
// lower without another result; only if not even one fits are options named that change the run.
static Status refuse(const RunConfig *config, const Device *device, const Spec *spec, const Dataset *data,
                     uint32_t models, Error *err) {
    GpuNeed need = need_of(config, spec, data, config->workers, models);
    uint32_t fitting = config->workers;
    while (fitting > 0 && need_of(config, spec, data, fitting, models).all > device->free_bytes)
        fitting--;
    char remedy[128];
    if (fitting > 0)
        snprintf(remedy, sizeof remedy, "%u worker%s would fit", fitting, fitting == 1 ? "" : "s");
    else
        snprintf(remedy, sizeof remedy, "not even one worker fits; lower --batch-size%s or take a smaller --model",
                 models > 1 ? ", --models-per-launch" : "");
    return fail(
        err, STATUS_OS,
        "--workers %u: with %u models a launch they need %.2f GiB on %s (contexts %.2f, weights %.2f, data %.2f, "
        "activations %.2f), but %.2f of its %.2f GiB are free: %s",
        config->workers, models, gibibytes(need.all), device->name, gibibytes(need.contexts), gibibytes(need.weights),
        gibibytes(need.data), gibibytes(need.activations), gibibytes(device->free_bytes),
        gibibytes(device->memory_bytes), remedy);
}

// No launch ever has more models than this: the cohort, or in lockstep a worker's share of the shards; with Hogwild a
// worker trains the one model.
static uint32_t most_models(const RunConfig *config, uint32_t clients_per_round) {
    const EngineFacts *facts = run_algorithm(config).engine;
    if (facts->client_is_worker) return 1;
    return facts->in_lockstep ? (config->clients + config->workers - 1) / config->workers : clients_per_round;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Returns the fewest models per launch with which `share` clients take no more launches than with `most`: a launch of
// few clients takes nearly as long as one of many.
static uint32_t even_launches(uint32_t share, uint32_t most) {
    const uint32_t launches = (share + most - 1) / most;
    return (share + launches - 1) / launches;
}

// Decides before any process starts whether the run fits: an allocation that fails in the middle of a round would end
// it, and the GPU's own message names no remedy. Without a wish, models per launch are lowered until they fit, and then
// until all launches have about as many. A number of models that the user has asked for is never lowered, but refused
// with the figures: with cuBLAS the run's bits may depend on it (nn/cuda/cuda_net.h).
Status gpu_plan(RunConfig *config, const Device *device, const Spec *spec, const Dataset *data,
                uint32_t clients_per_round, uint32_t models, Error *err) {
    GpuConfig *gpu = &config->gpu;
    *gpu = (GpuConfig){
        .used = 1, .gpu = (uint32_t)device->index, .stride = cuda_net_stride(config->parameters), .tf32 = gpu->tf32};
    // Test samples follow the training samples: test sample i is also sample train.count + i. So a worker's order can
    // name samples of both sets in one array of numbers.
    const uint64_t sample = shape_size(data->shape) * data->items.pixel_bytes, label = data->items.label_bytes;
    const uint64_t train = data->train.count, all = train + data->test.count;
    gpu->test_pixels_offset = train * sample;
    gpu->train_labels_offset = align(all * sample);
    gpu->test_labels_offset = gpu->train_labels_offset + train * label;
    gpu->data_bytes = gpu->train_labels_offset + align(all * label);
    // The counter of updates and the words of the fences share the block of the weights, each at an alignment of its
    // own, so that one handle names all that workers need besides slots and data.
    gpu->updates_offset = model_bytes(config);
    gpu->generations_offset = gpu->updates_offset + align(sizeof(uint64_t));
    gpu->weights_bytes = gpu->generations_offset + align(MAX_WORKERS * sizeof(uint32_t));
    gpu->slots_bytes = slots_bytes(&config->slots);
    uint32_t most = most_models(config, clients_per_round);
    uint32_t share = (clients_per_round + config->workers - 1) / config->workers;
    gpu->models_per_launch = smaller(most, models > 0 ? models : smaller(share, MODELS_BY_DEFAULT));
    TRY(cuda_net_check(spec, (int)gpu->models_per_launch, config->training.batch_size, err));
    if (cuda_net_needs_blas(config->training.batch_size, gpu->tf32 != 0, true)) TRY(cuda_blas_find(err));
    while (models == 0 && gpu->models_per_launch > 1 &&
           need_of(config, spec, data, config->workers, gpu->models_per_launch).all > device->free_bytes)
        gpu->models_per_launch--;
    if (models == 0) gpu->models_per_launch = even_launches(smaller(most, share), gpu->models_per_launch);
    gpu->context_bytes = CONTEXT_BYTES;
    gpu->worker_bytes = worker_bytes(config, spec, data);
    if (need_of(config, spec, data, config->workers, gpu->models_per_launch).all <= device->free_bytes)
        return STATUS_OK;
    return refuse(config, device, spec, data, gpu->models_per_launch, err);
}
