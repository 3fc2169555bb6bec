// Part of worker_backend.h: the workers' arithmetic on one core, which takes jobs from the queue one after the other.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/trainer/faults.h"
#include "fedavg/worker/client.h"
#include "fedavg/worker/evaluation.h"
#include "fedavg/worker/flights.h"
#include "fedavg/worker/hogwild.h"
#include "fedavg/worker/ssgd.h"
#include "fedavg/worker/trainer_turn.h"
#include "fedavg/worker/worker_backend.h"

static Status cpu_init(void **state, const RunMemory *memory, uint32_t rank, Error *err) {
    LocalModel *self = malloc(sizeof *self);
    if (!self) return fail(err, STATUS_OS, "no memory for a model");
    Status status = local_model_init(self, memory, rank, err);
    if (status == STATUS_OK)
        *state = self;
    else
        free(self);
    return status;
}

static void cpu_free(void *state) {
    local_model_free(state);
    free(state);
}

// A trainer's mistake meets every other worker, too. A kill comes from outside; but a client whose turn takes all
// the memory is killed again and again.
enum { MOST_FAULTS = 2, MOST_KILLS = 5 };

enum { JOB_NAME_BYTES = 32 };

// Returns the job's client, and names the job in a sentence. UINT32_MAX: it is the server's own.
static uint32_t name_job(char name[JOB_NAME_BYTES], void (*work)(LocalModel *, Job *, uint32_t), const Job *job) {
    const bool tests =
        job->task == EVALUATE_TEST_SET || job->task == EVALUATE_VALIDATION || job->task == EVALUATE_BACKDOOR;
    if (work == evaluation_run && (tests || job->task == TRAIN_ROOT)) {
        snprintf(name, JOB_NAME_BYTES, "%s", tests ? "the test" : "the server's own training");
        return UINT32_MAX;
    }
    snprintf(name, JOB_NAME_BYTES, "client %u", job->client);
    return job->client;
}

static void note_fault(const LocalModel *self, uint32_t client, uint32_t round, double seconds) {
    TrainerFault fault = {.round = round, .client = client, .seconds = seconds};
    text_cut(fault.what, sizeof fault.what, self->by.why.message);
    trainer_fault_note(self->memory->control, self->rank, &fault);
}

// A worker takes the next client when it is done with one, so that a slow client holds up one worker and not the queue.
// A fault of the trainer costs the job alone: it is done again, from weights and rows that are unchanged, by another
// trainer. A warning follows if that succeeds: otherwise the error of the run says what failed, once.
static Status do_job(LocalModel *self, void (*work)(LocalModel *, Job *, uint32_t), Job *job, uint32_t round,
                     Error *err) {
    char name[JOB_NAME_BYTES];
    Error last;
    for (uint32_t faults = 0, kills = 0;;) {
        const uint64_t begin = clock_nanoseconds();
        self->by.fault = STATUS_OK;
        trainer_turn_begin_job(self);
        work(self, job, round);
        if (self->by.fault == STATUS_OK) {
            if (faults + kills > 0)
                log_warning("%s: its trainer failed in round %u: %s; another one has done the turn again", name, round,
                            last.message);
            return STATUS_OK;
        }
        note_fault(self, name_job(name, work, job), round, clock_seconds_since(begin));
        if (self->by.trainer->process.was_killed)
            kills++;
        else
            faults++;
        if (faults == MOST_FAULTS || kills == MOST_KILLS || self->by.fault == STATUS_DATA) break;
        log_debug("%s: its trainer failed in round %u: %s", name, round, self->by.why.message);
        last = self->by.why;
        Error why;
        if (trainer_restart(self->by.trainer, &why) == STATUS_OK) continue;
        self->by.why = why;
        break;
    }
    atomic_store(&self->memory->control->given_up[self->rank], 1);
    return fail(err, STATUS_UNAVAILABLE, "--trainer, %s in round %u: %s", name, round, self->by.why.message);
}

static Status do_jobs(LocalModel *self, void (*work)(LocalModel *, Job *, uint32_t), uint32_t round, Error *err) {
    const bool evaluates = work == evaluation_run;
    TraceBuffer *trace = run_memory_trace(self->memory, self->rank);
    for (Job *job; (job = queue_take(self->memory->queue, self->rank));) {
        assert(job->owner == self->rank + 1 && job->client < self->memory->config->clients);
        if (!evaluates) run_memory_note_start(self->memory, self->rank);
        uint64_t begin = trace_begin(trace);
        TRY(do_job(self, work, job, round, err));
        trace_end(trace, evaluates ? TRACE_CHUNK : TRACE_CLIENT, begin, round, evaluates ? job->first : job->client);
        assert(job->state != JOB_OPEN);
    }
    return STATUS_OK;
}

static Status cpu_train_clients(void *state, uint32_t round, pid_t parent, Error *err) {
    (void)parent;
    return do_jobs(state, client_train, round, err);
}

static Status cpu_train_in_real_time(void *state, uint32_t round, pid_t parent, Error *err) {
    (void)round, (void)parent, (void)err;
    flights_train(state);
    return STATUS_OK;
}

static Status cpu_train_wild(void *state, uint32_t round, pid_t parent, Error *err) {
    (void)parent;
    return do_jobs(state, hogwild_train, round, err);
}

static Status cpu_train_in_lockstep(void *state, uint32_t round, pid_t parent, Error *err) {
    LocalModel *self = state;
    run_memory_note_start(self->memory, self->rank);
    Status status = ssgd_train(self, round, parent);
    if (status == STATUS_OK || status == STATUS_CANCELLED) return status;
    return fail(err, status, "the step barrier failed (%s)", status_name(status));
}

static Status cpu_evaluate(void *state, uint32_t round, Error *err) {
    return do_jobs(state, evaluation_run, round, err);
}

const WorkerBackend worker_on_cpu = {.init = cpu_init,
                                     .free = cpu_free,
                                     .train = {[ENGINE_ROUNDS] = cpu_train_clients,
                                               [ENGINE_WILD] = cpu_train_wild,
                                               [ENGINE_LOCKSTEP] = cpu_train_in_lockstep,
                                               [ENGINE_BUFFERED] = cpu_train_clients,
                                               [ENGINE_REAL_CLOCK] = cpu_train_in_real_time},
                                     .evaluate = cpu_evaluate};
