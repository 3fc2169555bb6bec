#include "hogwild.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "datasets/order.h"
#include "fedavg/worker/gradient.h"

// The shared weights have no lock and no order: any worker writes any weight at any time, and what a worker reads may
// be a mixture of several versions. That is the algorithm. Three things are still exact: the count of updates, the
// refusal of gradients that are not finite, and, with a bound, the distance at which a worker waits.

// A gradient that is not finite must not reach the shared weights, where no other worker could undo it. A test of each
// element would cost a branch per weight; one sum becomes a loop of vectors.
static bool all_finite(const float *values, size_t count) {
    // x * 0 is 0 for every finite x and NaN otherwise; the sum stays 0 exactly when all are finite.
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * 0.0f;
    return sum == 0.0f;
}

// The bound -----------------------------------------------------------------------------------------------------------

// Clocks order nothing but waits. The weights that a worker reads may be torn, with a bound as without, so that relaxed
// orders suffice.

// Returns the updates of the slowest of the other workers that train, + 1; `none` if no other worker trains.
static uint64_t slowest(const Control *control, uint32_t rank, uint64_t none) {
    assert(rank < control->config.workers);
    uint64_t least = UINT64_MAX;
    for (uint32_t other = 0; other < control->config.workers; other++) {
        uint64_t updates = atomic_load_explicit(&control->clocks[other].updates, memory_order_relaxed);
        if (other != rank && updates > 0 && updates < least) least = updates;
    }
    return least == UINT64_MAX ? none : least;
}

// A worker whose wait is over but that makes no progress hangs: the parent must not excuse it. So the distance is
// computed again here, not only the mark that the worker has set.
bool hogwild_waits(const Control *control, uint32_t rank) {
    const WildClock *clock = &control->clocks[rank];
    if (!atomic_load_explicit(&clock->waits, memory_order_relaxed)) return false; // there may be no bound
    const uint64_t own = atomic_load_explicit(&clock->updates, memory_order_relaxed);
    return own > slowest(control, rank, own) + (uint64_t)control->config.recipe.schedule.number[WILD_BOUND];
}

// Waits until the slowest worker is near enough. The wait ends in any case: the parent takes dead workers out and kills
// workers that hang.
static void wait_for_slowest(Control *control, uint32_t rank, uint64_t bound) {
    enum { SPINS = 200 };
    WildClock *clock = &control->clocks[rank];
    const uint64_t own = atomic_load_explicit(&clock->updates, memory_order_relaxed);
    for (uint32_t tries = 0; own > slowest(control, rank, own) + bound; tries++) {
        if (tries < SPINS) continue;
        atomic_store_explicit(&clock->waits, 1, memory_order_relaxed);
        const uint32_t heard = bell_listen(&control->clocks_bell);
        if (own > slowest(control, rank, own) + bound) bell_wait(&control->clocks_bell, heard, bell_slice_nanoseconds);
    }
    atomic_store_explicit(&clock->waits, 0, memory_order_relaxed);
}

// Steps ---------------------------------------------------------------------------------------------------------------

typedef struct Wild {
    LocalModel *model;
    Control *control;
    WildClock *clock; // of this worker; NULL: there is no bound
    float *velocity;
    Training training;
    double bound;
    uint32_t steps, taken; // private steps an update; since the weights were read
    uint64_t read_at;      // how many updates there were then
} Wild;

// A worker joins where the slowest is: at 0 it would hold up all others until it had caught up with them.
static void begin(Wild *wild, LocalModel *model, uint32_t client) {
    Control *control = model->memory->control;
    const double *number = control->config.recipe.schedule.number;
    *wild = (Wild){.model = model,
                   .control = control,
                   .velocity = run_memory_vector(model->memory, client),
                   .training = run_memory_training(model->memory),
                   .bound = number[WILD_BOUND],
                   .steps = (uint32_t)number[WILD_STEPS]};
    assert(wild->steps >= 1 && client < control->config.clients);
    if (wild->steps > 1) memset(model->steps.velocity, 0, control->config.parameters * sizeof *model->steps.velocity);
    if (isnan(wild->bound)) return;
    wild->clock = &control->clocks[model->rank];
    assert(atomic_load_explicit(&wild->clock->updates, memory_order_relaxed) == 0); // it trained nothing before
    atomic_store_explicit(&wild->clock->updates, slowest(control, model->rank, 1), memory_order_relaxed);
}

// The wait precedes the reading, so that the bound holds for the weights that the update is made of. The count is read
// before the weights: staleness is never counted too low.
static void read_weights(Wild *wild) {
    LocalModel *model = wild->model;
    if (wild->clock) wait_for_slowest(wild->control, model->rank, (uint64_t)wild->bound);
    wild->read_at = atomic_load_explicit(&wild->control->updates, memory_order_relaxed);
    if (wild->steps == 1) return; // they are read as the gradient is computed
    const size_t bytes = wild->control->config.parameters * sizeof(float);
    memcpy(model->steps.read, model->memory->weights, bytes);
    memcpy(model->weights, model->steps.read, bytes);
}

