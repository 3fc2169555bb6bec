// A barrier for processes, any of which may be killed at any instruction without hanging the others.
//
//   every rank:   Status s = barrier_wait(&b, rank, parent, deadline);
//   supervisor:   barrier_depart(&b, rank);   // only after the rank is proven dead (its pidfd is readable)
//
// How it works. Each rank owns a slot and stores there the generation it has arrived for: an idempotent store, never a
// counter, so there is nothing a death can leave half done. Whoever finds that every rank is there (or gone) moves the
// generation on with one compare-and-swap. The generation word is a futex; bit 0 says "somebody sleeps". A rank may die
// between moving the generation on and waking the sleepers, therefore barrier_depart always wakes.
// Only the supervisor changes membership, and a supervisor that is itself a participant knows that membership is frozen
// between two of its arrivals: that is when it may revive a rank. Such a supervisor must be the last rank
// (ranks - 1), because the scan for arrivals begins there.
//
// Lives in shared memory, holds no pointers. Everything is seq_cst where an arrival must be seen by the others'
// scan (Dekker: each stores its own slot, then reads all others); barrier.c explains every order. Checked by
// tests/shm/barrier_model.c (every interleaving), tests/shm/barrier_step.c (a kill at every instruction) and
// tests/shm/test_barrier.c.
#ifndef SOUNDER_SHM_BARRIER_H
#define SOUNDER_SHM_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { BARRIER_MAX_RANKS = 257 }; // 256 workers and the parent

typedef struct BarrierSlot {
    _Alignas(64) _Atomic uint32_t arrived; // generation this rank waits to see, the present one + 2; its own to write
    _Atomic uint32_t gone;                 // 1: not a member; written by the supervisor alone
} BarrierSlot;

typedef struct Barrier {
    _Alignas(64) _Atomic uint32_t generation; // even, + 1 while somebody sleeps: the futex word
    _Atomic uint32_t cancelled;               // written by the supervisor alone
    uint32_t ranks;
    uint32_t spins; // polls before sleeping; 0 when there are more ranks than cores
    BarrierSlot slots[BARRIER_MAX_RANKS];
} Barrier;

// ranks participants, none gone; spins as above. Not while anybody waits.
void barrier_init(Barrier *barrier, uint32_t ranks, uint32_t spins);

// Arrives and waits for the others. CANCELLED after barrier_cancel; PEER_DIED when `parent` (0: do not check) is no
// longer this process's parent; TIMEOUT at deadline_nanoseconds (clock_nanoseconds; 0: none), after which the rank
// still counts as arrived.
Status barrier_wait(Barrier *barrier, uint32_t rank, int parent, uint64_t deadline_nanoseconds);

// The two halves of barrier_wait, for whoever has something to do in between: arrive stores the arrival and moves the
// generation on if it was the last (it never blocks) and returns the generation arrived in; sleep waits until that one
// is over.
uint32_t barrier_arrive(Barrier *barrier, uint32_t rank);
Status barrier_sleep(Barrier *barrier, uint32_t generation, int parent, uint64_t deadline_nanoseconds);

// For a supervisor that must not block: has every other member arrived for the present generation? others_arrived is
// false while this rank itself has arrived for it, since then it is the next generation that matters to it.
bool barrier_others_arrived(const Barrier *barrier, uint32_t rank);
bool barrier_has_arrived(const Barrier *barrier, uint32_t rank);

// Supervisor only. Depart: the rank is dead. Revive: a replacement will arrive for the present generation; legal only
// while the supervisor, itself a member, has not arrived. Cancel: every present and future wait ends with CANCELLED
// until the next barrier_init.
void barrier_depart(Barrier *barrier, uint32_t rank);
void barrier_revive(Barrier *barrier, uint32_t rank);
void barrier_cancel(Barrier *barrier);

// What a loop does that polls shared memory.

// Tells the core that this is a polling loop, so that it saves power and leaves its twin hyperthread the units.
static inline void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

#endif
