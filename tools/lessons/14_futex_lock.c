// Lesson 14. A lock that sleeps: first wrongly, then rightly.
//
// A futex is a number in shared memory and two system calls: "sleep if the number is still v", and "wake one that
// sleeps on it". Between looking at the lock and sleeping the lock may become free; then the wake-up has been sent, and
// no rank was asleep. That is what v is for, and it must be the value by which the rank decided to sleep:
//
//   rank 0   takes the lock              gives it back, wakes (no rank sleeps yet)
//   rank 1               finds it taken                                         loads v again: 0. Sleeps on 0, for ever
//
// The right lock has three states: 0 free, 1 taken, 2 taken and some rank may sleep. A rank that finds it taken swaps
// in a 2 and sleeps on 2. The rank that gives it back swaps in a 0, and wakes one if there was a 2: no system call
// where none sleeps.
//
// Question: rank 1 leaves 2 behind when it takes the lock at last, although perhaps none sleeps. Why must it?
// Build: cc -O2 -o lesson 14_futex_lock.c
// Run: ./lesson
// Prints:
//   wrong lock, order 0 1 0 1: rank 1 sleeps, and the lock is free
//   right lock, order 0 1 0 1: rank 1 has had the lock
//   right lock, in a race: counted 400000 of 400000
// Change: "sleep_if(lock, atomic_load(lock))" -> "sleep_if(lock, 1)":
//   prints wrong lock, order 0 1 0 1: rank 1 has had the lock
// Change: "if (atomic_exchange(lock, 0) == 2) wake_one(lock)" -> "atomic_exchange(lock, 0)": hangs
// Read: shm/bell.c: what is the number there, and who wakes? Which of its steps keeps a wake-up from being lost?
// PyTorch: threading.Lock and every mutex of glibc: Ulrich Drepper, "Futexes Are Tricky", has the wrong locks, too.
#define _GNU_SOURCE 1
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "ranks.h"
#include "steps.h"

enum { RANKS = 4, COUNTS = 100000 };

typedef struct Shared {
    Steps steps;
    _Atomic int lock, rank_1_had_it;
    int counter; // ordinary memory, as in lesson 13
} Shared;

static void sleep_if(_Atomic int *number, int value) {
    syscall(SYS_futex, number, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void wake_one(_Atomic int *number) {
    syscall(SYS_futex, number, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void lock_wrongly(_Atomic int *lock, Steps *steps, int rank) {
    step(steps, rank, "try");
    while (atomic_exchange(lock, 1) != 0) {
        step(steps, rank, "sleep");
        steps_end(steps);
        sleep_if(lock, atomic_load(lock));
    }
    steps_end(steps);
}

static void unlock_wrongly(_Atomic int *lock) {
    atomic_store(lock, 0);
    wake_one(lock);
}

static void lock_rightly(_Atomic int *lock, Steps *steps, int rank) {
    step(steps, rank, "try");
    int free = 0;
    if (!atomic_compare_exchange_strong(lock, &free, 1)) {
        step(steps, rank, "sleep");
        steps_end(steps);
        while (atomic_exchange(lock, 2) != 0)
            sleep_if(lock, 2);
    }
    steps_end(steps);
}

static void unlock_rightly(_Atomic int *lock) {
    if (atomic_exchange(lock, 0) == 2) wake_one(lock);
}

// Rank 0 takes the lock, rank 1 finds it taken, rank 0 gives it back, rank 1 goes to sleep or does not.
static void meet(int rank, Shared *shared, void (*lock)(_Atomic int *, Steps *, int), void (*unlock)(_Atomic int *)) {
    lock(&shared->lock, &shared->steps, rank);
    if (rank == 1) atomic_store(&shared->rank_1_had_it, 1);
    if (rank == 0) step(&shared->steps, rank, "give back");
    unlock(&shared->lock);
    steps_end(&shared->steps);
}

static void meet_wrongly(int rank, int size, void *memory) {
    (void)size;
    meet(rank, memory, lock_wrongly, unlock_wrongly);
}

static void meet_rightly(int rank, int size, void *memory) {
    (void)size;
    meet(rank, memory, lock_rightly, unlock_rightly);
}

static void race(int rank, int size, void *memory) {
    Shared *shared = memory;
    (void)size;
    for (int i = 0; i < COUNTS; i++) {
        lock_rightly(&shared->lock, &shared->steps, rank);
        shared->counter = shared->counter + 1;
        if (i % 1000 == rank) usleep(1); // meanwhile the others come, find it taken, and sleep
        unlock_rightly(&shared->lock);
    }
}

static void print_meeting(const char *name, Shared *shared, void (*work)(int, int, void *)) {
    pid_t pids[2];
    atomic_store(&shared->lock, 0);
    atomic_store(&shared->rank_1_had_it, 0);
    steps_begin(&shared->steps, "0 1 0 1");
    start_ranks(pids, 2, work, shared);
    waitpid(pids[0], NULL, 0);
    for (int i = 0; i < 1000 && waitpid(pids[1], NULL, WNOHANG) == 0; i++)
        usleep(500); // half a second is long for a lock that is free
    const int had = atomic_load(&shared->rank_1_had_it), is_free = atomic_load(&shared->lock) == 0;
    printf("%s lock, order 0 1 0 1: rank 1 %s\n", name,
           had       ? "has had the lock"
           : is_free ? "sleeps, and the lock is free"
                     : "sleeps, and the lock is taken");
    kill(pids[1], SIGKILL);
    waitpid(pids[1], NULL, 0);
    steps_begin(&shared->steps, "");
}

int main(void) {
    Shared *shared = share(sizeof *shared);
    print_meeting("wrong", shared, meet_wrongly);
    print_meeting("right", shared, meet_rightly);
    pid_t pids[RANKS];
    atomic_store(&shared->lock, 0);
    start_ranks(pids, RANKS, race, shared);
    join_ranks(pids, RANKS);
    printf("right lock, in a race: counted %d of %d\n", shared->counter, RANKS * COUNTS);
    return 0;
}
