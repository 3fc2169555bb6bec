// The runs of a sweep: what `sounder train` is told to begin each, or to go on with what an earlier sweep has left of
// it.
#ifndef SOUNDER_APP_INSPECT_SWEEP_JOBS_H
#define SOUNDER_APP_INSPECT_SWEEP_JOBS_H

#include <stdbool.h>
#include <sys/types.h>

#include "app/inspect/past_run.h"
#include "app/inspect/sweep_plan.h"

enum { JOB_FOLDER_BYTES = OPTION_TEXT_BYTES + SWEEP_NAME_BYTES + 32 };

typedef enum JobState { JOB_WAITS, JOB_RUNS, JOB_IS_DONE, JOB_HAS_FAILED, JOB_ELSEWHERE, JOB_LEFT } JobState;

// One run of the sweep.
typedef struct Job {
    char name[SWEEP_NAME_BYTES + 16], folder[JOB_FOLDER_BYTES];
    int rounds;                   // that the run is to have
    int aim;                      // after which it ends for now: as many, or fewer of a rung
    char **arguments;             // owned, and so are its texts: of `sounder train`, to begin or to go on
    int width;                    // cores that it takes
    char data[OPTION_TEXT_BYTES]; // --data, and the seed of what is made up
    uint64_t seed;
    bool is_personal; // its figure is of the clients' own models
    JobState state;
    pid_t pid;
    int stderr_fd;  // owned while it runs: what it says
    int code;       // its exit code, when it has failed
    bool is_again;  // it has been refused once, since another process had it, and was looked at again
    bool is_beside; // other runs were running at the same time, for some while
} Job;

int job_argument_count(const Job *job);

// Has the job train until so many rounds are done, and no further; the schedules of the run stay those of its own
// --rounds. It waits, or is done already.
Status sweep_job_aim(Job *job, int rounds, Error *err);

// *jobs: (plan->count) of them, for sweep_jobs_free, also on failure. out: the folder of the sweep. USAGE for a point
// that train would refuse, and for a folder whose run has other options. Starts nothing.
Status sweep_jobs_make(Job **jobs, const SweepPlan *plan, const char *out, int cores, Error *err);
void sweep_jobs_free(Job *jobs, size_t count);

// USAGE, NOINPUT or DATA where the data set of a job that waits is not there: said once, before anything starts.
Status sweep_jobs_find_data(const Job *jobs, size_t count, Error *err);

// Looks at a run that another process has, or had, and returns JOB_ELSEWHERE (it trains), JOB_IS_DONE, JOB_WAITS (it
// was left, and this job continues it), or JOB_HAS_FAILED: there is no such run, or it has other options.
JobState sweep_job_look(Job *job);

// Makes the jobs and runs them, as many side by side as cores allow, telling on stdout how they end; a dry run tells
// the commands. tells_means: a table of means at the end. *exit_code: of the first that failed, or 128 and the signal
// that ended it all, or EX_TEMPFAIL where another process still trains some of the runs; otherwise as it was.
// options->out "": a folder with the time for a name.
Status sweep_run(const SweepPlan *plan, const LookOptions *options, bool tells_means, int *exit_code, Error *err);

#endif
