// Lesson 10. There and back: how a rank waits.
//
// Two ranks pass a turn to each other. The one that waits can look again and again (spin), look and let others have the
// processor in between (yield), or sleep until the kernel wakes it (futex): a system call that sleeps only if a number
// in memory is still the expected one, and one that wakes the sleepers.
//
// Spinning answers soonest, in less than a microsecond, while each rank has a core. On a busy machine it is the worst:
// the rank that waits holds the core which the other one needs, until the kernel takes it away, milliseconds later.
//
// Question: which line changes most if you start the lesson three times at once?
// Build: cc -O2 -o lesson 10_there_and_back.c
// Run: ./lesson
// Prints:
//   spin:  <number> us there and back
//   yield: <number> us there and back
//   futex: <number> us there and back
// Change: "syscall(SYS_futex, &shared->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0)" -> "(void)INT_MAX": hangs
// Read: shm/barrier.c: how long does a rank spin before it sleeps, and who decides that? (barrier_init's last
// argument.)
// PyTorch: gloo sleeps in the kernel's sockets: a message takes it some 100 us, and less than 1 us between ranks that
// spin (tools/bench/RESULTS.md).
#define _GNU_SOURCE 1
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "ranks.h"

enum { MOST_TURNS = 20000, SECONDS = 1 };
enum { SPIN, YIELD, FUTEX };

typedef struct Shared {
    _Atomic unsigned turn;
    _Atomic int is_over;
    int how;
} Shared;

static void pass_to(Shared *shared, unsigned rank) {
    atomic_store(&shared->turn, rank);
    if (shared->how == FUTEX) syscall(SYS_futex, &shared->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void await(Shared *shared, unsigned rank) {
    for (unsigned value; (value = atomic_load(&shared->turn)) != rank;) {
        if (shared->how == YIELD) sched_yield();
        // Sleeps if the turn is still `value`: if it has changed in between, the call returns at once.
        if (shared->how == FUTEX) syscall(SYS_futex, &shared->turn, FUTEX_WAIT, value, NULL, NULL, 0);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double microseconds(Shared *shared, int how) {
    atomic_store(&shared->turn, 0);
    atomic_store(&shared->is_over, 0);
    shared->how = how;
    const pid_t pid = fork_rank();
    if (pid == 0) {
        for (await(shared, 1); !atomic_load(&shared->is_over); await(shared, 1))
            pass_to(shared, 0);
        _exit(0);
    }
    const double begin = now();
    int turns = 0;
    while (turns++ < MOST_TURNS && now() < begin + SECONDS) {
        pass_to(shared, 1);
        await(shared, 0);
    }
    const double each = (now() - begin) / (turns - 1) * 1e6;
    atomic_store(&shared->is_over, 1);
    pass_to(shared, 1);
    waitpid(pid, NULL, 0);
    return each;
}

int main(void) {
    static const char *const names[] = {"spin:", "yield:", "futex:"};
    Shared *shared = share(sizeof *shared);
    for (int how = SPIN; how <= FUTEX; how++)
        printf("%-6s %.2f us there and back\n", names[how], microseconds(shared, how));
    return 0;
}
