#include "shm/bell.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LISTENERS = 1 };

uint32_t bell_listen(Bell *bell) {
    assert((uintptr_t)bell % _Alignof(Bell) == 0);
    const uint32_t heard = atomic_fetch_or(&bell->word, LISTENERS) | LISTENERS;
    atomic_thread_fence(memory_order_seq_cst); // pairs with the fence in bell_ring (Dekker)
    return heard;
}

void bell_wait(Bell *bell, uint32_t heard, uint64_t nanoseconds) {
    assert(heard & LISTENERS); // of bell_listen: without a listener no process would ring
    const struct timespec most = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
                                  .tv_nsec = (long)(nanoseconds % 1000000000u)};
    syscall(SYS_futex, &bell->word, FUTEX_WAIT, heard, &most, NULL, 0);
}

void bell_ring(Bell *bell) {
    atomic_thread_fence(memory_order_seq_cst); // pairs with the fence in bell_listen
    uint32_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);
    while (word & LISTENERS)
        if (atomic_compare_exchange_weak(&bell->word, &word, word + 1)) { // + 1 clears the listener bit and counts
            syscall(SYS_futex, &bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
            return;
        }
}
