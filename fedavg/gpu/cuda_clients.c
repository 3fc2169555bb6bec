#include "cuda_clients.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cuda_try.h"
#include "fedavg/gpu/cuda_samples.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/world/walk.h"

// Whether something is added to a client's gradients: by the rule, or by the pull of a second model.
static bool shifts(const RunConfig *config) {
    const LocalTurn turn = local_turn(&config->recipe.local, &config->training, 1, 1);
    return run_algorithm(config).local->shifts || local_pull(&config->recipe.local, &turn) != 0 ||
           config->personal.second;
}

// Whether rows of client state are the local rule's, and not what a code has left over. With error feedback a row is
// the code's leftover, which the host adds while it encodes (worker/sender.c).
static bool keeps(const RunConfig *config) {
    return run_algorithm(config).local->keeps;
}

// For gpu_need: shifts alone, or with the rows before and after the training.
uint32_t cuda_clients_arrays(const RunConfig *config) {
    if (!shifts(config)) return 0;
    return (keeps(config) ? 3u : 1u) + local_looks(&config->recipe.local);
}

// A rule that adds nothing to the steps needs none of these arrays: memory of the GPU is left for more models per
// launch.
Status cuda_clients_init(CudaClients *clients, CudaArrays *arrays, const RunMemory *memory, uint32_t models,
                         Error *err) {
    const RunConfig *config = memory->config;
    const size_t floats = models * config->gpu.stride;
    *clients = (CudaClients){.memory = memory, .row = config->recipe.local.row, .models = models};
    if (!shifts(config)) return STATUS_OK;
    clients->host_turns = own(&arrays->host, models, sizeof *clients->host_turns);
    clients->host_pulls = own(&arrays->host, models, sizeof *clients->host_pulls);
    clients->host_totals = own(&arrays->host, models, sizeof *clients->host_totals);
    clients->host_unfit = own(&arrays->host, models, sizeof *clients->host_unfit);
    if (arrays->host.lacks_memory) return fail(err, STATUS_OS, "no memory for the turns of %u clients", models);
    TRY(cuda_allocate(arrays, &clients->shifts, floats, sizeof(float), "what a local rule adds", err));
    TRY(cuda_allocate(arrays, &clients->pulls, models, sizeof(float), "pulls", err));
    TRY(cuda_allocate(arrays, &clients->turns, models, sizeof(LocalTurn), "turns", err));
    if (local_looks(&config->recipe.local)) {
        TRY(cuda_allocate(arrays, &clients->full_gradient, floats, sizeof(float), "gradients at the global weights",
                          err));
        TRY(cuda_allocate(arrays, &clients->totals, models, sizeof(uint32_t), "clients' samples", err));
    }
    if (!keeps(config)) return STATUS_OK;
    TRY(cuda_allocate(arrays, &clients->unfit, models, sizeof(uint32_t), "refusals", err));
    TRY(cuda_allocate(arrays, &clients->state, floats, sizeof(float), "what clients keep", err));
    return cuda_allocate(arrays, &clients->state_after, floats, sizeof(float), "what clients will keep", err);
}

// Copies the state of client m to the GPU; zeros in its first turn. The row is the one in force. The client writes
// another one (state_to), so that a launch that is repeated after a death reads what it has read before.
static Status upload_state(const CudaClients *clients, uint32_t m, const Job *job, Error *err) {
    const RunConfig *config = clients->memory->config;
    const size_t bytes = config->parameters * sizeof(float);
    float *to = clients->state + m * config->gpu.stride;
    const float *from = client_state_row(&clients->memory->client_state, job->state_from);
    if (from) return cuda_copy(to, from, bytes, clients->stream, err);
    return cuda_clear(to, bytes, clients->stream, err);
}

// The turn is computed on the host by the CPU's functions, from the round's own rate and the number of steps that the
// client will make; the kernels only read it.
static Status begin_turn(const CudaClients *clients, uint32_t m, const Job *job, uint32_t round, Error *err) {
    const RunMemory *memory = clients->memory;
    const RunConfig *config = memory->config;
    uint32_t samples, size = config->training.batch_size;
    cuda_samples_of(memory, job->client, round, &samples);
    const Walk walk = walk_of(&config->recipe.schedule, round, job->epochs);
    const uint64_t steps = walk_steps(&walk, samples / size + (samples % size != 0));
    const double mean_samples = run_memory_mean_samples(memory);
    const Training training = run_memory_training(memory);
    clients->host_turns[m] = local_turn(&config->recipe.local, &training, steps, mean_samples / samples);
    clients->host_pulls[m] = (float)local_pull(&config->recipe.local, &clients->host_turns[m]);
    return clients->state ? upload_state(clients, m, job, err) : STATUS_OK;
}

