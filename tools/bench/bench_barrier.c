// One wait at a barrier by N processes: Sounder's, which survives deaths, and a process-shared pthread_barrier_t.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "bench.h"
#include "shm/barrier.h"

enum { TURNS = 5, SPINS_WHEN_CORES_SUFFICE = 4000 };

// Shared by all ranks; this process is the last of them.
typedef struct Meeting {
    Barrier barrier;
    pthread_barrier_t pthread;
    uint32_t ranks, waits;
    double barrier_nanoseconds[TURNS], pthread_nanoseconds[TURNS]; // of one wait; written by the last rank
} Meeting;

static double wait_at_barrier(Meeting *meeting, uint32_t rank) {
    uint64_t start = clock_nanoseconds();
    for (uint32_t i = 0; i < meeting->waits; i++)
        if (barrier_wait(&meeting->barrier, rank, 0, 0) != STATUS_OK) abort(); // without a deadline it cannot fail
    return clock_seconds_since(start) * 1e9 / meeting->waits;
}

static double wait_at_pthread(Meeting *meeting) {
    uint64_t start = clock_nanoseconds();
    for (uint32_t i = 0; i < meeting->waits; i++)
        pthread_barrier_wait(&meeting->pthread);
    return clock_seconds_since(start) * 1e9 / meeting->waits;
}

// Both kinds in turn.
static void take_part(Meeting *meeting, uint32_t rank) {
    for (int turn = 0; turn < TURNS; turn++) {
        double barrier = wait_at_barrier(meeting, rank), pthread = wait_at_pthread(meeting);
        if (rank != meeting->ranks - 1) continue;
        meeting->barrier_nanoseconds[turn] = barrier;
        meeting->pthread_nanoseconds[turn] = pthread;
    }
}

static Status meeting_init(Meeting **created, const BenchOptions *options, Error *err) {
    Meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (meeting == MAP_FAILED) return fail_errno(err, STATUS_OS, "no shared memory");
    uint32_t spins = options->ranks <= (uint32_t)cores_usable() ? SPINS_WHEN_CORES_SUFFICE : 0;
    barrier_init(&meeting->barrier, options->ranks, spins);
    meeting->ranks = options->ranks;
    meeting->waits = options->waits;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting->pthread, &attributes, options->ranks);
    pthread_barrierattr_destroy(&attributes);
    *created = meeting;
    return STATUS_OK;
}

// Starts rank 0, 1, ...; returns how many were started.
static uint32_t start_ranks(pid_t *children, Meeting *meeting) {
    pid_t parent = getpid();
    for (uint32_t rank = 0; rank + 1 < meeting->ranks; rank++) {
        children[rank] = fork();
        if (children[rank] < 0) return rank;
        if (children[rank] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) take_part(meeting, rank);
        _exit(0);
    }
    return meeting->ranks - 1;
}

Status bench_barrier(const BenchOptions *options, Error *err) {
    pid_t children[BARRIER_MAX_RANKS];
    if (options->ranks < 2 || options->ranks > BARRIER_MAX_RANKS)
        return fail(err, STATUS_USAGE, "--ranks %u: give 2 to %d", options->ranks, BARRIER_MAX_RANKS);
    Meeting *meeting = NULL;
    TRY(meeting_init(&meeting, options, err));
    Status status = STATUS_OK;
    uint32_t started = start_ranks(children, meeting);
    if (started == meeting->ranks - 1) {
        take_part(meeting, meeting->ranks - 1);
        printf("{\"bench\": \"barrier\", \"ranks\": %u, \"cores\": %d, \"waits\": %u, \"nanoseconds\": %.1f, "
               "\"pthread_nanoseconds\": %.1f}\n",
               meeting->ranks, cores_usable(), TURNS * meeting->waits,
               bench_median(meeting->barrier_nanoseconds, TURNS), bench_median(meeting->pthread_nanoseconds, TURNS));
    } else {
        status = fail_errno(err, STATUS_OS, "only %u of %u processes could be started", started, meeting->ranks - 1);
        for (uint32_t rank = 0; rank < started; rank++)
            kill(children[rank], SIGKILL);
    }
    for (uint32_t rank = 0; rank < started; rank++)
        waitpid(children[rank], NULL, 0);
    munmap(meeting, sizeof *meeting);
    return status;
}
