// Lesson 16. A barrier, in three stages: it spins, it sleeps, it survives.
//
// At a barrier each rank waits until all are there. A counter of arrivals does it: the barrier of round r is open when
// the counter is r times the number of ranks. The second stage sleeps on that counter (lesson 14). Both wait for ever
// for a rank that was killed: it will not be counted, and nothing in a counter says who is missing.
//
// In the third stage each rank has a slot of its own, where it writes the round that it has reached, and the parent,
// which learns from waitpid who is dead, writes beside it that this rank is gone. A rank waits for those that are here.
//
//   counter   [ 5 ]                 of 6: whose is missing?
//   slots     [ 2 | 2 | 1 ]   gone [ 0 | 0 | 1 ]       rank 2 is dead: no wait
//
// Question: why must the parent be sure that the rank is dead before it writes that it is gone?
// Build: cc -O2 -o lesson 16_barrier.c
// Run: ./lesson
// Prints:
//   spins:    3 of 3 ranks end; if one is killed, 0 of the 2 others
//   sleeps:   3 of 3 ranks end; if one is killed, 0 of the 2 others
//   survives: 3 of 3 ranks end; if one is killed, 2 of the 2 others
// Change: "atomic_store(&shared->gone[rank], 1)" -> "(void)0":
//   prints survives: 3 of 3 ranks end; if one is killed, 0 of the 2 others
// Change: "wake_all(&shared->count)" -> "(void)0": lacks sleeps:   3 of 3 ranks end
// Read: shm/barrier.h and shm/barrier.c, the third stage as Sounder uses it. Why has each slot a cache line of its own
// (lesson 9)? Who wakes the sleepers if the last rank dies between its arrival and the wake-up?
// PyTorch: dist.barrier(); over NCCL a rank that waits for a dead one waits until the timeout.
#define _GNU_SOURCE 1
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "ranks.h"

enum { RANKS = 3, ROUNDS = 200, VICTIM = RANKS - 1 };

typedef struct Shared {
    _Atomic int count;        // arrivals, of all rounds
    _Atomic int slots[RANKS]; // the round that each rank has reached
    _Atomic int gone[RANKS];  // written by the parent
    int one_dies;
} Shared;

static void wait_spinning(Shared *shared, int rank, int round) {
    (void)rank;
    atomic_fetch_add(&shared->count, 1);
    while (atomic_load(&shared->count) < RANKS * round)
        usleep(1); // it looks again and again, but leaves the core to the others in between
}

static void wake_all(_Atomic int *number) {
    syscall(SYS_futex, number, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wait_sleeping(Shared *shared, int rank, int round) {
    (void)rank;
    if (atomic_fetch_add(&shared->count, 1) + 1 == RANKS * round) wake_all(&shared->count);
    for (int count; (count = atomic_load(&shared->count)) < RANKS * round;)
        syscall(SYS_futex, &shared->count, FUTEX_WAIT, count, NULL, NULL, 0);
}

static void wait_for_the_living(Shared *shared, int rank, int round) {
    atomic_store(&shared->slots[rank], round);
    for (int other = 0; other < RANKS; other++)
        while (atomic_load(&shared->slots[other]) < round && !atomic_load(&shared->gone[other]))
            usleep(1);
}

static void (*const stages[])(Shared *, int, int) = {wait_spinning, wait_sleeping, wait_for_the_living};
static int stage;

static void work(int rank, int size, void *memory) {
    Shared *shared = memory;
    (void)size;
    for (int round = 1; round <= ROUNDS; round++) {
        if (shared->one_dies && rank == VICTIM && round == ROUNDS / 2) raise(SIGKILL);
        stages[stage](shared, rank, round);
    }
}

// How many ranks end by themselves.
static int run(Shared *shared, int one_dies) {
    pid_t pids[RANKS];
    *shared = (Shared){.one_dies = one_dies};
    start_ranks(pids, RANKS, work, shared);
    int ended = 0;
    for (int patience = 0; patience < 1000 && ended < RANKS - one_dies; patience++, usleep(500))
        for (int rank = 0, status; rank < RANKS; rank++) {
            if (pids[rank] == 0 || waitpid(pids[rank], &status, WNOHANG) == 0) continue;
            pids[rank] = 0;
            ended += WIFEXITED(status);
            if (WIFSIGNALED(status)) atomic_store(&shared->gone[rank], 1);
        }
    for (int rank = 0; rank < RANKS; rank++)
        if (pids[rank] != 0) kill(pids[rank], SIGKILL), waitpid(pids[rank], NULL, 0);
    return ended;
}

int main(void) {
    static const char *const names[] = {"spins:", "sleeps:", "survives:"};
    Shared *shared = share(sizeof *shared);
    for (stage = 0; stage < 3; stage++) {
        const int all = run(shared, 0), others = run(shared, 1);
        printf("%-9s %d of %d ranks end; if one is killed, %d of the %d others\n", names[stage], all, RANKS, others,
               RANKS - 1);
    }
    return 0;
}
