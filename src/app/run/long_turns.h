// Longer turns on a core that has to be shared.
//
// Of several workers on one core, each finds the core's caches full of another's data whenever its turn comes, and
// computes the slower the oftener they change places: by 5% with four lenet workers on a core and turns of 3 ms.
#ifndef SOUNDER_APP_RUN_LONG_TURNS_H
#define SOUNDER_APP_RUN_LONG_TURNS_H

enum { LONG_TURN_MILLISECONDS = 30 };

// Asks the scheduler for turns of that length for this process. Policy, priority and share of the core stay as they
// are. Linux 6.12 and later grant it (sched_setattr(2)); elsewhere, or under another policy than the usual, nothing
// changes.
void long_turns_request(void);

#endif
