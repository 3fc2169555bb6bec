// A bell in shared memory: a process sleeps until others have brought about what it waits for, which may be anything
// that they store. Plain data, zero at the beginning; any number of processes listen and ring.
//
//   while (!is_there(...)) {
//       uint32_t heard = bell_listen(bell);
//       if (!is_there(...)) bell_wait(bell, heard, nanoseconds);
//   }
//
//   store(...);        // of any memory order
//   bell_ring(bell);   // costs a fence, and a call of the kernel only where somebody sleeps
//
// Nothing is lost: either the ringer sees that somebody listens, or the listener sees what was stored. A process may
// die anywhere: a dead listener costs one call more; a dead ringer may not have rung, which the supervisor does in its
// place. And bell_wait ends by itself, so that its caller looks again.
#ifndef SOUNDER_SHM_BELL_H
#define SOUNDER_SHM_BELL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct Bell {
    _Alignas(64) _Atomic uint32_t word; // a futex: bit 0 says "somebody listens", the rest counts
} Bell;

// What has been heard so far. Look once more at what is waited for before you sleep.
uint32_t bell_listen(Bell *bell);

static const uint64_t bell_slice_nanoseconds = 500000000; // a process that waits without a limit looks again so often

// Sleeps until the bell has rung since `heard`, at most so long.
void bell_wait(Bell *bell, uint32_t heard, uint64_t nanoseconds);

void bell_ring(Bell *bell);

#endif
