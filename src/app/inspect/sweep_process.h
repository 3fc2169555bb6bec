// One run of a sweep as a process: `sounder train` in a fork of the sweep, with the data set that the sweep has loaded.
#ifndef SOUNDER_APP_INSPECT_SWEEP_PROCESS_H
#define SOUNDER_APP_INSPECT_SWEEP_PROCESS_H

#include <signal.h>

#include "app/inspect/sweep_jobs.h"
#include "app/train/ready_data.h"

enum { SWEEP_WORDS_BYTES = 4096 };

// All processes of a sweep begin with these; borrowed.
typedef struct SweepStart {
    const ReadyData *ready;
    const sigset_t *mask; // of signals, as it was before the sweep
    int signal_fd;        // the sweep's own, closed in the process
} SweepStart;

// Starts the job's run, quiet: job->pid, and job->stderr_fd for what it says. OS with nothing started where the system
// refuses a process or a descriptor.
Status sweep_process_start(Job *job, const SweepStart *start, Error *err);

// How the process that has ended (wait_status of waitpid) says why: by the last line of its stderr, without "sounder:
// error: ", or by the signal that killed it. kills: cgroup_memory_kills as the sweep began. text: (SWEEP_WORDS_BYTES)
// of the caller's.
const char *sweep_process_words(char *text, const Job *job, int wait_status, uint64_t kills);

#endif
