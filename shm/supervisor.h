// The parent's view of its workers: starts them, notices every death and hang, and waits for them without ever hanging.
//
//   TRY(supervisor_init(&supervisor, &config, err));        // barrier_init(barrier, workers + 1, spins) comes before
//   for each rank: TRY_GOTO(fail, supervisor_start(&supervisor, rank, err));
//   for each phase:
//       TRY_GOTO(fail, supervisor_gather(&supervisor, err));  // everybody stands still from here ...
//       ... read what the workers wrote, post the next jobs, supervisor_start whoever died ...
//       supervisor_release(&supervisor);                      // ... to here
//   fail: supervisor_free(&supervisor);
//
// Workers are this same binary, an exec of /proc/self/exe with the arguments given (never a bare fork), in a process
// group of their own (Ctrl-C and Ctrl-Z at the terminal reach the parent alone, which stops them when it is stopped),
// with signals unblocked, the stop signals ignored and all others at their default actions, with stdin from /dev/null,
// and with the inherited descriptors at fixed numbers and no others. A worker calls worker_attach first thing.
//
// The supervisor is single-threaded: it polls the workers' pidfds, a signalfd (parent_signals), the start-up
// pipes and an eventfd that every worker writes to after it has stored its arrival at the barrier. It arrives last
// itself, so its own arrival never blocks, and between supervisor_gather and supervisor_release all workers stand
// still. The thread that starts the workers must live as long as they shall: the kernel ties PDEATHSIG to it.
#ifndef SOUNDER_SHM_SUPERVISOR_H
#define SOUNDER_SHM_SUPERVISOR_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "shm/barrier.h"
#include "shm/stop_signals.h"

// What a worker finds open: descriptors 3, 4, ... in the order of the parent's `fds`; these two precede them.
enum { WORKER_STARTUP_FD = 3, WORKER_ARRIVAL_FD = 4, WORKER_FIRST_FD = 5, WORKER_MAX_FDS = 8 };

typedef enum WorkerState { WORKER_ABSENT, WORKER_STARTING, WORKER_RUNNING, WORKER_DEAD } WorkerState;

enum { WORKER_MESSAGE_BYTES = 512 }; // of worker_report, terminating zero included

// One worker's line in the control segment; written by that worker alone, read by the parent.
typedef struct WorkerPulse {
    _Alignas(64) _Atomic uint64_t progress; // grows with every piece of work; a hang is a progress that stands still
    _Atomic uint64_t arrived_nanoseconds;   // when it last reached the barrier
} WorkerPulse;

typedef struct SpawnPlan SpawnPlan;

typedef struct WorkerRecord {
    WorkerState state;
    pid_t pid;
    int pidfd;                          // -1 when there is none
    int startup_fd;                     // read end of its start-up pipe, -1 when there is none
    SpawnPlan *plan;                    // owned; what this process reads until it is ready or dead, then NULL
    bool was_ready;                     // this process has reported that it is ready
    char message[WORKER_MESSAGE_BYTES]; // what this process reported to be wrong; empty if nothing
    uint64_t seen_progress;
    double still_seconds; // observed time without progress while it was expected to work
    bool warned;
    int exit_status;   // of waitpid, once dead
    uint32_t restarts; // processes started for this rank after the first
} WorkerRecord;

typedef struct SupervisorConfig {
    uint32_t workers;
    Barrier *barrier;       // ranks = workers + 1; the parent is rank `workers`
    WorkerPulse *pulses;    // (workers)
    char *const *arguments; // argv of a worker, NULL-terminated; "@RANK" and "@PARENT" in it become the rank and the
                            // parent's pid; the first may end in "@RANK"
    const int *fds;         // (fd_count) what workers inherit, in order, from WORKER_FIRST_FD on
    uint32_t fd_count;
    double hang_seconds;            // killed after so long without progress, warned after half of it; 0: never
    void (*on_tick)(void *context); // about five times a second while waiting; may be NULL
    // After the rank has departed: may start a replacement; a failure ends supervisor_gather; may be NULL.
    Status (*on_death)(void *context, uint32_t rank, Error *err);
    // In every turn of supervisor_gather, at least five times a second and whenever a worker rings: what the parent
    // does for its workers meanwhile. A failure ends the gather. *busy: it wants to be called again at once. May be
    // NULL.
    Status (*serve)(void *context, bool *busy, Error *err);
    // supervisor_gather returns while workers still work, to be called again; NULL: it never does.
    bool (*is_enough)(void *context);
    bool (*is_waiting)(void *context, uint32_t rank); // true: no progress is no fault, it waits for others; may be NULL
    void *context;
} SupervisorConfig;

