// Reads what the workers of a run are doing now, from its control segment (found by the link live/control): the jobs of
// the current phase, read-only, while workers take and finish them. It costs the workers nothing.
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
    Segment segment; // owned: the control segment, mapped while `parent` is the run's parent
    pid_t parent;    // the process that owns the segment; 0: nothing is mapped
    PhaseKind kind;  // PHASE_NONE also if unknown
    uint32_t round;
    uint32_t jobs, done;          // jobs of the phase
    uint32_t client[MAX_WORKERS]; // 1 + the client that a rank is training; 0: none
} TopPhase;

// path: the run's folder; parent: its process, 0 if none. Runs of another build of the program are skipped: their
// segments may have another layout.
void top_phase_read(TopPhase *phase, const char *path, pid_t parent);
void top_phase_close(TopPhase *phase);

#endif
