// A barrier for processes, any of which may be killed at any instruction without hanging the others.
//
//   every rank:   Status s = barrier_wait(&b, rank, parent, deadline);
//   supervisor:   barrier_depart(&b, rank);   // only after the rank is proven dead (its pidfd is readable)
//
// How it works. Each rank owns a slot and stores there the generation it has arrived for. The store is idempotent, not
// a counter, so a death cannot leave it half done. The rank that finds all ranks arrived or gone advances the
// generation with one compare-and-swap. The generation word is a futex; its bit 0 says that a rank sleeps. A rank may
// die between advancing the generation and waking the sleepers, therefore barrier_depart always wakes. Only the
// supervisor changes membership. A supervisor that takes part knows that membership does not change between two of its
// arrivals: that is when it may revive a rank. Such a supervisor must be the last rank (ranks - 1), because the scan
// for arrivals begins there.
//
// The barrier lives in shared memory and contains no pointers. All accesses are seq_cst where the scan of another rank
// must see an arrival (Dekker: each rank stores its own slot, then reads all others); barrier.c explains every order.
// Tests: tests/shm/barrier_model.c (every interleaving), tests/shm/barrier_step.c (a kill at every instruction) and
// tests/shm/test_barrier.c.
#ifndef SOUNDER_SHM_BARRIER_H
#define SOUNDER_SHM_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { BARRIER_MAX_RANKS = 257 }; // 256 workers and the parent

typedef struct BarrierSlot {
    _Alignas(64) _Atomic uint32_t arrived; // generation this rank waits to see, the current one + 2; its own to write
    _Atomic uint32_t gone;                 // 1: not a member; only the supervisor writes it
} BarrierSlot;

typedef struct Barrier {
    _Alignas(64) _Atomic uint32_t generation; // even, + 1 while a rank sleeps: the futex word
    _Atomic uint32_t cancelled;               // only the supervisor writes it
    uint32_t ranks;
    uint32_t spins; // polls before sleeping; 0 if there are more ranks than cores
    BarrierSlot slots[BARRIER_MAX_RANKS];
} Barrier;

// Prepares the barrier for `ranks` participants, none gone. Must not be called while a rank waits.
void barrier_init(Barrier *barrier, uint32_t ranks, uint32_t spins);

// Arrives and waits for the other ranks. CANCELLED after barrier_cancel; PEER_DIED if `parent` (0: not checked) is no
// longer this process's parent; TIMEOUT at deadline_nanoseconds (a time of clock_nanoseconds; 0: none), after which the
// rank still counts as arrived.
Status barrier_wait(Barrier *barrier, uint32_t rank, int parent, uint64_t deadline_nanoseconds);

// The two halves of barrier_wait, for callers that work in between. barrier_arrive stores the arrival, advances the
// generation if it was the last one (it never blocks) and returns the generation it has arrived in; barrier_sleep waits
// until that generation has ended.
uint32_t barrier_arrive(Barrier *barrier, uint32_t rank);
Status barrier_sleep(Barrier *barrier, uint32_t generation, int parent, uint64_t deadline_nanoseconds);

// For a supervisor that must not block: has every other member arrived for the current generation?
// barrier_others_arrived returns false while this rank itself has arrived for it, because the rank then waits for the
// arrivals of the next generation.
bool barrier_others_arrived(const Barrier *barrier, uint32_t rank);
bool barrier_has_arrived(const Barrier *barrier, uint32_t rank);

// Only for the supervisor. Depart: the rank is dead. Revive: a replacement will arrive for the current generation;
// allowed only while the supervisor, itself a member, has not arrived. Cancel: every current and later wait ends with
// CANCELLED until the next barrier_init.
void barrier_depart(Barrier *barrier, uint32_t rank);
void barrier_revive(Barrier *barrier, uint32_t rank);
void barrier_cancel(Barrier *barrier);

// For loops that poll shared memory.

// Tells the core that this is a polling loop, so that it saves power and leaves its execution units to the other
// hyperthread.
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
