// The runs of a sweep, with the arguments of `sounder train` that begin each run, or continue what an earlier sweep
// left.
#ifndef SOUNDER_APP_LOOK_SWEEP_JOBS_H
#define SOUNDER_APP_LOOK_SWEEP_JOBS_H

#include <stdbool.h>
#include <sys/types.h>

#include "app/look/past_run.h"
#include "app/look/sweep_plan.h"

enum {
    JOB_FOLDER_BYTES = OPTION_TEXT_BYTES + SWEEP_NAME_BYTES + 32,
    SWEEP_MOST_ON_GPU = 2, // runs side by side, unless --parallel says otherwise
};

typedef enum JobState { JOB_WAITS, JOB_RUNS, JOB_IS_DONE, JOB_HAS_FAILED, JOB_ELSEWHERE, JOB_LEFT } JobState;

// Where it trains. A run that may use a GPU decides that itself, and notes it when it begins.
typedef enum JobPlace { JOB_ON_CPU, JOB_SOMEWHERE, JOB_ON_GPU } JobPlace;

// One run of the sweep.
typedef struct Job {
    char name[SWEEP_NAME_BYTES + 16], folder[JOB_FOLDER_BYTES];
    int rounds;       // rounds of the whole run
    int aim;          // rounds after which it ends for now: all, or fewer on a rung
    char **arguments; // owned, with its texts: arguments of `sounder train` that begin or resume the run
    int cores;        // from which its workers follow on the CPU; 0: all
    int width;        // cores that it uses
    JobPlace place;
    char began[32]; // time at which an earlier process of the run began, as its record says; empty: none did
    char data[OPTION_TEXT_BYTES]; // --data, and the seed of made-up data
    uint64_t seed;
    uint64_t asks_own; // which question for a trainer's own samples it asks; 0: none
    RunFigure figure;  // that it is about, as far as options tell
    JobState state;
    pid_t pid;
    int stderr_fd;      // owned while it runs: read end of its stderr
    int code;           // exit code of a failed run
    bool has_new_goals; // it continues a run, with another target or patience
    bool is_again;      // another process had the run, so it was refused once and looked at again
    bool is_beside;     // other runs ran beside it for some time
    bool was_killed;    // by a signal of some other process, and was begun again since
} Job;

int job_argument_count(const Job *job);

// Aims the job at this number of rounds, while the schedules of the run stay those of its own
// --rounds. It waits, or is done already.
Status sweep_job_aim(Job *job, int rounds, Error *err);

// Makes *jobs (plan->count), which sweep_jobs_free frees, also on failure. out: the folder of the sweep. USAGE for a
// point that train would refuse, and for a folder whose run has other options, other inputs (app/train/run_inputs.h) or
// more rounds. Starts nothing.
Status sweep_jobs_make(Job **jobs, const SweepPlan *plan, const char *out, int cores, Error *err);
void sweep_jobs_free(Job *jobs, size_t count);

// USAGE, NOINPUT or DATA if the data set of a waiting job is missing: reported once, before anything starts.
Status sweep_jobs_find_data(const Job *jobs, size_t count, Error *err);

// Whether its folder has a run.
bool sweep_job_has_begun(const Job *job);

// Looks at a run that another process has, or had. Returns JOB_ELSEWHERE (it is training), JOB_IS_DONE, JOB_WAITS (it
// was left unfinished, and this job continues it), or JOB_HAS_FAILED (there is no such run, or it has other options).
JobState sweep_job_look(Job *job);

// Reads the record of a job's run if that is done; returns false, with nothing to free, if it is not.
bool sweep_job_read(PastRun *run, const Job *job);

// Reads from the record of a run that has been started where it trains, once the record has it. The first call belongs
// before the start: the record may still tell of an earlier process.
void sweep_job_begin(Job *job);
JobPlace sweep_job_place(Job *job);

// Makes the jobs and runs as many side by side as cores allow, on a GPU at most two; prints on stdout how they end. A
// dry run prints the commands. tells_means: prints a table of means at the end. *exit_code: of the first job that
// failed; 128 plus the signal that ended the sweep; or EX_TEMPFAIL if another process still trains some runs; otherwise
// unchanged. options->out "": a folder named after the time.
Status sweep_run(const SweepPlan *plan, const LookOptions *options, bool tells_means, int *exit_code, Error *err);

#endif
