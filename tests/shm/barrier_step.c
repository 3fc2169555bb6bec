// The barrier, instruction by instruction. A rank is single-stepped through barrier_wait with ptrace, and
//   - killed after 0, 1, 2, ... instructions: the survivors must come through every time;
//   - or held there while the supervisor revives another rank and lets go: the barrier must wait for that rank.
// Exit code 77, which ctest reports as skipped, where ptrace is not allowed.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/check.h"
#include "tests/deadline.h"
#include "tests/shm/asleep.h"
#include "shm/barrier.h"

enum { RANKS = 3, STEPPED = 0, PEER_CROSSINGS = 3, INSTRUCTIONS_MAX = 20000, PATIENCE_SECONDS = 60, EXIT_SKIPPED = 77 };
enum { POLLS_A_LOOK = 50 };

typedef struct Shared {
    Barrier barrier;
    _Atomic uint32_t may_start[RANKS];
    _Atomic uint32_t left; // the stepped rank has come through
} Shared;

static Shared *shared_new(void) {
    Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    barrier_init(&shared->barrier, RANKS, 0);
    return shared;
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

// Forks the rank that is to be stepped and stops it right before it arrives.
static pid_t fork_stepped(Shared *shared) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        deadline_join();
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        barrier_wait(&shared->barrier, STEPPED, 0, 0);
        atomic_store(&shared->left, 1);
        _exit(0);
    }
    int exit_status;
    assert_int_equal(waitpid(pid, &exit_status, 0), pid);
    assert_true(WIFSTOPPED(exit_status));
    return pid;
}

static pid_t fork_peer(Shared *shared, uint32_t rank) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    deadline_join();
    while (!atomic_load(&shared->may_start[rank]))
        nap();
    for (int i = 0; i < PEER_CROSSINGS; i++)
        if (barrier_wait(&shared->barrier, rank, 0, 0) != STATUS_OK) _exit(1);
    _exit(0);
}

// Executes so many instructions of the stepped rank. False: it got no further, as it sleeps or has come through.
static bool step(const Shared *shared, pid_t pid, int instructions) {
    for (int i = 0; i < instructions; i++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        for (int polls = 1; waitpid(pid, NULL, WNOHANG) == 0; polls++) {
            if (polls % POLLS_A_LOOK == 0 && is_asleep(pid)) return false; // a look costs more than a step
            sched_yield();
        }
        if (atomic_load(&shared->left)) return false;
    }
    return true;
}

static bool exits_with_zero_in_time(pid_t pid) {
    uint64_t start = clock_nanoseconds();
    int exit_status;
    while (waitpid(pid, &exit_status, WNOHANG) == 0) {
        if (clock_seconds_since(start) > PATIENCE_SECONDS) return false;
        nap();
    }
    return WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0;
}

// One kill point. False: the stepped rank does not have so many instructions left.
static bool kill_after(int instructions, uint32_t peers_waiting) {
    Shared *shared = shared_new();
    pid_t pids[RANKS] = {[STEPPED] = fork_stepped(shared)};
    for (uint32_t peer = 1; peer < RANKS; peer++)
        pids[peer] = fork_peer(shared, peer);
    for (uint32_t peer = 1; peer <= peers_waiting; peer++) {
        atomic_store(&shared->may_start[peer], 1);
        while (!barrier_has_arrived(&shared->barrier, peer) || !is_asleep(pids[peer]))
            nap();
    }
    bool more = step(shared, pids[STEPPED], instructions);

    kill(pids[STEPPED], SIGKILL);
    int exit_status;
    do {
        assert_int_equal(waitpid(pids[STEPPED], &exit_status, 0), pids[STEPPED]);
    } while (WIFSTOPPED(exit_status));
    barrier_depart(&shared->barrier, STEPPED);
    for (uint32_t peer = 1; peer < RANKS; peer++)
        atomic_store(&shared->may_start[peer], 1);
    for (uint32_t peer = 1; peer < RANKS; peer++)
        if (!exits_with_zero_in_time(pids[peer]))
            fail_msg("with %u waiting, a kill after %d instructions leaves rank %u hanging in generation %u",
                     peers_waiting, instructions, peer, atomic_load(&shared->barrier.generation));
    munmap(shared, sizeof *shared);
    return more;
}

static void kill_after_every_instruction(uint32_t peers_waiting) {
    int instructions = 0;
    while (kill_after(instructions, peers_waiting)) {
        instructions++;
        assert_true(instructions < INSTRUCTIONS_MAX);
    }
    assert_true(instructions > 20); // it was stepped
    print_message("%d kill points\n", instructions + 1);
}

static void a_kill_at_any_instruction_of_the_first_arrival_hangs_nobody(void **state) {
    (void)state;
    kill_after_every_instruction(0);
}

static void a_kill_at_any_instruction_of_the_second_arrival_hangs_nobody(void **state) {
    (void)state;
    kill_after_every_instruction(1);
}

static void a_kill_at_any_instruction_of_the_last_arrival_hangs_nobody(void **state) {
    (void)state;
    kill_after_every_instruction(2);
}

// Rank 1 is dead, rank 2 the supervisor, which is this process. False: as above.
static bool revive_after(int instructions) {
    enum { REVIVED = 1, SUPERVISOR = 2 };
    Shared *shared = shared_new();
    Barrier *barrier = &shared->barrier;
    barrier_depart(barrier, REVIVED);
    pid_t pid = fork_stepped(shared);
    bool more = step(shared, pid, instructions);
    barrier_revive(barrier, REVIVED);
    barrier_arrive(barrier, SUPERVISOR);
    if (more) assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
    while (!is_asleep(pid) && !atomic_load(&shared->left))
        nap();
    if (atomic_load(&shared->left))
        fail_msg("a rank revived %d instructions into another's arrival is not waited for", instructions);
    barrier_arrive(barrier, REVIVED);
    if (more) {
        assert_true(exits_with_zero_in_time(pid));
    } else { // it is still traced
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    munmap(shared, sizeof *shared);
    return more;
}

static void a_revival_at_any_instruction_of_an_arrival_is_not_overlooked(void **state) {
    (void)state;
    int instructions = 0;
    while (revive_after(instructions)) {
        instructions++;
        assert_true(instructions < INSTRUCTIONS_MAX);
    }
    assert_true(instructions > 20);
    print_message("%d points of revival\n", instructions + 1);
}

static bool may_trace(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    int exit_status;
    return waitpid(pid, &exit_status, 0) == pid && WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0;
}

int main(int argc, char **argv) {
    deadline_set(560);
    if (!may_trace()) return EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_instruction_of_the_first_arrival_hangs_nobody),
        cmocka_unit_test(a_kill_at_any_instruction_of_the_second_arrival_hangs_nobody),
        cmocka_unit_test(a_kill_at_any_instruction_of_the_last_arrival_hangs_nobody),
        cmocka_unit_test(a_revival_at_any_instruction_of_an_arrival_is_not_overlooked),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
