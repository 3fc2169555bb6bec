// The barrier with real processes: crossings, a storm of SIGKILLs, revival, cancellation, deadlines and wrap-around.
// SOUNDER_KILLS asks for more kills than the default.
#include "shm/barrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/check.h"
#include "tests/deadline.h"

enum { RANKS_MAX = 17 };

// What one rank writes: the count of crossings it has entered and left, one line of cache to itself.
typedef struct Crossings {
    _Alignas(64) _Atomic uint32_t entered, left;
} Crossings;

typedef struct Shared {
    Barrier barrier;
    Crossings crossings[RANKS_MAX];
    _Atomic uint32_t violations;
    _Atomic uint32_t statuses[RANKS_MAX]; // what barrier_wait returned, + 1; 0: it has not returned yet
} Shared;

static Shared *shared_new(uint32_t ranks, uint32_t spins) {
    Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    barrier_init(&shared->barrier, ranks, spins);
    return shared;
}

static uint32_t random_below(uint32_t bound, uint32_t *draws) {
    return rng_block(rng_key(1, RNG_SYNTHETIC, 0, 0, 0), (*draws)++, 0, 0, 0).word[0] % bound;
}

static void sleep_microseconds(uint32_t microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = (long)microseconds * 1000}, NULL);
}

// How many crossings there have been before the generation that this rank, a member, is to arrive for.
static uint32_t crossings_so_far(const Barrier *barrier) {
    return atomic_load(&barrier->generation) / 2;
}

// One crossing, and the check that it was a barrier: nobody leaves before every member has entered. `entered` is
// relaxed on purpose, since to order it is the barrier's work.
static Status cross(Shared *shared, uint32_t rank) {
    Barrier *barrier = &shared->barrier;
    uint32_t crossing = crossings_so_far(barrier) + 1;
    atomic_store_explicit(&shared->crossings[rank].entered, crossing, memory_order_relaxed);
    Status status = barrier_wait(barrier, rank, 0, 0);
    if (status != STATUS_OK) return status;
    for (uint32_t other = 0; other < barrier->ranks; other++) {
        if (atomic_load(&barrier->slots[other].gone)) continue;
        // It may have died before it entered and have departed since the line above.
        if (atomic_load_explicit(&shared->crossings[other].entered, memory_order_relaxed) < crossing &&
            !atomic_load(&barrier->slots[other].gone))
            atomic_fetch_add(&shared->violations, 1);
    }
    atomic_store_explicit(&shared->crossings[rank].left, crossing, memory_order_relaxed);
    return STATUS_OK;
}

static pid_t fork_rank(Shared *shared, uint32_t rank, uint32_t crossings) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    deadline_join();
    for (uint32_t i = 0; i < crossings; i++)
        if (cross(shared, rank) != STATUS_OK) _exit(1);
    _exit(0);
}

static void assert_exits_with_zero(pid_t pid) {
    int exit_status;
    assert_int_equal(waitpid(pid, &exit_status, 0), pid);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
}

static void nobody_leaves_before_all_have_entered(void **state) {
    (void)state;
    enum { CROSSINGS = 2000, SPINS = 200 };
    for (uint32_t ranks = 1; ranks <= 8; ranks++) {
        Shared *shared = shared_new(ranks, ranks % 2 ? SPINS : 0);
        pid_t pids[RANKS_MAX];
        for (uint32_t rank = 0; rank < ranks; rank++)
            pids[rank] = fork_rank(shared, rank, CROSSINGS);
        for (uint32_t rank = 0; rank < ranks; rank++)
            assert_exits_with_zero(pids[rank]);
        assert_int_equal(atomic_load(&shared->violations), 0);
        assert_int_equal(crossings_so_far(&shared->barrier), CROSSINGS);
        munmap(shared, sizeof *shared);
    }
}