// Other workers write these weights at this moment. Without atomic additions some of their updates are lost in single
// weights, which is Hogwild's bargain; no single weight is torn, since a float is written whole.
static void step_shared(const Wild *wild, float *velocity, const Sgd *sgd) {
    const Kernels *kernels = wild->model->net.kernels;
    (wild->training.hogwild_update == HOGWILD_ATOMIC ? kernels->sgd_step_atomically : kernels->sgd_step)(
        wild->model->memory->weights, velocity, wild->model->steps.gradient, sgd, wild->control->config.parameters);
}

// The counter of all workers tells the staleness and orders nothing. This worker's own clock moves only with complete
// updates, of which a wait counts the distance.
static void count_update(Wild *wild) {
    WorkerTally *tally = &wild->control->tallies[wild->model->rank];
    assert(wild->taken >= 1 && wild->taken <= wild->steps);
    uint64_t staleness = atomic_fetch_add_explicit(&wild->control->updates, 1, memory_order_relaxed) - wild->read_at;
    tally->staleness[staleness < STALENESS_BUCKETS ? staleness : STALENESS_BUCKETS - 1]++;
    tally->staleness_sum += staleness;
    if (wild->clock) atomic_fetch_add_explicit(&wild->clock->updates, 1, memory_order_relaxed);
    if (wild->clock) bell_ring(&wild->control->clocks_bell);
    wild->taken = 0;
}

// Adds the change by the private steps to the shared weights, as one step of rate 1 without momentum: so one function
// writes shared weights, with vectors or atomically, as the run has it.
static void add_private_steps(Wild *wild) {
    LocalModel *model = wild->model;
    for (size_t i = 0; i < wild->control->config.parameters; i++)
        model->steps.gradient[i] = model->steps.read[i] - model->weights[i];
    step_shared(wild, model->steps.velocity, &(Sgd){.lr = 1});
    count_update(wild);
}

// One step of one worker: read, compute, write, count. A gradient that is not finite is counted and dropped; the worker
// continues, since the next batch may be fine.
static void wild_step(Wild *wild, const Batch *batch, BatchResult *result, const Noise *noise) {
    LocalModel *model = wild->model;
    const size_t parameters = wild->control->config.parameters;
    const bool is_private = wild->steps > 1;
    if (wild->taken == 0) read_weights(wild);
    net_gradient(&model->net, model->steps.gradient, result, is_private ? model->weights : model->memory->weights,
                 batch, noise);
    if (!all_finite(model->steps.gradient, parameters)) {
        wild->control->tallies[model->rank].refused_steps++;
        return;
    }
    clip_gradient(model->steps.gradient, wild->training.clip, parameters);
    wild->taken++;
    if (!is_private) {
        step_shared(wild, wild->velocity, &wild->training.sgd);
        count_update(wild);
        return;
    }
    model->net.kernels->sgd_step(model->weights, wild->velocity, model->steps.gradient, &wild->training.sgd,
                                 parameters);
    if (wild->taken == wild->steps) add_private_steps(wild);
}

// The job's samples are trained in place, so that nothing is handed in: when the worker dies, the steps that it has
// made stay in the weights, and another worker repeats the client.
void hogwild_train(LocalModel *model, Job *job, uint32_t round) {
    const RunMemory *memory = model->memory;
    const RunConfig *config = memory->config;
    uint64_t start = clock_nanoseconds();
    uint32_t count;
    const uint32_t *indices = partition_client(&memory->partition, job->client, &count);
    Noise noise = {.seed = config->seed, .round = round, .client = job->client};
    Wild wild;
    begin(&wild, model, job->client);
    job->loss_sum = 0;
    for (uint32_t epoch = 0; epoch < config->training.local_epochs; epoch++) {
        batch_order(model->order, indices, count, config->seed, round, job->client, epoch);
        for (uint32_t number = 0; number < local_model_batches(model, count); number++, noise.step++) {
            Batch batch = local_model_batch(model, model->order, number, count);
            BatchResult result;
            wild_step(&wild, &batch, &result, &noise);
            job->loss_sum += result.loss_sum;
        }
    }
    if (wild.taken > 0) add_private_steps(&wild); // the last few
    if (wild.clock) atomic_store_explicit(&wild.clock->updates, 0, memory_order_relaxed);
    if (wild.clock) bell_ring(&wild.control->clocks_bell);
    job->samples = (uint64_t)count * config->training.local_epochs;
    job->seconds = clock_seconds_since(start);
    queue_finish(job, JOB_DONE);
}
