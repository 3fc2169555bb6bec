// The parent's view of its workers: starts them, notices every death and hang, and waits for them without ever hanging.
//
//   TRY(supervisor_init(&supervisor, &config, err));        // barrier_init(barrier, workers + 1, spins) comes before
//   for each rank: TRY_GOTO(fail, supervisor_start(&supervisor, rank, err));
//   for each phase:
//       TRY_GOTO(fail, supervisor_gather(&supervisor, err));  // all workers stand still from here ...
//       ... read what the workers wrote, post the next jobs, supervisor_start for dead ranks ...
//       supervisor_release(&supervisor);                      // ... to here
//   fail: supervisor_free(&supervisor);
//
// Workers are this same binary, an exec of /proc/self/exe with the arguments given (never a bare fork), in a process
// group of their own (Ctrl-C and Ctrl-Z at the terminal reach the parent alone, which stops them when it is stopped).
// They start with signals unblocked, the stop signals ignored and all others at their default actions, with stdin from
// /dev/null, and with the inherited descriptors at fixed numbers and no others. A worker first calls worker_attach.
//
// The supervisor is single-threaded: it polls the workers' pidfds, a signalfd (parent_signals), the start-up pipes and
// an eventfd that every worker writes to after it has stored its arrival at the barrier. The supervisor arrives last,
// so its own arrival never blocks, and all workers stand still between supervisor_gather and supervisor_release. The
// thread that starts the workers must live as long as they do: the kernel ties PDEATHSIG to it.
#ifndef SOUNDER_SHM_SUPERVISOR_H
#define SOUNDER_SHM_SUPERVISOR_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/owned.h"
#include "shm/barrier.h"
#include "shm/spawn.h"
#include "shm/stop_signals.h"

typedef enum WorkerState { WORKER_ABSENT, WORKER_STARTING, WORKER_RUNNING, WORKER_DEAD } WorkerState;

enum { WORKER_MESSAGE_BYTES = 512 }; // of worker_report, '\0' included

// One worker's entry in the control segment; only that worker writes it, the parent reads it.
typedef struct WorkerPulse {
    _Alignas(64) _Atomic uint64_t progress; // grows with every piece of work; a hang is a progress that does not grow
    _Atomic uint64_t arrived_nanoseconds;   // when the worker last reached the barrier
} WorkerPulse;

typedef struct WorkerRecord {
    WorkerState state;
    pid_t pid;
    int pidfd;                          // -1: none
    int startup_fd;                     // read end of its start-up pipe; -1: none
    SpawnPlan *plan;                    // owned; read by this process until it is ready or dead, then NULL
    bool was_ready;                     // this process has reported that it is ready
    char message[WORKER_MESSAGE_BYTES]; // problem that this process reported, or why it was killed; empty: none
    uint64_t seen_progress;             // progress at the last tick
    double still_seconds;               // observed time without progress while it was expected to work
    bool warned;                        // a warning has told of still_seconds
    int exit_status;                    // of waitpid, when dead
    uint32_t restarts;                  // processes started for this rank after the first
} WorkerRecord;

typedef struct SupervisorConfig {
    uint32_t workers;
    Barrier *barrier;       // ranks = workers + 1; the parent is rank `workers`
    WorkerPulse *pulses;    // (workers)
    char *const *arguments; // argv of a worker, NULL-terminated; "@RANK" and "@PARENT" are replaced by the rank and the
                            // parent's pid; the first argument may end in "@RANK"
    const int *fds;         // (fd_count) descriptors that workers inherit, in order, from WORKER_FIRST_FD on
    uint32_t fd_count;
    const int *rank_fds;            // (workers) one more descriptor for each worker; may be NULL
    double hang_seconds;            // time without progress until a kill; a warning after half of it; 0: never
    void (*on_tick)(void *context); // about five times a second while waiting; may be NULL
    // Called after the rank has departed; may start a replacement; a failure ends supervisor_gather. May be NULL.
    Status (*on_death)(void *context, uint32_t rank, Error *err);
    // Whether on_death fails with the worker's own sentence: then no warning says it before. May be NULL.
    bool (*is_told)(void *context, uint32_t rank);
    // Before this process stops by Ctrl-Z (pauses), and after it has been continued. May be NULL.
    void (*on_pause)(void *context, bool pauses);
    // The parent's work for its workers: called in every turn of supervisor_gather, at least five times a second and
    // whenever a worker rings. A failure ends the gather. *busy: call it again at once. May be NULL.
    Status (*serve)(void *context, bool *busy, Error *err);
    // Descriptors of the caller's whose events wake supervisor_gather, for `serve`; a descriptor of -1 is ignored.
    const struct pollfd *watched; // (watched_count), may change between two calls of serve; may be NULL
    uint32_t watched_count;
    // True lets supervisor_gather return while workers still work; the caller calls it again. May be NULL: never.
    bool (*is_enough)(void *context);
    bool (*is_waiting)(void *context, uint32_t rank); // true: waits for other ranks, which is no hang; may be NULL
    void *context;
} SupervisorConfig;

