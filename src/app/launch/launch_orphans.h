// Orphans are processes that a rank has started and that outlive it.
//
// The launcher is a subreaper (prctl), so that such a process becomes its child, whatever process group it has made
// (GNU timeout makes one). It can then be signalled, ended and reaped; without that, a launcher that is PID 1 of a
// container would also collect zombies. A process with a session of its own is a daemon and stays. So does a child that
// the launcher had before it started ranks, as after `exec sounder launch` in a script.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_ORPHANS_H
#define SOUNDER_APP_LAUNCH_LAUNCH_ORPHANS_H

#include <stddef.h>
#include <sys/types.h>

#include "launch_proc.h"
#include "launch_rank.h"

typedef struct Orphans {
    ProcessList strangers; // children of the launcher that no rank has started
    ProcessList asked;     // orphans that were asked to end in this attempt
} Orphans;

// Call it before the first rank starts. If the kernel has no subreapers, no orphan is ever found.
void orphans_init(Orphans *orphans);
void orphans_free(Orphans *orphans);

// The functions below do not count ranks (count) as orphans. A rank that is not reaped has its pidfd.

void orphans_reap(const Rank *ranks, int count); // dead orphans only

// Asks each orphan once to end, by the signal that the ranks got, except orphans in the process group of a living rank,
// which end with their rank. Returns the number of orphans. A child of an orphan becomes an orphan when its parent
// ends, and the next call asks it.
size_t orphans_ask(Orphans *orphans, int signal_number, const Rank *ranks, int count);

// Sends SIGKILL to all orphans and returns their number. Children of an orphan become orphans after it, as above.
size_t orphans_kill(const Orphans *orphans, const Rank *ranks, int count);

// Hands a batch system's warning (SIGUSR1, SIGUSR2) to the process if it listens, otherwise to its nearest listening
// descendants. A process that does not listen, such as a shell around the program, would die of the signal.
void family_warn(pid_t pid, int signal_number);

#endif
