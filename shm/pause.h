// What a loop does that polls shared memory.
#ifndef SOUNDER_SHM_PAUSE_H
#define SOUNDER_SHM_PAUSE_H

#include <stdatomic.h>

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