typedef struct Supervisor {
    SupervisorConfig config;
    Owned owned;                       // workers, polls
    WorkerRecord *workers;             // (config.workers)
    struct pollfd *polls;              // (2 + 2 workers + watched_count): workspace of supervisor_gather
    int arrival_fd, signal_fd;         // owned
    uint32_t round;                    // the caller's current round, for messages; 0: none yet
    int interrupts;                    // requests to stop so far: the greater of these two counts
    StopRequests handed_on, of_others; // from the process that started this one; from all other processes
    int last_signal;                   // the last stop signal
    uint64_t memory_kills;             // processes killed by the kernel because memory ran out, until supervisor_init
    uint32_t deaths;                   // since the last supervisor_gather began
    uint32_t last_dead;                // the rank that died last
    bool goes_on;                      // the last gather ended because of is_enough, while workers worked
    uint64_t tick_start_nanoseconds;
    sigset_t saved_mask; // the signal mask and the SIGCHLD action to restore
    struct sigaction saved_child_action;
} Supervisor;

// Blocks the stop signals and SIGTSTP and starts listening for them, raises the limit of open descriptors to what the
// workers will need, and marks every worker's rank as gone. Starts no worker. Fails with OS, limit and need if the
// limit cannot be raised, with SOFTWARE for a barrier of another size. Copies `config`; the objects it points to must
// outlive the supervisor.
Status supervisor_init(Supervisor *supervisor, const SupervisorConfig *config, Error *err);

// Starts the worker of a rank, or replaces a dead one. Allowed only before the first release and between gather and
// release (otherwise SOFTWARE). The new worker is a member at once: its first worker_wait completes the barrier at
// which the other workers wait, and supervisor_gather waits for it.
Status supervisor_start(Supervisor *supervisor, uint32_t rank, Error *err);

// Waits until every living worker has arrived at the barrier. Deaths in the meantime are reaped, logged (signal or exit
// code, and the worker's own start-up message if it sent one), departed from the barrier and reported through on_death;
// a worker without progress is killed with SIGKILL. CANCELLED after a second stop signal. UNAVAILABLE if no worker is
// left (the caller may then start workers again). The death of a worker that has arrived is noticed only in the next
// gather; what it wrote before it arrived is complete.
Status supervisor_gather(Supervisor *supervisor, Error *err);

// Lets the workers continue, by the parent's own arrival.
void supervisor_release(Supervisor *supervisor);

uint32_t supervisor_alive(const Supervisor *supervisor);

// For waits in the parent's own code: reads pending signals and returns the number of requests to stop so far.
int supervisor_interrupts(Supervisor *supervisor);

// The last release, after the caller has told the workers to end: waits until they have ended, at most `seconds`, and
// no longer than until a second stop signal.
void supervisor_dismiss(Supervisor *supervisor, double seconds);

// Kills and reaps all remaining workers (SIGKILL; workers hold nothing that needs a clean-up), closes everything and
// restores the signal mask. Signals that arrived in the meantime are counted in `interrupts`, which stays readable, as
// does last_signal.
void supervisor_free(Supervisor *supervisor);

// Worker side --------------------------------------------------------------------------------------------------------

// A worker's first call: from here on the worker dies with its parent (PDEATHSIG, then a check that getppid() is still
// `parent`, the pid from its command line).
Status worker_attach(pid_t parent, Error *err);

// Tells the parent through the start-up pipe that the worker is ready (message NULL), or what went wrong before it
// exits: the parent adds the message to its log line about the death. May be called at any time of a worker's life.
// Returns false if the report is lost.
bool worker_report(const char *message);

// Wakes the parent: supervisor_gather soon calls serve.
void worker_ring(void);

// Stores the arrival time, arrives at the barrier, rings the parent's eventfd and waits. Fails with CANCELLED and
// PEER_DIED as barrier_wait does.
Status worker_wait(Barrier *barrier, WorkerPulse *pulse, uint32_t rank, pid_t parent);

#endif
