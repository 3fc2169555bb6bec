// A supervisor with real processes for tests: the test's executable starts itself again as workers, which work, hang
// and die on command. main of such a test begins with
//
//   if (is_worker(argc, argv)) return worker_main(argv);
#ifndef SOUNDER_TESTS_SHM_WORLD_H
#define SOUNDER_TESTS_SHM_WORLD_H

#include "shm/supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/check.h"
#include "tests/deadline.h"
#include "shm/segment.h"

enum { WORKERS_MAX = 64 };

// What a worker shall do in a phase.
typedef enum Order {
    WORK,              // count the phase and go on
    WORK_FOREVER,      // make progress without end
    HANG,              // neither progress nor end
    HANG_WHEN_STARTED, // the same, before it has reported that it is ready
    HANG_UNTIL_TOLD,   // no progress until the parent sets `may_go_on`
    EXIT_ZERO,
    FAIL_TO_START, // report why and exit
    INSPECT,       // write down what the process was given
} Order;

// The control segment. The parent writes orders and the phase while the workers stand still.
typedef struct Control {
    Barrier barrier;
    WorkerPulse pulses[WORKERS_MAX];
    uint32_t phase;
    Order orders[WORKERS_MAX];
    _Atomic uint32_t seen_phase[WORKERS_MAX]; // last phase that the worker took part in
    _Atomic uint32_t phases_done[WORKERS_MAX];
    _Atomic uint32_t may_go_on;
    _Atomic uint32_t violations; // a worker was let go while another was still busy
    // What INSPECT found.
    uint32_t open_descriptors, own_group, open_signals, default_sigpipe;
} Control;

// Worker -------------------------------------------------------------------------------------------------------------

static inline void sleep_milliseconds(long milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static inline uint32_t count_open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return 0;
    uint32_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; // the folder itself
}

static inline void inspect(Control *control) {
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    struct sigaction pipe_action;
    sigaction(SIGPIPE, NULL, &pipe_action);
    control->open_descriptors = count_open_descriptors();
    control->own_group = getpgrp() == getpid();
    control->open_signals = !sigismember(&blocked, SIGINT) && !sigismember(&blocked, SIGUSR1);
    control->default_sigpipe = pipe_action.sa_handler == SIG_DFL;
}

static inline void obey(Control *control, uint32_t rank, Order order) {
    WorkerPulse *pulse = &control->pulses[rank];
    switch (order) {
    case EXIT_ZERO:
        _exit(0);
    case WORK_FOREVER:
        for (;;) {
            atomic_fetch_add(&pulse->progress, 1);
            sleep_milliseconds(1);
        }
    case HANG:
        for (;;)
            pause();
    case HANG_UNTIL_TOLD:
        while (!atomic_load(&control->may_go_on))
            sleep_milliseconds(1);
        break;
    case INSPECT:
        inspect(control);
        break;
    default:
        break;
    }
    atomic_fetch_add(&pulse->progress, 1);
}

static inline bool is_worker(int argc, char **argv) {
    return argc == 4 && strcmp(argv[1], "worker") == 0;
}

static inline int worker_main(char **argv) {
    enum { LAST_RESORT_SECONDS = 100 };
    alarm(LAST_RESORT_SECONDS); // should all that is tested here fail, no process shall be left for ever
    uint32_t rank = (uint32_t)atoi(argv[2]);
    pid_t parent = atoi(argv[3]);
    Error err;
    Segment segment;
    if (signal(SIGTERM, SIG_IGN) != SIG_IGN) return 89; // one that came now would end it
    if (worker_attach(parent, &err) != STATUS_OK) return 90;
    if (segment_map(&segment, WORKER_FIRST_FD, SEGMENT_READ_WRITE, &err) != STATUS_OK) {
        worker_report(err.message);
        return 91;
    }
    Control *control = segment.memory;
    if (control->orders[rank] == FAIL_TO_START) {
        worker_report("the data set is not there");
        return EX_NOINPUT;
    }
    if (control->orders[rank] == HANG_WHEN_STARTED) obey(control, rank, HANG);
    worker_report(NULL);
    for (;;) {
        if (worker_wait(&control->barrier, &control->pulses[rank], rank, parent) != STATUS_OK) return 92;
        uint32_t phase = control->phase;
        for (uint32_t other = 0; other + 1 < control->barrier.ranks; other++)
            if (atomic_load(&control->seen_phase[other]) > phase) atomic_fetch_add(&control->violations, 1);
        atomic_store(&control->seen_phase[rank], phase);
        obey(control, rank, control->orders[rank]);
        atomic_fetch_add(&control->phases_done[rank], 1);
    }
}

