// fedavg: the clients of a round train on their own, and the new model is the mean of what they send.
#include <string.h>

#include "fedavg/parent/rounds.h"
#include "fedavg/worker/client.h"

// The sum of the shares that arrived.
static double arrived_share(const Queue *queue) {
    double arrived = 0;
    bool any_refused = false;
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].state == JOB_REFUSED)
            any_refused = true;
        else
            arrived += queue->jobs[i].share;
    return any_refused ? arrived : 1; // exactly, whatever the rounding of the shares' sum
}

// used (MAX_WORKERS): this node's workers who finished jobs; the jobs are those of all nodes.
static void find_used(bool *used, const Rounds *rounds) {
    const Queue *queue = rounds->memory->queue;
    memset(used, 0, MAX_WORKERS * sizeof *used);
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state == JOB_DONE && job->node == rounds->nodes->rank) used[job->owner - 1] = true;
    }
}

// The exact mean over the sums of the workers, of all nodes.
static Status settle(Rounds *rounds, uint32_t round, Error *err) {
    if (rounds->cohort.jobs == 0) return STATUS_OK; // nobody arrived: no step
    double lr = (double)rounds->memory->config->training.sgd.lr;
    double arrived = arrived_share(rounds->memory->queue);
    if (arrived == 0)
        return fail(err, STATUS_SOFTWARE,
                    "round %u: the updates of all clients were refused as not finite or too large; lower --lr (now %g)",
                    round, lr);
    bool used[MAX_WORKERS], finite;
    find_used(used, rounds);
    TRY(rounds->parent.math->average(&rounds->parent, &finite, used, arrived, err));
    if (finite) return STATUS_OK;
    return fail(err, STATUS_SOFTWARE, "round %u: the mean is no longer finite; lower --lr (now %g)", round, lr);
}

const Engine engine_rounds = {.plan = client_plan, .run = engine_run_clients, .settle = settle};