static void generations_wrap_around(void **state) {
    (void)state;
    enum { RANKS = 3, CROSSINGS = 10 };
    Shared *shared = shared_new(RANKS, 0);
    const uint32_t almost_over = UINT32_MAX - 5; // even: three crossings before 0
    atomic_store(&shared->barrier.generation, almost_over);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        atomic_store(&shared->barrier.slots[rank].arrived, almost_over);
    barrier_depart(&shared->barrier, 2);
    pid_t pids[RANKS];
    for (uint32_t rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        if (pids[rank] > 0) continue;
        deadline_join();
        for (uint32_t i = 0; i < CROSSINGS; i++)
            if (barrier_wait(&shared->barrier, rank, 0, 0) != STATUS_OK) _exit(1);
        _exit(0);
    }
    assert_exits_with_zero(pids[0]);
    assert_exits_with_zero(pids[1]);
    assert_int_equal(atomic_load(&shared->barrier.generation) & ~1u, (uint32_t)(almost_over + 2 * CROSSINGS));
    munmap(shared, sizeof *shared);
}

// A group of ranks of which one after the other is killed.
typedef struct Storm {
    Shared *shared;
    uint32_t ranks; // that are processes; the supervisor, if it takes part, is one more
    bool supervisor_takes_part;
    pid_t pids[RANKS_MAX]; // 0: dead
    uint32_t draws;
} Storm;

static void storm_start(Storm *storm, uint32_t rank) {
    storm->pids[rank] = fork_rank(storm->shared, rank, UINT32_MAX);
}

static bool all_have_left(const Storm *storm, const uint32_t *crossings) {
    for (uint32_t rank = 0; rank < storm->ranks; rank++)
        if (storm->pids[rank] && atomic_load(&storm->shared->crossings[rank].left) < crossings[rank]) return false;
    return true;
}

static void storm_arrive_as_supervisor(Storm *storm) {
    Barrier *barrier = &storm->shared->barrier;
    atomic_store_explicit(&storm->shared->crossings[storm->ranks].entered, crossings_so_far(barrier) + 1,
                          memory_order_relaxed);
    barrier_arrive(barrier, storm->ranks);
}

// Waits until every survivor has crossed twice more. The deadline is that of the whole test.
static void await_two_crossings_by_everyone(Storm *storm) {
    Barrier *barrier = &storm->shared->barrier;
    uint32_t crossings[RANKS_MAX];
    for (uint32_t rank = 0; rank < storm->ranks; rank++)
        crossings[rank] = atomic_load(&storm->shared->crossings[rank].left) + 2;
    while (!all_have_left(storm, crossings)) {
        if (!storm->supervisor_takes_part)
            sleep_microseconds(20);
        else if (barrier_others_arrived(barrier, storm->ranks))
            storm_arrive_as_supervisor(storm);
    }
}

static void storm_kill_one(Storm *storm) {
    uint32_t victim;
    do {
        victim = random_below(storm->ranks, &storm->draws);
    } while (!storm->pids[victim]);
    for (uint32_t loops = random_below(20000, &storm->draws); loops > 0; loops--)
        __asm__ __volatile__(""); // any moment of a crossing, be it but nanoseconds long
    assert_int_equal(kill(storm->pids[victim], SIGKILL), 0);
    assert_int_equal(waitpid(storm->pids[victim], NULL, 0), storm->pids[victim]);
    storm->pids[victim] = 0;
    barrier_depart(&storm->shared->barrier, victim);
}

// Replaces some of the dead as a supervisor does: when all others stand, and going on before the newcomers are there.
// Returns how many it has replaced.
static uint32_t storm_revive_some(Storm *storm) {
    Barrier *barrier = &storm->shared->barrier;
    uint32_t revived = 0;
    while (!barrier_others_arrived(barrier, storm->ranks))
        ;
    uint32_t so_far = crossings_so_far(barrier);
    for (uint32_t rank = 0; rank < storm->ranks; rank++) {
        if (storm->pids[rank] || random_below(2, &storm->draws)) continue;
        atomic_store(&storm->shared->crossings[rank].entered, so_far); // a newcomer does not owe what it has missed
        atomic_store(&storm->shared->crossings[rank].left, so_far);
        barrier_revive(barrier, rank);
        storm_start(storm, rank);
        revived++;
    }
    storm_arrive_as_supervisor(storm);
    return revived;
}

