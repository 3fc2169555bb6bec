// What the workers of a run are doing at this moment, from its control segment, to which live/control leads: the jobs
// of the phase under way, read-only, while workers take and finish them. It costs them nothing.
//
//   TopPhase phase = {.segment.fd = -1};
//   top_phase_read(&phase, "runs/a", parent_pid);    // again and again
//   top_phase_close(&phase);
#ifndef SOUNDER_APP_INSPECT_TOP_PHASE_H
#define SOUNDER_APP_INSPECT_TOP_PHASE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fedavg/memory/layout.h"
#include "shm/segment.h"

typedef struct TopPhase {
    Segment segment; // owned: the control segment, mapped while that process is the run's parent
    pid_t parent;    // whose it is; 0: nothing is mapped
    PhaseKind kind;  // PHASE_NONE also where nothing can be known
    uint32_t round;
    uint32_t jobs, done;          // of the phase
    uint32_t client[MAX_WORKERS]; // 1 + the client that a rank trains; 0: none
} TopPhase;

// path: the run's folder; parent: its process, 0 for none. A run of another program, whose segments may be laid out
// otherwise, is not looked into.
void top_phase_read(TopPhase *phase, const char *path, pid_t parent);
void top_phase_close(TopPhase *phase);

#endif
