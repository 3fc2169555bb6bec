// A phase is work that the parent has all workers do at once; deaths in the middle of it change no result.
//
//   TRY(phases_init(&phases, &config, err));                        // starts the workers
//   queue_post(memory->queue) ...;                                  // all workers wait at the barrier
//   TRY(phases_run_jobs(&phases, PHASE_TRAIN, round, err));         // every job is done, however many workers died
//   phases_free(&phases);
//
// The parent writes jobs and an order, releases the barrier, and gathers all workers at it again. Between gather and
// release all workers wait, and the parent alone touches shared memory.
//
// Death. The finished jobs of a dead worker stay; the job that it had begun is opened again at once, and a replacement
// (--on-worker-death respawn, or the only worker's) joins the phase. Only a worker that died in the microseconds in
// which it was adding an update to its slot leaves a useless sum: then all its jobs of the round are done again. Jobs
// that are still open after the gather are posted in a further phase. In lockstep (ssgd) the step barrier is cancelled,
// the round's first weights are restored, and the round is done again. Either way the bits are those of an undisturbed
// run.
#ifndef SOUNDER_FEDAVG_PARENT_PHASES_H
#define SOUNDER_FEDAVG_PARENT_PHASES_H

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/parent/engine.h"
#include "fedavg/parent/external.h"
#include "fedavg/parent/parent_backend.h"
#include "fedavg/trainer/host.h"
#include "shm/supervisor.h"

typedef enum WorkerDeath { WORKER_DEATH_CONTINUE, WORKER_DEATH_RESPAWN, WORKER_DEATH_ABORT } WorkerDeath;

typedef struct PhasesConfig {
    RunMemory *memory;              // borrowed
    char *const *worker_arguments;  // argv of a worker, see supervisor.h; borrowed
    WorkerDeath on_worker_death;    // CONTINUE is RESPAWN where one worker trains: there are no others
    double hang_seconds;            // without progress until a worker is killed; 0: never
    void (*on_tick)(void *context); // about five times a second while workers work; may be NULL
    void *context;
    const Engine *engine;     // serves the workers in training, and says whether they wait or have done enough
    Rounds *rounds;           // borrowed: what the engine's functions get
    Parent *parent;           // borrowed: it buries dead workers, and its nodes are watched
    const External *external; // borrowed: of --aggregator
    TrainerHost *trainers;    // of a run with --trainer or --aggregator; borrowed, NULL: none
} PhasesConfig;

typedef struct Phases {
    PhasesConfig config;
    Supervisor supervisor;
    int fds[FD_COUNT];         // what workers inherit; borrowed from the memory
    PhaseKind kind;            // running now
    bool stand_still;          // all living workers are at the barrier
    uint32_t unfinished;       // jobs, when the phase began or the last worker died
    uint32_t fruitless_deaths; // in a row, with no job finished in between
    uint32_t explained_deaths; // of those: workers that said why, and had or would have a successor
    bool cannot_replace;       // the last attempt to start a replacement failed, which has been said
    bool ends_run;             // a death could not be handled: no other worker follows
    uint32_t lost;             // deaths so far
} Phases;

// Starts all workers and waits until they are at the barrier. Nothing to free on failure. The Phases must not move
// afterwards.
Status phases_init(Phases *phases, const PhasesConfig *config, Error *err);

// Has the workers take jobs from the queue until all are done. UNAVAILABLE when workers died and may not or can not be
// replaced, CANCELLED after a second stop signal.
Status phases_run_jobs(Phases *phases, PhaseKind kind, uint32_t round, Error *err);

// A single phase, from release to gather; for lockstep, where the caller looks itself whether all jobs are done.
Status phases_run(Phases *phases, PhaseKind kind, uint32_t round, Error *err);

// Has the workers train, if they are at the barrier, and returns when is_enough says so, while they train on.
// phases_rest waits until they are at the barrier again, to which the caller has called them.
Status phases_fly(Phases *phases, uint32_t round, Error *err);
Status phases_rest(Phases *phases, Error *err);

// Forgets deaths so far as a reason to give the run up.
void phases_forgive(Phases *phases);

// Orders the workers to end, if they are at the barrier, and waits a second for them (with hang_seconds 0 as long as it
// takes, until a second stop signal); kills those that are left.
void phases_free(Phases *phases);

#endif