// As begin_turn of client.c: all that is constant during the training is computed before it, with the functions that
// the CPU uses.
Status cuda_clients_begin(CudaClients *clients, Job *const *jobs, uint32_t count, uint32_t round,
                          const CudaBlocks *blocks, const float *weights, cudaStream_t stream, Error *err) {
    const RunConfig *config = clients->memory->config;
    if (!clients->shifts) return STATUS_OK;
    clients->stream = stream;
    for (uint32_t m = 0; m < count; m++)
        TRY(begin_turn(clients, m, jobs[m], round, err));
    TRY(cuda_copy(clients->turns, clients->host_turns, count * sizeof *clients->turns, clients->stream, err));
    TRY(cuda_copy(clients->pulls, clients->host_pulls, count * sizeof *clients->pulls, clients->stream, err));
    clients->at = (CudaTurns){.global = blocks->weights,
                              .own = weights,
                              .state = clients->state,
                              .full_gradient = clients->full_gradient,
                              .turns = clients->turns,
                              .pulls = clients->pulls,
                              .count = config->parameters,
                              .stride = config->gpu.stride,
                              .models = (int)count};
    if (clients->memory->algorithm.local->asks)
        clients->at.common = cuda_blocks_vector(blocks, &config->slots, state_vector(clients->memory, STATE_COMMON));
    cuda_local_shift(clients->shifts, &clients->at, clients->row, stream);
    return cuda_wait(clients->stream, err, "beginning the clients' turns");
}

Status cuda_clients_pull(CudaClients *clients, uint32_t count, const CudaBlocks *blocks, const float *weights,
                         cudaStream_t stream, Error *err) {
    const RunConfig *config = clients->memory->config;
    const CudaTurns at = {.global = blocks->weights,
                          .own = weights,
                          .turns = clients->turns,
                          .pulls = clients->pulls,
                          .count = config->parameters,
                          .stride = config->gpu.stride,
                          .models = (int)count};
    for (uint32_t m = 0; m < count; m++)
        clients->host_pulls[m] = (float)config->personal.lambda;
    TRY(cuda_copy(clients->pulls, clients->host_pulls, count * sizeof *clients->pulls, stream, err));
    cuda_local_shift(clients->shifts, &at, LOCAL_ROW_prox, stream);
    return cuda_wait(stream, err, "pulling the clients' second models"); // host_pulls may be written again
}

// New states go straight into the host's file of rows. A row of a client that turns out not to fit is written, too, but
// never becomes the client's. `fits` is set for all clients, also where the rule keeps nothing: judge only narrows it
// down.
Status cuda_clients_conclude(CudaClients *clients, const CudaStateRows *rows, bool *fits, Job *const *jobs,
                             uint32_t count, Error *err) {
    const RunConfig *config = clients->memory->config;
    for (uint32_t m = 0; m < count; m++)
        fits[m] = true;
    if (!clients->state) return STATUS_OK;
    cuda_local_conclude(clients->state_after, clients->unfit, &clients->at, (float)(0x1p22 / config->clients),
                        clients->row, clients->stream);
    TRY(cuda_copy(clients->host_unfit, clients->unfit, count * sizeof *clients->unfit, clients->stream, err));
    for (uint32_t m = 0; m < count; m++)
        TRY(cuda_state_rows_write(rows, jobs[m]->state_to, 0, clients->state_after + m * config->gpu.stride,
                                  config->parameters * sizeof(float), clients->stream, err));
    TRY(cuda_wait(clients->stream, err, "concluding the clients' turns"));
    for (uint32_t m = 0; m < count; m++)
        fits[m] = clients->host_unfit[m] == 0;
    return STATUS_OK;
}

// The second sum of a worker's slot. The caller adds it between the marks of `adding`, beside the updates: both belong
// to one state of the slot.
void cuda_clients_add_changes(const CudaClients *clients, int64_t *changes, const double *shares,
                              const CudaFence *fence) {
    assert(clients->state);
    cuda_local_add_changes(changes, clients->state_after, shares, &clients->at, fence, clients->stream);
}

// Without this the shifts of the last launch would join the gradients of a training that has no local rule.
Status cuda_clients_rest(CudaClients *clients, cudaStream_t stream, Error *err) {
    const size_t bytes = clients->models * clients->memory->config->gpu.stride * sizeof(float);
    if (!clients->shifts) return STATUS_OK;
    TRY(cuda_clear(clients->shifts, bytes, stream, err));
    return cuda_clear(clients->pulls, clients->models * sizeof(float), stream, err);
}