// Up to `kills` kills in a new group of 2 to 16 ranks; at least one survives. Returns how many they were.
static uint32_t storm_group(bool supervisor_takes_part, uint32_t kills, uint32_t *draws) {
    enum { SPINS_BELOW = 500 };
    uint32_t ranks = 2 + random_below(RANKS_MAX - 2, draws);
    uint32_t spins = random_below(2, draws) ? random_below(SPINS_BELOW, draws) : 0;
    Storm storm = {.shared = shared_new(ranks + supervisor_takes_part, spins),
                   .ranks = ranks,
                   .supervisor_takes_part = supervisor_takes_part,
                   .draws = *draws};
    for (uint32_t rank = 0; rank < ranks; rank++)
        storm_start(&storm, rank);
    await_two_crossings_by_everyone(&storm);
    uint32_t alive = ranks, done = 0;
    for (; done < kills && alive > 1; done++, alive--) {
        storm_kill_one(&storm);
        if (supervisor_takes_part) alive += storm_revive_some(&storm);
        await_two_crossings_by_everyone(&storm);
        if (supervisor_takes_part && done == 2 * ranks) break; // revival would never let it end
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (!storm.pids[rank]) continue;
        kill(storm.pids[rank], SIGKILL);
        waitpid(storm.pids[rank], NULL, 0);
    }
    assert_int_equal(atomic_load(&storm.shared->violations), 0);
    munmap(storm.shared, sizeof *storm.shared);
    *draws = storm.draws;
    return done;
}

static void storm_of_kills(bool supervisor_takes_part) {
    enum { STANDARD_KILLS = 300 };
    const char *text = getenv("SOUNDER_KILLS");
    uint32_t wanted = text ? (uint32_t)atoi(text) : STANDARD_KILLS;
    uint32_t kills = 0, draws = 0;
    while (kills < wanted)
        kills += storm_group(supervisor_takes_part, wanted - kills, &draws);
    print_message("%u kills\n", kills);
}

static void survivors_cross_twice_after_every_kill(void **state) {
    (void)state;
    storm_of_kills(false);
}

static void survivors_and_the_revived_cross_twice_after_every_kill(void **state) {
    (void)state;
    storm_of_kills(true);
}

static pid_t fork_waiter(Shared *shared, uint32_t rank, int parent, uint64_t deadline_nanoseconds) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    deadline_join();
    Status status = barrier_wait(&shared->barrier, rank, parent, deadline_nanoseconds);
    atomic_store(&shared->statuses[rank], status + 1);
    _exit(0);
}

static void a_cancellation_ends_present_and_future_waits(void **state) {
    (void)state;
    enum { RANKS = 4 };
    for (uint32_t trial = 0; trial < 50; trial++) {
        Shared *shared = shared_new(RANKS, trial % 2 ? 100 : 0);
        pid_t pids[RANKS];
        for (uint32_t rank = 0; rank < 2; rank++)
            pids[rank] = fork_waiter(shared, rank, 0, 0);
        sleep_microseconds(40 * trial); // before, while and after they fall asleep
        barrier_cancel(&shared->barrier);
        for (uint32_t rank = 2; rank < RANKS; rank++)
            pids[rank] = fork_waiter(shared, rank, 0, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_exits_with_zero(pids[rank]);
            assert_int_equal(atomic_load(&shared->statuses[rank]), STATUS_CANCELLED + 1);
        }
        barrier_init(&shared->barrier, 1, 0);
        assert_int_equal(barrier_wait(&shared->barrier, 0, 0, 0), STATUS_OK);
        munmap(shared, sizeof *shared);
    }
}

