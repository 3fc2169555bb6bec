#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/cores.h"
#include "app/long_turns.h"
#include "base/clock.h"
#include "base/log.h"
#include "fedavg/client.h"
#include "fedavg/hogwild.h"
#include "fedavg/ssgd.h"

char *const worker_arguments[] = {"sounder", "worker", "@RANK", "@PARENT", NULL};

typedef struct Worker {
    uint32_t rank;
    pid_t parent;
    RunMemory memory;
    Trainer trainer;
    TraceBuffer *trace; // NULL: the run is not traced
} Worker;

static void note_first_sample(const Worker *self) {
    uint64_t *first = &self->memory.control->tallies[self->rank].first_sample_nanoseconds;
    if (*first == 0) *first = clock_nanoseconds();
}

// Takes clients from the queue until it is empty.
static void train_clients(Worker *self, uint32_t round) {
    bool hogwild = self->memory.control->config.algorithm == TRAIN_HOGWILD;
    for (Job *job; (job = queue_take(self->memory.queue, self->rank));) {
        note_first_sample(self);
        uint64_t begin = trace_begin(self->trace);
        if (hogwild)
            hogwild_train(&self->trainer, job, round);
        else
            client_train(&self->trainer, job, round);
        trace_end(self->trace, TRACE_CLIENT, begin, round, job->client);
    }
}

static void evaluate_chunks(Worker *self, uint32_t round) {
    const Dataset *data = &self->memory.data;
    for (Job *job; (job = queue_take(self->memory.queue, self->rank));) {
        uint64_t start = clock_nanoseconds();
        Batch batch = {.pixels = data->test.pixels,
                       .labels = data->test.labels,
                       .first = job->first,
                       .count = job->count,
                       .scale = data->scale,
                       .shift = data->shift};
        BatchResult result;
        net_evaluate(&self->trainer.net, &result, self->memory.weights, &batch);
        job->loss_sum = result.loss_sum;
        job->hits = result.hits;
        job->samples = job->count;
        job->seconds = clock_seconds_since(start);
        queue_finish(job, JOB_DONE);
        trace_end(self->trace, TRACE_CHUNK, start, round, job->first);
    }
}

static Status follow_order(Worker *self, Error *err) {
    PhaseOrder *order = &self->memory.control->order;
    switch ((PhaseKind)order->kind) {
    case PHASE_NONE:
        return STATUS_OK;
    case PHASE_EVALUATE:
        evaluate_chunks(self, order->round);
        return STATUS_OK;
    case PHASE_TRAIN:
        break;
    }
    if (self->memory.control->config.algorithm != TRAIN_SSGD) {
        train_clients(self, order->round);
        return STATUS_OK;
    }
    note_first_sample(self);
    Status status = ssgd_train(&self->trainer, order->round, self->parent);
    // Cancelled: somebody died, and the parent will order the round again.
    if (status == STATUS_OK || status == STATUS_CANCELLED) return STATUS_OK;
    return fail(err, status, "the step barrier failed (%s)", status_name(status));
}

// A worker that starts in the middle of a phase finds its order and joins in; one that starts between phases finds
// none.
static Status work(Worker *self, Error *err) {
    Control *control = self->memory.control;
    for (;;) {
        uint64_t begin = trace_begin(self->trace);
        uint32_t kind = control->order.kind, round = control->order.round; // before the parent gives the next order
        TRY(follow_order(self, err));
        if (kind != PHASE_NONE)
            trace_end(self->trace, kind == PHASE_TRAIN ? TRACE_TRAIN : TRACE_EVALUATE, begin, round, round);
        begin = trace_begin(self->trace);
        Status status = worker_wait(&control->phase, &control->pulses[self->rank], self->rank, self->parent);
        trace_end(self->trace, TRACE_BARRIER, begin, round, round);
        if (status != STATUS_OK) return fail(err, status, "the parent is gone");
    }
}

static Status start(Worker *self, int argc, char **argv, Error *err) {
    if (argc != 2) return fail(err, STATUS_USAGE, "worker: started by sounder train, not by hand");
    self->rank = (uint32_t)strtoul(argv[0], NULL, 10);
    self->parent = (pid_t)strtol(argv[1], NULL, 10);
    TRY(worker_attach(self->parent, err));
    TRY(run_memory_attach(&self->memory, err));
    const RunConfig *config = &self->memory.control->config;
    log_init((LogLevel)config->log_level, (int)self->rank);
    // In the other algorithms a worker that is kept from its core holds up or outdates the others' steps.
    if (config->algorithm == TRAIN_FEDAVG && config->workers > (uint32_t)cores_usable()) long_turns_request();
    self->trace = run_memory_trace(&self->memory, self->rank);
    return trainer_init(&self->trainer, &self->memory, self->rank, err);
}

Status command_worker(int argc, char **argv, Error *err) {
    Worker self = {0};
    Status status = start(&self, argc, argv, err);
    worker_report(status == STATUS_OK ? NULL : err->message);
    return status == STATUS_OK ? work(&self, err) : status;
}
