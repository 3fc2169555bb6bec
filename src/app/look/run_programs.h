// Collects what a report says of the user's programs in a run: its trainers (--trainer) and its aggregator.
//
//   RunPrograms programs = {0};
//   programs_note(&programs, run, line);       // each client, round and trainer_fault line, in their order
//   programs_put(&details, &programs, run);
//   programs_free(&programs);
//
//   "trainer": {"command": "python3 trainer.py", "options": "temperature=0.1", "threads": 1,
//               "start": "fork", "asked": "fork",       start is null while the run has no summary
//               "repeats": true,                         null: not checked
//               "restarts": 2, "lost_seconds": 0.5,      the time of the turns that were lost
//               "outside": 0.02,                         share of the turns' time that was the worker's
//               "in_trainers": 0.9,                      share of the workers' time in rounds
//               "memory_bytes": 7000000,                 null: unknown
//               "faults": [{"round": 1, "client": 4, "rank": 0, "what": "...", "seconds": 0.2}, ...]}   the first 100
//   "aggregator": {"command": "...", "keeps": 2}
#ifndef SOUNDER_APP_LOOK_RUN_PROGRAMS_H
#define SOUNDER_APP_LOOK_RUN_PROGRAMS_H

#include "app/look/past_run.h"
#include "io/json.h"

typedef struct RunPrograms {
    json_t *faults;                       // owned; NULL: none
    double lost_seconds;                  // of turns with a fault
    double turn_seconds, trainer_seconds; // of all turns that count; their part in trainers
    double worker_seconds;                // of all rounds without tests, times workers
} RunPrograms;

// Returns false if memory runs out.
bool programs_note(RunPrograms *programs, const PastRun *run, json_t *line);

// Adds "trainer" and "aggregator", each only if the run has one.
void programs_put(JsonObject *details, const RunPrograms *programs, const PastRun *run);

void programs_free(RunPrograms *programs);

#endif
