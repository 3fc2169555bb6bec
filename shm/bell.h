// A bell in shared memory: a process sleeps until other processes have stored what it waits for, which may be any
// condition. Plain data, initially zero; any number of processes may listen and ring.
//
//   while (!is_there(...)) {
//       uint32_t heard = bell_listen(bell);
//       if (!is_there(...)) bell_wait(bell, heard, nanoseconds);
//   }
//
//   store(...);        // with any memory order
//   bell_ring(bell);   // costs a fence, and a system call only if a process listens
//
// No ring is lost: either the ringing process sees the listener, or the listener sees what was stored. A process may
// die at any point: a dead listener costs one needless system call; a dead process may have stored without ringing, and
// then the supervisor rings in its place. bell_wait also ends by itself, after which the caller checks its condition
// again.
#ifndef SOUNDER_SHM_BELL_H
#define SOUNDER_SHM_BELL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct Bell {
    _Alignas(64) _Atomic uint32_t word; // a futex: bit 0 says that a process listens, the other bits count rings
} Bell;

// Announces a listener and returns the bell's current state. Check the condition once more before you sleep.
uint32_t bell_listen(Bell *bell);

static const uint64_t bell_slice_nanoseconds = 500000000; // a process that waits without a limit checks this often

// Sleeps until the bell has rung since `heard`, at most `nanoseconds`.
void bell_wait(Bell *bell, uint32_t heard, uint64_t nanoseconds);

void bell_ring(Bell *bell);

#endif
