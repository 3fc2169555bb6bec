// Collects the data of one run for a report: rounds, clients, evaluations and data, as JSON for the page
// (page/report.js).
//
//   {"path": "runs/a", "state": "finished", "group": "alpha 0.1", "target": 0.8,
//    "rounds": {...}, "waits": [...], "staleness": [...],                  app/look/run_rounds.h
//    "clients": {"client": [...], "samples": [...], "loss": [...], "times": [...]},
//    "fairness": [{"model": "global", "round": 10, "mean": ..., "worst": ..., "best": ..., "jain": ...,
//                  "accuracies": [...]}],
//    "classes": {"clients": [0, 8, ...], "counts": [[...], ...], "of": 1000, ...} or {"why": "..."},
//    "trainer": {...}, "aggregator": {...},                                app/look/run_programs.h
//    "confusion": [[...], ...], "evaluate": "sounder eval runs/a ...",
//    "repeat": "sounder train ...", "facts": "...", "config": "..."}
#ifndef SOUNDER_APP_LOOK_RUN_DETAILS_H
#define SOUNDER_APP_LOOK_RUN_DETAILS_H

#include "app/look/run_rounds.h"
#include "io/json.h"

enum { MOST_CLASSES = 256 }; // most classes that are drawn

// Begins *details, which is dropped on failure. group: name of the runs that differ only in the seed.
Status run_details_read(JsonObject *details, const PastRun *run, const char *group, const RoundChoice *choice,
                        Error *err);

// Adds "classes", "evaluate", "repeat", "facts" and "config" (run_origin.c).
void run_details_put_origin(JsonObject *details, const PastRun *run);

#endif
