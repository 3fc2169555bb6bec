// Runs one job of a sweep as a process: `sounder train` in a fork, which shares the data set that the sweep has loaded.
#ifndef SOUNDER_APP_LOOK_SWEEP_PROCESS_H
#define SOUNDER_APP_LOOK_SWEEP_PROCESS_H

#include <signal.h>

#include "app/look/sweep_jobs.h"
#include "app/train/ready_data.h"

enum { SWEEP_WORDS_BYTES = 4096 };

// Given to every process of a sweep; borrowed.
typedef struct SweepStart {
    const ReadyData *ready;
    const sigset_t *mask; // signal mask from before the sweep
    int signal_fd;        // owned by the sweep; closed in the process
} SweepStart;

// Turns a forked process into one for a run, in a process group of its own, which a signal reaches once, through the
// sweep. Its output goes to stderr_fd alone. False: it may not begin.
bool sweep_process_begin(const SweepStart *start, int stderr_fd, pid_t parent);

// Starts the job's run, quiet; sets job->pid and job->stderr_fd, which reads its stderr. OS, with nothing started, if
// the system refuses a process or a descriptor.
Status sweep_process_start(Job *job, const SweepStart *start, Error *err);

// Prints what a run that has ended wrote to its stderr, each line with the name of the run, and closes that.
void sweep_process_tell(Job *job);

// Returns why the process ended (wait_status from waitpid): the last line of its stderr (a file, stderr_fd) without
// "sounder: error: ", or the signal that killed it. kills: value of cgroup_memory_kills when the sweep began. The
// caller owns text (SWEEP_WORDS_BYTES).
const char *sweep_process_words(char *text, int stderr_fd, int wait_status, uint64_t kills);

#endif
