// The calls of ranks whose group is one of the installed library (shm/group), read from their shared memory.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_CALLS_H
#define SOUNDER_APP_LAUNCH_LAUNCH_CALLS_H

#include "launch_rank.h"
#include "shm/group/group_call.h"

// The call in which some ranks wait, and the ranks that have not made it.
typedef struct CallsMissed {
    bool behind[LAUNCH_MAX_RANKS]; // by local rank
    unsigned long long sequence;
    char call[GROUP_CALL_TEXT_BYTES]; // "all_reduce of 10 f32 (sum)"
} CallsMissed;

// False if no rank's descriptor leads to a group of exactly these processes, or if all ranks are in one call. pids
// (count): of the processes.
bool calls_missed(CallsMissed *missed, const pid_t *pids, int count);

#endif