static void a_deadline_ends_the_wait_but_not_the_arrival(void **state) {
    (void)state;
    Shared *shared = shared_new(2, 0);
    uint64_t start = clock_nanoseconds();
    assert_int_equal(barrier_wait(&shared->barrier, 0, 0, start + 30000000), STATUS_TIMEOUT);
    assert_true(clock_nanoseconds() - start >= 30000000);
    assert_true(barrier_has_arrived(&shared->barrier, 0));
    assert_false(barrier_has_arrived(&shared->barrier, 1));
    assert_int_equal(barrier_wait(&shared->barrier, 1, 0, start), STATUS_OK); // it is the last: nothing to wait for
    assert_int_equal(barrier_sleep(&shared->barrier, 0, 0, start), STATUS_OK);
    munmap(shared, sizeof *shared);
}

static void a_rank_whose_parent_is_gone_does_not_wait_for_ever(void **state) {
    (void)state;
    Shared *shared = shared_new(2, 0);
    pid_t pid = fork_waiter(shared, 0, getpid() + 1, 0); // somebody who is not its parent
    assert_exits_with_zero(pid);
    assert_int_equal(atomic_load(&shared->statuses[0]), STATUS_PEER_DIED + 1);
    munmap(shared, sizeof *shared);
}

static void the_last_arrival_never_blocks(void **state) {
    (void)state;
    enum { WORKERS = BARRIER_MAX_RANKS - 1 };
    Shared *shared = shared_new(WORKERS + 1, 0);
    Barrier *barrier = &shared->barrier;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t rank = 0; rank < WORKERS; rank++) {
            assert_false(barrier_others_arrived(barrier, WORKERS));
            assert_int_equal(barrier_arrive(barrier, rank), 2 * round);
        }
        assert_true(barrier_others_arrived(barrier, WORKERS));
        assert_int_equal(barrier_arrive(barrier, WORKERS), 2 * round);
        assert_int_equal(crossings_so_far(barrier), round + 1);
    }
    munmap(shared, sizeof *shared);
}

static void a_revived_rank_is_waited_for_again(void **state) {
    (void)state;
    Shared *shared = shared_new(3, 0);
    Barrier *barrier = &shared->barrier;
    barrier_arrive(barrier, 0);
    barrier_arrive(barrier, 1); // and dies
    barrier_depart(barrier, 1);
    assert_true(barrier_others_arrived(barrier, 2));
    barrier_revive(barrier, 1);
    assert_false(barrier_others_arrived(barrier, 2));
    barrier_arrive(barrier, 2); // the supervisor lets go, but the newcomer is not there yet
    assert_int_equal(crossings_so_far(barrier), 0);
    barrier_arrive(barrier, 1);
    assert_int_equal(crossings_so_far(barrier), 1);
    // While the supervisor itself still stands there, the question is not about the generation that is ending.
    barrier_arrive(barrier, 2);
    barrier_arrive(barrier, 0);
    assert_false(barrier_others_arrived(barrier, 2));
    munmap(shared, sizeof *shared);
}

int main(int argc, char **argv) {
    deadline_set(560);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_leaves_before_all_have_entered),
        cmocka_unit_test(generations_wrap_around),
        cmocka_unit_test(survivors_cross_twice_after_every_kill),
        cmocka_unit_test(survivors_and_the_revived_cross_twice_after_every_kill),
        cmocka_unit_test(a_cancellation_ends_present_and_future_waits),
        cmocka_unit_test(a_deadline_ends_the_wait_but_not_the_arrival),
        cmocka_unit_test(a_rank_whose_parent_is_gone_does_not_wait_for_ever),
        cmocka_unit_test(the_last_arrival_never_blocks),
        cmocka_unit_test(a_revived_rank_is_waited_for_again),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
