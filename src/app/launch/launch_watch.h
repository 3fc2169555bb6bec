// `sounder launch --watch SECONDS`: which rank holds up the others. A rank is still if its processes have neither
// computed (2% of a core) nor read or written (4 KiB) in that time. The waits of the still ranks decide which rank is
// named:
//
//   1. a rank of a group (shm/group) that has not made the call in which others wait
//   2. a still rank that waits for no other: it sleeps, is stopped, or reads a file or pipe
//   3. the ranks that compute, if the still ones wait for others
//   4. the rank that waits elsewhere than most others
//   5. all ranks
//
//   LaunchWatch *watch = launch_watch_new(ranks, count, seconds, say, context);
//   each turn: poll launch_watch_poll(watch) for launch_watch_timeout(watch) at most; launch_watch_look(watch);
//   launch_watch_free(watch);
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_WATCH_H
#define SOUNDER_APP_LAUNCH_LAUNCH_WATCH_H

#include <poll.h>

#include "launch_rank.h"

typedef struct LaunchWatch LaunchWatch;

// ranks (count): borrowed. say: prints a line of the launcher's. NULL: no memory.
LaunchWatch *launch_watch_new(const Rank *ranks, int count, double seconds,
                              void (*say)(void *context, const char *line), void *context);
void launch_watch_free(LaunchWatch *watch);

// New processes have been started for all ranks.
void launch_watch_begin(LaunchWatch *watch);

// The debugger's process descriptor; fd -1 while none runs.
struct pollfd launch_watch_poll(const LaunchWatch *watch);
int launch_watch_timeout(const LaunchWatch *watch); // milliseconds until the next look

// Looks at the ranks, if it is time, and says what it finds: once for a standstill, and again after twice the time.
void launch_watch_look(LaunchWatch *watch);

#endif
