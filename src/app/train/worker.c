// Part of command.h: the hidden commands with which a parent starts its workers, and those a trainer.
#include "app/command.h"
#include "app/train/train.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/trainer/guard.h"
#include "fedavg/worker/worker_backend.h"

char *const worker_arguments[] = {"sounder:w@RANK", "worker", "@RANK", "@PARENT", NULL};

typedef struct Worker {
    uint32_t rank;
    pid_t parent;
    RunMemory memory;
    const WorkerBackend *backend;
    void *state;        // of the backend
    TraceBuffer *trace; // NULL: the run is not traced
} Worker;

static Status follow_order(Worker *self, Error *err) {
    const PhaseOrder *order = &self->memory.control->order;
    switch ((PhaseKind)order->kind) {
    case PHASE_NONE:
    case PHASE_END:
        return STATUS_OK;
    case PHASE_EVALUATE:
        return self->backend->evaluate(self->state, order->round, err);
    case PHASE_TRAIN:
        break;
    }
    Status status = self->backend->train[self->memory.config->engine](self->state, order->round, self->parent, err);
    // Cancelled: a worker died, and the parent will order the round again.
    return status == STATUS_CANCELLED ? STATUS_OK : status;
}

// Follows orders until the run ends. A worker that starts during a phase finds its order and joins; a worker that
// starts between phases finds none.
static Status work(Worker *self, Error *err) {
    Control *control = self->memory.control;
    for (;;) {
        uint64_t begin = trace_begin(self->trace);
        // read now: the parent changes it for the next order
        uint32_t kind = control->order.kind, round = control->order.round;
        if (kind == PHASE_END) return STATUS_OK;
        TRY(follow_order(self, err));
        if (kind != PHASE_NONE)
            trace_end(self->trace, kind == PHASE_TRAIN ? TRACE_TRAIN : TRACE_EVALUATE, begin, round, round);
        begin = trace_begin(self->trace);
        Status status = worker_wait(&control->phase, &control->pulses[self->rank], self->rank, self->parent);
        trace_end(self->trace, TRACE_BARRIER, begin, round, round);
        if (status != STATUS_OK) return fail(err, status, "the parent is gone");
    }
}

static bool is_traced(void) {
    uint64_t tracer;
    return file_number(&tracer, "/proc/self/status", "TracerPid:", 10) && tracer != 0;
}

// If SOUNDER_WAIT_FOR_DEBUGGER names this worker's rank, sleeps until a debugger is attached; gdb stops in this
// function. To the parent, a waiting worker looks like one that hangs.
static Status wait_for_debugger(const Worker *self, Error *err) {
    const char *wish = getenv("SOUNDER_WAIT_FOR_DEBUGGER");
    if (!wish) return STATUS_OK;
    uint32_t workers = self->memory.control->config.workers;
    char *end;
    unsigned long rank = strtoul(wish, &end, 10);
    if (*wish < '0' || *wish > '9' || *end || rank >= workers)
        return fail(err, STATUS_USAGE, "SOUNDER_WAIT_FOR_DEBUGGER=%s: give the rank of a worker, 0 to %u", wish,
                    workers - 1);
    if (rank != self->rank) return STATUS_OK;
    // lets a debugger attach that is no parent of this process; only some kernels require it
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    log_warning("waiting for a debugger: gdb -p %d, and there: continue (with --hang-seconds 0 there is no hurry)",
                getpid());
    while (!is_traced())
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    return STATUS_OK;
}

static Status start(Worker *self, int argc, char **argv, Error *err) {
    if (argc != 2) return fail(err, STATUS_USAGE, "worker: started by sounder train, not by hand");
    self->rank = (uint32_t)strtoul(argv[0], NULL, 10);
    self->parent = (pid_t)strtol(argv[1], NULL, 10);
    TRY(worker_attach(self->parent, err));
    char name[16]; // the name in ps and top: the kernel took it from /proc/self/exe
    snprintf(name, sizeof name, "sounder:w%u", self->rank);
    prctl(PR_SET_NAME, name);
    TRY(run_memory_attach(&self->memory, err));
    const RunConfig *config = &self->memory.control->config;
    log_init((LogLevel)config->log_level, (int)self->rank);
    TRY(wait_for_debugger(self, err));
    // Not for engines that write weights directly: a worker that loses its core would hold up the others' steps or make
    // them stale. Not on a GPU either, where a worker mostly waits.
    bool alone = !self->memory.algorithm.engine->writes_weights && !config->gpu.used;
    if (alone && config->workers > (uint32_t)cores_usable()) scheduler_slice_request();
    self->trace = run_memory_trace(&self->memory, self->rank);
    self->backend = config->gpu.used ? worker_on_gpu() : &worker_on_cpu;
    return self->backend->init(&self->state, &self->memory, self->rank, err);
}

// The worker leaves its error to the parent, which prints it in the line about this death, or as the error of the run:
// printed here, too, it would be told twice. A process whose GPU failed, for example, can compute no more, and other
// workers repeat its work.
Status command_worker(int argc, char **argv, int *exit_code, Error *err) {
    Worker self = {0};
    Status status = start(&self, argc, argv, err);
    if (status == STATUS_OK) {
        worker_report(NULL);
        status = work(&self, err);
    }
    const bool is_told = status != STATUS_OK && worker_report(err->message) && self.memory.control;
    if (self.state) self.backend->free(self.state);
    if (self.memory.control) run_memory_free(&self.memory);
    *exit_code = status_exit_code(status);
    return is_told ? STATUS_OK : status;
}

Status command_guard(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    if (argc < 4) return fail(err, STATUS_USAGE, "guard: started with a trainer, not by hand");
    guard_run(atoi(argv[0]), atoi(argv[1]), argv[2], argv + 3);
    return STATUS_OK;
}
