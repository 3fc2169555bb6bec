#include "phases.h"

#include <assert.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/trainer/guard.h"

enum {
    FAREWELL_SECONDS = 1, // for the workers to end by themselves, and for guards to end the trainers of killed ones
    // A run in which each replacement dies must end, but a run in which workers die now and then must not. So deaths
    // count only in a row.
    MAX_FRUITLESS_DEATHS = 300, // with no job finished in between
    MAX_EXPLAINED_DEATHS = 3,   // ... of workers that said why, as their successors will
};

void phases_forgive(Phases *phases) {
    phases->fruitless_deaths = phases->explained_deaths = 0;
}

// Only training is in lockstep: an evaluation is jobs in a queue, as with any engine, and survives deaths as such.
static bool in_lockstep(const Phases *phases) {
    return phases->config.memory->algorithm.engine->in_lockstep && phases->kind == PHASE_TRAIN;
}

// Whether another part of this process started the child and reaps it soon.
static bool is_awaited(const Phases *phases, pid_t child) {
    const Supervisor *supervisor = &phases->supervisor;
    const PhasesConfig *config = &phases->config;
    if (config->trainers && child == config->trainers->nursery.trainer.process.guard) return true;
    if (config->external->combine && child == config->external->aggregator.process.guard) return true;
    for (uint32_t rank = 0; rank < supervisor->config.workers; rank++)
        if (supervisor->workers[rank].pid == child && supervisor->workers[rank].state != WORKER_DEAD) return true;
    return false;
}

// Guards of trainers outlive a worker that dies by the time they need to end the trainer, as children of this process
// (train.c). Reaps them, and kills what a guard that was killed could not.
static void reap_orphans(const Phases *phases) {
    if (!phases->config.memory->config->trainer.command[0]) return;
    for (siginfo_t info = {0};; info = (siginfo_t){0}) {
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
        if (is_awaited(phases, info.si_pid)) return; // the kernel would name it again
        kill(-info.si_pid, SIGKILL); // this process has not been reaped: the group of its number is its own
        if (waitpid(info.si_pid, NULL, 0) < 0) return; // the kernel would name it again, for ever
    }
}

// A worker that was killed before it could say why has said nothing: its successor meets the trainer's mistake again.
static bool ends_by_its_trainer(void *context, uint32_t rank) {
    const Phases *phases = context;
    return atomic_load(&phases->config.memory->control->given_up[rank]) && *phases->supervisor.workers[rank].message;
}

// Ctrl-Z: guards stop and continue what is below them, in process groups that no signal of the terminal reaches. The
// number of a rank's guard may be another process's by now.
static void pause_trainers(void *context, bool pauses) {
    const Phases *phases = context;
    const PhasesConfig *config = &phases->config;
    const Control *control = config->memory->control;
    const int number = pauses ? GUARD_PAUSE : GUARD_CONTINUE;
    if (config->trainers) guard_signal(config->trainers->nursery.trainer.process.guard, number);
    if (config->external->combine) guard_signal(config->external->aggregator.process.guard, number);
    for (uint32_t rank = 0; rank < control->config.workers; rank++)
        guard_signal(atomic_load_explicit(&control->guard_pids[rank], memory_order_relaxed), number);
}

