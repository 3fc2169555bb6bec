// The schedule of a run in which no client waits for all others (fedavg/rules/world/schedule.h), as SCHEDULE_FILE_NAME
// in its folder: a line of names and then one line per training, ordered by their begin.
//
//   job,client,visit,start,applied,fate,weight,trust,begin_microseconds,end_microseconds
//   0,7,0,0,2,arrives,0.25,0.57735026918962584,0,1203944
//
//   visit     earlier trainings of the client from this version; on the real clock, in the run
//   start     the version that it begins from: 0, 1, ...; round R begins from version R - 1
//   applied   the version whose weights its update changes, reported by round applied + 1; empty: none
//   fate      arrives, drops-out, or late: staler than max-staleness
//   weight    its share in its step; shares of a step sum to 1
//   trust     the factor that its staleness (applied - start) leaves
//
// Times are simulated, from the start of the run. The file is written when the workers are ready, and again at
// --resume.
#ifndef SOUNDER_APP_TRAIN_RUN_SCHEDULE_H
#define SOUNDER_APP_TRAIN_RUN_SCHEDULE_H

#include "base/err.h"
#include "fedavg/rules/world/schedule.h"
#include "io/durable.h"

#define SCHEDULE_FILE_NAME "schedule.csv"

// IO with the path; OS.
Status run_schedule_write(const Folder *folder, const Schedule *schedule, Error *err);

// Reads a recorded schedule for a run of this many versions: the jobs that begin in it and whose updates are applied
// (perhaps only in a longer run), ordered by their start version. DATA, with the line, for a file that is no schedule,
// or has other clients or fewer versions; NOINPUT. Nothing to free on failure.
Status run_schedule_read(Schedule *schedule, const char *path, uint32_t clients, uint32_t local_epochs,
                         uint32_t versions, Error *err);

#endif
