// The schedule of a run in which no client waits for all others (fedavg/rules/world/schedule.h), as a file of its
// folder: SCHEDULE_FILE_NAME, a line of names and then one line per training, in the order in which they begin.
//
//   job,client,visit,start,applied,fate,weight,trust,begin_microseconds,end_microseconds
//   0,7,0,0,2,arrives,0.25,0.57735026918962584,0,1203944
//
//   visit     so many times the client has begun from this version before; on the real clock, in the run
//   start     the version that it begins from: 0, 1, ...; what round R trains begins from version R - 1
//   applied   the version whose weights its update moves, so that round applied + 1 reports it; empty: none's
//   fate      arrives, drops-out, or late: staler than max-staleness
//   weight    among the updates of its step, which sum to 1
//   trust     what its staleness (applied - start) leaves of that
//
// Times are simulated, since the run began. The file is written when the workers stand ready, and again at --resume.
#ifndef SOUNDER_APP_TRAIN_RUN_SCHEDULE_H
#define SOUNDER_APP_TRAIN_RUN_SCHEDULE_H

#include "base/err.h"
#include "fedavg/rules/world/schedule.h"
#include "io/durable.h"

#define SCHEDULE_FILE_NAME "schedule.csv"

// IO with the path; OS.
Status run_schedule_write(const Folder *folder, const Schedule *schedule, Error *err);

// A schedule that was recorded, for a run of so many versions: the jobs that begin in it and whose updates are applied,
// if only by a longer run, by the version they begin from. DATA, with the line, for what is no such file, has other
// clients or fewer versions; NOINPUT. Nothing to free on failure.
Status run_schedule_read(Schedule *schedule, const char *path, uint32_t clients, uint32_t local_epochs,
                         uint32_t versions, Error *err);

#endif