// Waits for the guards whose workers were killed: these are children of this process now. A guard that its worker has
// reaped is no child, and its number may be a stranger's.
static void wait_for_guards(const Phases *phases) {
    const RunMemory *memory = phases->config.memory;
    const uint64_t begin = clock_nanoseconds();
    for (uint32_t rank = 0; rank < memory->config->workers; rank++) {
        const pid_t guard = atomic_load_explicit(&memory->control->guard_pids[rank], memory_order_relaxed);
        siginfo_t info = {0};
        if (guard <= 0 || waitid(P_PID, (id_t)guard, &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
        const double left = FAREWELL_SECONDS - clock_seconds_since(begin);
        struct pollfd end = {.fd = pidfd_open(guard, 0), .events = POLLIN};
        if (end.fd < 0) continue; // nothing tells when it ends
        poll(&end, 1, left > 0 ? (int)(left * 1e3) : 0);
        close(end.fd);
    }
}

// The order of the questions matters. A trainer that cannot work anywhere ends the run whatever deaths are allowed to
// do, and the trainer is named for it. --on-worker-death abort is next. Then deaths are counted, with a new count as
// soon as a job was finished in between; those that explain themselves have a lower limit, because the successor will
// fail alike.
static Status count_death(Phases *phases, uint32_t rank, Error *err) {
    assert(rank < phases->supervisor.config.workers && phases->supervisor.workers[rank].state == WORKER_DEAD);
    phases->lost++;
    if (ends_by_its_trainer(phases, rank)) {
        if (phases->config.trainers) trainer_host_blame(phases->config.trainers, (int)rank);
        return fail(err, STATUS_UNAVAILABLE, "%s", phases->supervisor.workers[rank].message);
    }
    if (phases->config.on_worker_death == WORKER_DEATH_ABORT)
        return fail(err, STATUS_UNAVAILABLE, "worker %u died, and --on-worker-death is abort", rank);
    if (queue_unfinished(phases->config.memory->queue) < phases->unfinished) phases_forgive(phases);
    const WorkerRecord *worker = &phases->supervisor.workers[rank];
    bool has_successor = !worker->was_ready || phases->config.on_worker_death == WORKER_DEATH_RESPAWN;
    phases->fruitless_deaths++;
    if (has_successor && *worker->message) phases->explained_deaths++;
    if (phases->explained_deaths >= MAX_EXPLAINED_DEATHS)
        return fail(err, STATUS_UNAVAILABLE, "worker %u cannot %s: %s", rank, worker->was_ready ? "go on" : "start",
                    worker->message);
    if (phases->fruitless_deaths < MAX_FRUITLESS_DEATHS) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "%u workers in a row died and no job was finished in between; the messages above say of what",
                phases->fruitless_deaths);
}

// Opens the jobs again that the dead worker leaves undone. Its finished jobs stay: evaluation has its results beside
// the job, Hogwild in the weights, fedavg in the worker's slot, unless the worker died just as it was adding to that.
static void reopen_jobs(Phases *phases, uint32_t rank) {
    RunMemory *memory = phases->config.memory;
    assert(!in_lockstep(phases)); // there a round starts over as a whole
    SumState *sum = &memory->control->sums[rank];
    bool sum_is_lost = phases->kind == PHASE_TRAIN && atomic_load(&sum->adding) != 0;
    queue_reopen_rank(memory->queue, rank, sum_is_lost);
    if (sum_is_lost) atomic_store(&sum->round, 0); // a replacement clears it
    atomic_store(&sum->adding, 0);
    atomic_store(&memory->control->given_up[rank], 0);       // of a worker that was killed before it could say why
    atomic_store(&memory->control->clocks[rank].updates, 0); // nobody waits for the dead
    atomic_store(&memory->control->clocks[rank].waits, 0);
    bell_ring(&memory->control->clocks_bell);
    phases->unfinished = queue_unfinished(memory->queue);
}

// A machine that refuses a process now may have room for it later: until then the run continues with the other workers,
// if there are any.
static Status replace_worker(Phases *phases, uint32_t rank, Error *err) {
    assert(phases->supervisor.workers[rank].state == WORKER_DEAD);
    Error reason;
    Status status = supervisor_start(&phases->supervisor, rank, &reason);
    if (status == STATUS_OK) {
        phases->cannot_replace = false;
        return STATUS_OK;
    }
    if (status != STATUS_OS || supervisor_alive(&phases->supervisor) == 0)
        return fail(err, status, "%s", reason.message);
    if (!phases->cannot_replace) log_warning("rank %u cannot be replaced: %s; the others go on", rank, reason.message);
    phases->cannot_replace = true;
    return STATUS_OK;
}

// In rounds the phase continues, and another worker takes the open jobs. In lockstep the others wait for the dead
// worker's gradients, so that the step is cancelled for all; a replacement must not join a round that starts over.
static Status handle_death(Phases *phases, uint32_t rank, Error *err) {
    Parent *parent = phases->config.parent;
    if (parent->backend->bury) TRY(parent->backend->bury(parent, rank, err));
    TRY(count_death(phases, rank, err));
    if (in_lockstep(phases)) {
        barrier_cancel(&phases->config.memory->control->step);
        barrier_cancel(&phases->config.memory->control->exchange);
        return STATUS_OK; // the round starts over; a replacement must not join the present one
    }
    reopen_jobs(phases, rank);
    if (phases->config.on_worker_death == WORKER_DEATH_RESPAWN) return replace_worker(phases, rank, err);
    return STATUS_OK;
}

// A death that could not be handled ends the run, also where no worker is left: another one would meet the same.
static Status on_death(void *context, uint32_t rank, Error *err) {
    Phases *phases = context;
    const Status status = handle_death(phases, rank, err);
    phases->ends_run |= status != STATUS_OK;
    return status;
}

// A worker that evaluates never waits for another one, so that a lack of progress is its own.
static bool is_waiting(void *context, uint32_t rank) {
    const Phases *phases = context;
    const Engine *engine = phases->config.engine;
    return phases->kind == PHASE_TRAIN && engine->is_waiting && engine->is_waiting(phases->config.rounds, rank);
}

static bool is_enough(void *context) {
    const PhasesConfig *config = &((const Phases *)context)->config;
    return config->engine->is_enough && config->engine->is_enough(config->rounds);
}

// Serves while the workers work: watches the other nodes, and lets the engine serve its workers in training. It must
// not block: the supervisor calls it in every turn and looks for deaths in between.
static Status serve(void *context, bool *busy, Error *err) {
    const Phases *phases = context;
    const PhasesConfig *config = &phases->config;
    if (config->trainers) TRY(trainer_host_serve(config->trainers, err));
    TRY(nodes_watch(config->parent->nodes, err));
    const bool serves = phases->kind == PHASE_TRAIN && config->engine->serve;
    return serves ? config->engine->serve(config->rounds, busy, err) : STATUS_OK;
}

// Guards of trainers may die at any time, so that they are reaped with every tick and not at the end of a phase alone.
static void on_tick(void *context) {
    Phases *phases = context;
    reap_orphans(phases);
    if (phases->config.on_tick) phases->config.on_tick(phases->config.context);
}

// A worker that lives after a gather is at the barrier, also one whose report of readiness has not been read yet.
static bool is_member(const Phases *phases, uint32_t rank) {
    WorkerState state = phases->supervisor.workers[rank].state;
    return state == WORKER_STARTING || state == WORKER_RUNNING;
}

// Gathers; on return no order is in force, and with respawn every rank that could be started is alive and at the
// barrier. The order is cleared before replacements start: they would otherwise join a phase that is over.
static Status gather(Phases *phases, Error *err) {
    Supervisor *supervisor = &phases->supervisor;
    for (;;) {
        Status status = supervisor_gather(supervisor, err);
        bool replace = phases->config.on_worker_death == WORKER_DEATH_RESPAWN;
        bool all_dead = status == STATUS_UNAVAILABLE && supervisor_alive(supervisor) == 0;
        if (status != STATUS_OK && !(all_dead && replace)) return status;
        if (phases->ends_run) return status;
        phases->config.memory->control->order.kind = PHASE_NONE;
        uint32_t started = 0;
        for (uint32_t rank = 0; replace && rank < phases->config.memory->config->workers; rank++) {
            if (supervisor->workers[rank].state != WORKER_DEAD) continue;
            TRY(replace_worker(phases, rank, err));
            started += is_member(phases, rank);
        }
        if (started == 0) return STATUS_OK;
    }
}

// Lets the workers go. The members of a phase are counted here, and the step barriers made for them, while all workers
// wait. A worker that joins later has no place among them and takes part from the next phase on. stand_still is false
// while workers may be anywhere: then they cannot be told to end, and are killed (phases_free).
static void release(Phases *phases, PhaseKind kind, uint32_t round) {
    Control *control = phases->config.memory->control;
    PhaseOrder *order = &control->order;
    assert(kind == PHASE_TRAIN || kind == PHASE_EVALUATE);
    assert(phases->stand_still && order->kind == PHASE_NONE && round > 0);
    order->kind = kind;
    order->round = round;
    order->members = 0;
    for (uint32_t rank = 0; rank < control->config.workers; rank++)
        if (is_member(phases, rank)) order->position[rank] = order->members++;
    assert(order->members >= 1 && order->members <= control->config.workers);
    barrier_init(&control->step, order->members, control->phase.spins);
    barrier_init(&control->exchange, order->members + 1, control->phase.spins);
    memset(&control->gradients, 0, sizeof control->gradients);
    phases->kind = kind;
    phases->supervisor.round = round;
    phases->stand_still = false;
    supervisor_release(&phases->supervisor);
}

Status phases_rest(Phases *phases, Error *err) {
    Status status = gather(phases, err);
    phases->stand_still = status == STATUS_OK;
    phases->kind = PHASE_NONE;
    return status;
}

Status phases_run(Phases *phases, PhaseKind kind, uint32_t round, Error *err) {
    release(phases, kind, round);
    return phases_rest(phases, err);
}

// The workers of a real clock train on from round to round: they are released once, and each round is only a wait until
// enough updates have arrived.
Status phases_fly(Phases *phases, uint32_t round, Error *err) {
    phases_forgive(phases);
    if (phases->stand_still) release(phases, PHASE_TRAIN, round);
    phases->supervisor.round = round;
    return supervisor_gather(&phases->supervisor, err);
}

Status phases_run_jobs(Phases *phases, PhaseKind kind, uint32_t round, Error *err) {
    Queue *queue = phases->config.memory->queue;
    phases_forgive(phases);
    while ((phases->unfinished = queue_reopen(queue)) > 0)
        TRY(phases_run(phases, kind, round, err));
    return STATUS_OK;
}

// The supervisor keeps pointers into this Phases: hence it must not move.
Status phases_init(Phases *phases, const PhasesConfig *config, Error *err) {
    *phases = (Phases){.config = *config};
    Control *control = config->memory->control;
    assert(config->engine && config->rounds && config->parent && config->hang_seconds >= 0);
    if (control->config.workers == 1 && config->on_worker_death == WORKER_DEATH_CONTINUE)
        phases->config.on_worker_death = WORKER_DEATH_RESPAWN;
    run_memory_worker_fds(phases->fds, config->memory);
    SupervisorConfig supervision = {.workers = control->config.workers,
                                    .barrier = &control->phase,
                                    .pulses = control->pulses,
                                    .arguments = config->worker_arguments,
                                    .fds = phases->fds,
                                    .fd_count = FD_COUNT,
                                    .hang_seconds = config->hang_seconds,
                                    .on_tick = on_tick,
                                    .on_death = on_death,
                                    .is_told = ends_by_its_trainer,
                                    .on_pause = pause_trainers,
                                    .serve = serve,
                                    .is_enough = is_enough,
                                    .is_waiting = is_waiting,
                                    .context = phases};
    if (config->trainers) {
        supervision.rank_fds = config->trainers->output.write_fds;
        supervision.watched = config->trainers->polls;
        supervision.watched_count = config->trainers->poll_count;
        control->has_output = 1;
        if (atomic_load(&control->forks))
            phases->fds[FD_NURSERY - WORKER_FIRST_FD] = config->trainers->nursery.workers_end;
    }
    TRY(supervisor_init(&phases->supervisor, &supervision, err));
    Status status;
    for (uint32_t rank = 0; rank < control->config.workers; rank++)
        TRY_GOTO(fail, supervisor_start(&phases->supervisor, rank, err));
    TRY_GOTO(fail, gather(phases, err));
    phases->stand_still = true;
    return STATUS_OK;
fail:
    phases_free(phases);
    return status;
}

// Returns how long the workers have to end by themselves. A GPU's driver ends their contexts one after the other, and
// MPS takes each killed client for a failure.
static double farewell_seconds(const PhasesConfig *config) {
    const double context_seconds = 0.3; // for one context; an estimate with room
    const RunConfig *run = config->memory->config;
    if (config->hang_seconds == 0) return INFINITY;
    return FAREWELL_SECONDS + (run->gpu.used ? run->workers * context_seconds : 0);
}

// Workers end by themselves if they can, so that a profiler, a sanitizer or MPS sees them end.
void phases_free(Phases *phases) {
    const bool in_order = phases->stand_still;
    if (in_order) {
        phases->config.memory->control->order.kind = PHASE_END;
        supervisor_dismiss(&phases->supervisor, farewell_seconds(&phases->config));
    }
    supervisor_free(&phases->supervisor);
    if (phases->config.trainers) trainer_host_end(phases->config.trainers);
    if (!in_order) wait_for_guards(phases);
    reap_orphans(phases);
}