typedef struct Supervisor {
    SupervisorConfig config;
    WorkerRecord *workers;             // owned (config.workers)
    struct pollfd *polls;              // owned (2 + 2 config.workers): workspace of supervisor_gather
    int arrival_fd, signal_fd;         // owned
    uint32_t round;                    // what the caller is busy with, for messages; 0: nothing yet
    int interrupts;                    // requests to stop so far: the greater count of these two
    StopRequests handed_on, of_others; // by the process that started this one; by all other processes
    int last_signal;                   // the last stop signal
    uint64_t memory_kills;             // processes that the kernel had killed for want of memory at the start
    uint32_t deaths;                   // since the last supervisor_gather began
    uint32_t last_dead;                // the rank that died last
    bool goes_on;                      // the last gather ended while workers worked: is_enough
    uint64_t tick_start_nanoseconds;
    sigset_t saved_mask; // the signal mask and the SIGCHLD action to be restored
    struct sigaction saved_child_action;
} Supervisor;

// Blocks the stop signals and SIGTSTP and starts listening for them, raises the limit of open descriptors to what the
// workers will need (OS with limit and need if that is not allowed, SOFTWARE for a barrier of another size), and marks
// every worker's rank as gone. Starts no worker. The config is copied, what it points to must outlive the supervisor.
Status supervisor_init(Supervisor *supervisor, const SupervisorConfig *config, Error *err);

// Starts (or, after a death, replaces) the worker of a rank. Before the first release or between gather and release
// only (otherwise SOFTWARE). The newcomer is a member at once: its first worker_wait completes the barrier that the
// others stand at, and supervisor_gather waits for it.
Status supervisor_start(Supervisor *supervisor, uint32_t rank, Error *err);

// Waits until every living worker stands at the barrier. Deaths on the way are reaped, logged (signal or exit code,
// with the worker's own start-up message if it sent one), departed from the barrier and reported through on_death; a
// worker without progress is killed with SIGKILL. CANCELLED after a second stop signal. UNAVAILABLE when nobody
// is left (whoever wants to go on may then start workers anew). A worker that arrived and then died stays unnoticed
// until the next gather; what it wrote before it arrived is complete.
Status supervisor_gather(Supervisor *supervisor, Error *err);

// Lets the workers go: the parent's own arrival.
void supervisor_release(Supervisor *supervisor);

uint32_t supervisor_alive(const Supervisor *supervisor);

// For waits of the parent's own: how many stop signals have come in by now.
int supervisor_interrupts(Supervisor *supervisor);

// The last release, when the caller has told the workers to end: waits until they have, at most so long, and no longer
// than until a second stop signal.
void supervisor_dismiss(Supervisor *supervisor, double seconds);

// Kills and reaps whoever is left (SIGKILL; workers hold nothing that needs a goodbye), closes everything and restores
// the signal mask. Signals that came in meanwhile are counted in interrupts, which like last_signal stays readable.
void supervisor_free(Supervisor *supervisor);

// Worker side --------------------------------------------------------------------------------------------------------

// First call of a worker: dies with the parent from here on (PDEATHSIG, then a look whether getppid() still is
// `parent`, the pid it was given on its command line).
Status worker_attach(pid_t parent, Error *err);

// Tells the parent through the start-up pipe that the worker is ready (message NULL) or what is wrong, before it exits:
// the parent adds the message to its line about the death. Useful at any time of a worker's life.
void worker_report(const char *message);

// Makes the parent look: supervisor_gather calls serve soon.
void worker_ring(void);

// Stores the arrival time, arrives at the barrier, rings the parent's eventfd and waits. CANCELLED and PEER_DIED as
// barrier_wait.
Status worker_wait(Barrier *barrier, WorkerPulse *pulse, uint32_t rank, pid_t parent);

#endif
