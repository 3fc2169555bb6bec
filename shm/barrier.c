#include "shm/barrier.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

// Memory orders. Every step that decides something is sequentially consistent: the stores of `arrived` and `gone`, the
// loads of the scan, and each load of the generation that a decision depends on. They have one total order, which is
// the assumption of tests/shm/barrier_model.c, and it guarantees two things:
//   - The author of the last store of `arrived` or `gone` sees all the other stores in its scan (Dekker). It opens the
//     barrier, or dies before that, and then the supervisor's barrier_depart opens it.
//   - The rank that opens has loaded every `arrived` (acquire, pairs with the store in barrier_arrive), and every rank
//     that crosses has loaded the generation (acquire, pairs with the compare-and-swap in open_if_complete). So all
//     writes of any rank before its arrival are visible to every rank that has crossed.
enum { SLEEPERS = 1, GENERATION_STEP = 2 };

static const uint64_t slice_nanoseconds = 500000000; // between two checks of the parent
static const uint64_t for_ever = UINT64_MAX;

static uint32_t generation_of(uint32_t word) {
    return word & ~(uint32_t)SLEEPERS;
}

static uint32_t present_generation(const Barrier *barrier) {
    return generation_of(atomic_load(&barrier->generation));
}

static void wake_sleepers(Barrier *barrier) {
    syscall(SYS_futex, &barrier->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// Advances the generation if every member has arrived for it. The scan runs from the last rank down, because a
// supervisor that takes part is the last rank: after its arrival was seen, no rank can be revived before the generation
// advances, so the flags that are read later can only change towards "gone". A scan in the other direction could pass a
// gone rank, miss its revival, then see the supervisor's arrival and open too early.
static void open_if_complete(Barrier *barrier, uint32_t generation) {
    assert(generation % GENERATION_STEP == 0);
    assert(barrier->ranks >= 1 && barrier->ranks <= BARRIER_MAX_RANKS);
    for (uint32_t rank = barrier->ranks; rank-- > 0;) {
        const BarrierSlot *slot = &barrier->slots[rank];
        if (!atomic_load(&slot->gone) && atomic_load(&slot->arrived) != generation + GENERATION_STEP) return;
    }
    uint32_t word = atomic_load(&barrier->generation);
    while (generation_of(word) == generation) {
        if (atomic_compare_exchange_weak(&barrier->generation, &word, generation + GENERATION_STEP)) {
            if (word & SLEEPERS) wake_sleepers(barrier);
            return;
        }
    }
}

void barrier_init(Barrier *barrier, uint32_t ranks, uint32_t spins) {
    assert(ranks >= 1 && ranks <= BARRIER_MAX_RANKS);
    assert((uintptr_t)barrier % _Alignof(Barrier) == 0);
    memset(barrier, 0, sizeof *barrier);
    barrier->ranks = ranks;
    barrier->spins = spins;
}

uint32_t barrier_arrive(Barrier *barrier, uint32_t rank) {
    assert(rank < barrier->ranks);
    assert(!atomic_load(&barrier->slots[rank].gone));  // the supervisor departs only the dead
    uint32_t generation = present_generation(barrier); // cannot advance before this rank, a member, has arrived
    atomic_store(&barrier->slots[rank].arrived, generation + GENERATION_STEP);
    open_if_complete(barrier, generation);
    return generation;
}

// Sleeps until a wake, or not at all if the word is no longer `expected`. Returns false if the time has run out.
static bool sleep_on(Barrier *barrier, uint32_t expected, uint64_t nanoseconds) {
    struct timespec timeout = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
                               .tv_nsec = (long)(nanoseconds % 1000000000u)}; // relative, on CLOCK_MONOTONIC
    return syscall(SYS_futex, &barrier->generation, FUTEX_WAIT, expected, nanoseconds == for_ever ? NULL : &timeout,
                   NULL, 0) == 0 ||
           errno != ETIMEDOUT;
}

// Polls `spins` times, then sleeps in the futex. A rank with a parent wakes after each slice to check whether the
// parent lives: if it was killed, no other process would wake the rank.
Status barrier_sleep(Barrier *barrier, uint32_t generation, int parent, uint64_t deadline_nanoseconds) {
    assert(generation % GENERATION_STEP == 0 && parent >= 0);
    for (uint32_t polls = 0;;) {
        // Acquire, pairs with the compare-and-swap in open_if_complete and the addition in barrier_cancel: a rank that
        // sees the word of a cancellation also sees `cancelled`, therefore `cancelled` itself may be relaxed.
        uint32_t word = atomic_load_explicit(&barrier->generation, memory_order_acquire);
        if (atomic_load_explicit(&barrier->cancelled, memory_order_relaxed)) return STATUS_CANCELLED;
        if (generation_of(word) != generation) return STATUS_OK;
        if (polls < barrier->spins) {
            polls++;
            pause_core();
            continue;
        }
        uint64_t nanoseconds = parent ? slice_nanoseconds : for_ever;
        if (deadline_nanoseconds) {
            uint64_t now = clock_nanoseconds();
            if (now >= deadline_nanoseconds) return STATUS_TIMEOUT;
            if (deadline_nanoseconds - now < nanoseconds) nanoseconds = deadline_nanoseconds - now;
        }
        // The opener replaces the whole word: either it sees the sleeper bit and wakes us, or we see its generation.
        if (!(word & SLEEPERS) && !atomic_compare_exchange_weak(&barrier->generation, &word, generation | SLEEPERS))
            continue;
        if (!sleep_on(barrier, generation | SLEEPERS, nanoseconds) && parent && getppid() != parent)
            return STATUS_PEER_DIED;
    }
}

Status barrier_wait(Barrier *barrier, uint32_t rank, int parent, uint64_t deadline_nanoseconds) {
    return barrier_sleep(barrier, barrier_arrive(barrier, rank), parent, deadline_nanoseconds);
}

bool barrier_has_arrived(const Barrier *barrier, uint32_t rank) {
    assert(rank < barrier->ranks);
    return atomic_load(&barrier->slots[rank].arrived) == present_generation(barrier) + GENERATION_STEP;
}

bool barrier_others_arrived(const Barrier *barrier, uint32_t rank) {
    assert(rank < barrier->ranks);
    uint32_t awaited = present_generation(barrier) + GENERATION_STEP;
    // If this rank has arrived, the generation is about to advance and says nothing about the next one.
    if (atomic_load(&barrier->slots[rank].arrived) == awaited) return false;
    for (uint32_t other = 0; other < barrier->ranks; other++) {
        const BarrierSlot *slot = &barrier->slots[other];
        if (other != rank && !atomic_load(&slot->gone) && atomic_load(&slot->arrived) != awaited) return false;
    }
    return true;
}

void barrier_depart(Barrier *barrier, uint32_t rank) {
    assert(rank < barrier->ranks);
    // Stored before the scan: all other ranks may be waiting only for this one.
    atomic_store(&barrier->slots[rank].gone, 1);
    open_if_complete(barrier, present_generation(barrier));
    wake_sleepers(barrier); // the rank may have died between advancing the generation and waking the sleepers
}

void barrier_revive(Barrier *barrier, uint32_t rank) {
    assert(rank < barrier->ranks && atomic_load(&barrier->slots[rank].gone));
    // The dead process may have arrived for the current generation; its replacement has not.
    atomic_store(&barrier->slots[rank].arrived, present_generation(barrier));
    atomic_store(&barrier->slots[rank].gone, 0);
}

void barrier_cancel(Barrier *barrier) {
    atomic_store(&barrier->cancelled, 1);
    // Advancing the word makes the kernel refuse the sleep of a rank that read `cancelled` just before the store.
    atomic_fetch_add(&barrier->generation, GENERATION_STEP);
    wake_sleepers(barrier);
}