// Parent -------------------------------------------------------------------------------------------------------------

// A supervisor with its control segment, what its callbacks shall do and what they have seen. Its address is the
// callbacks' context, so it must stay where it is.
typedef struct World {
    Segment segment;
    Control *control;
    Supervisor supervisor;
    char *arguments[5];
    int fds[1];
    uint32_t ticks; // of this phase
    uint32_t reported_deaths, reported_rank;
    bool departed_before_report;
    int kill_rank;                // killed in the first tick of a phase; -1: none
    int last_rank;                // judged by 2 s from when all others stand at the barrier; -1: none
    bool stops_last;              // and stopped then
    int interrupts_to_raise;      // one a tick
    long first_tick_milliseconds; // how long a phase's first tick keeps the supervisor from observing
    uint32_t tell_at_tick;        // when HANG_UNTIL_TOLD ends; 0: never
} World;

static inline bool others_stand(const World *world, uint32_t rank) {
    const SupervisorConfig *config = &world->supervisor.config;
    for (uint32_t other = 0; other < config->workers; other++)
        if (other != rank && !barrier_has_arrived(config->barrier, other)) return false;
    return true;
}

// How fast the machine starts workers and lets them work is not judged: only the last rank has a short time, and that
// begins now.
static inline void judge_last(World *world) {
    WorkerRecord *last = &world->supervisor.workers[world->last_rank];
    if (world->stops_last) kill(last->pid, SIGSTOP);
    last->still_seconds = 0;                   // what a slow machine has taken so far
    world->supervisor.config.hang_seconds = 2; // a tick counts for at most 1 s: half of it cannot be jumped over
    world->last_rank = -1;
}

static inline void on_tick(void *context) {
    World *world = context;
    world->ticks++;
    if (world->ticks == 1) {
        if (world->kill_rank >= 0) kill(world->supervisor.workers[world->kill_rank].pid, SIGKILL);
        if (world->first_tick_milliseconds) sleep_milliseconds(world->first_tick_milliseconds);
    }
    if (world->last_rank >= 0 && others_stand(world, (uint32_t)world->last_rank)) judge_last(world);
    if (world->interrupts_to_raise > 0) {
        world->interrupts_to_raise--;
        kill(getpid(), SIGINT);
    }
    if (world->ticks == world->tell_at_tick) {
        atomic_store(&world->control->may_go_on, 1);
        world->supervisor.config.hang_seconds = 60; // it has been judged; how long the rest takes is the machine's
    }
}

static inline Status on_death(void *context, uint32_t rank, Error *err) {
    (void)err;
    World *world = context;
    world->reported_deaths++;
    world->reported_rank = rank;
    world->departed_before_report = atomic_load(&world->control->barrier.slots[rank].gone) == 1;
    return STATUS_OK;
}

static inline Status world_init(World *world, uint32_t workers, double hang_seconds, Error *err) {
    *world = (World){.arguments = {"test", "worker", "@RANK", "@PARENT", NULL}, .kill_rank = -1, .last_rank = -1};
    TRY(segment_create(&world->segment, "control", sizeof(Control), err));
    segment_publish(&world->segment);
    world->control = world->segment.memory;
    world->fds[0] = world->segment.fd;
    barrier_init(&world->control->barrier, workers + 1, 0);
    SupervisorConfig config = {.workers = workers,
                               .barrier = &world->control->barrier,
                               .pulses = world->control->pulses,
                               .arguments = world->arguments,
                               .fds = world->fds,
                               .fd_count = 1,
                               .hang_seconds = hang_seconds,
                               .on_tick = on_tick,
                               .on_death = on_death,
                               .context = world};
    Status status = supervisor_init(&world->supervisor, &config, err);
    if (status != STATUS_OK) segment_free(&world->segment);
    return status;
}

static inline void world_free(World *world) {
    supervisor_free(&world->supervisor);
    segment_free(&world->segment);
}

// Starts everybody who is not alive and waits until they stand at the barrier.
static inline Status world_start(World *world, Error *err) {
    for (uint32_t rank = 0; rank < world->supervisor.config.workers; rank++)
        if (world->supervisor.workers[rank].pidfd < 0) TRY(supervisor_start(&world->supervisor, rank, err));
    return supervisor_gather(&world->supervisor, err);
}

// Lets everybody do one phase and waits for its end.
static inline Status world_phase(World *world, Error *err) {
    world->control->phase++;
    world->ticks = 0; // a slow machine has had some while the workers started
    supervisor_release(&world->supervisor);
    return supervisor_gather(&world->supervisor, err);
}

#endif
