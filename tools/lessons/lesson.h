// What the lessons share: ranks as lesson 1 starts them, and an end with one sentence when a call fails.
//
//   static void work(int rank, int size, void *shared) { ... }
//   pid_t pids[4];
//   start_ranks(pids, 4, work, shared);
//   join_ranks(pids, 4);
#ifndef SOUNDER_TOOLS_LESSONS_LESSON_H
#define SOUNDER_TOOLS_LESSONS_LESSON_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

// Ends the process with the sentence of a failure.
static inline void must(Status status, const Error *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "error: %s\n", err->message);
    exit(status_exit_code(status));
}

// Forks `size` ranks that run work(rank, size, shared) and end; memory of a shared segment stays shared.
static inline void start_ranks(pid_t pids[], int size, void (*work)(int rank, int size, void *shared), void *shared) {
    fflush(stdout); // or every rank would print what is still in the buffer, too
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0) exit(EX_OSERR);
        if (pids[rank] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL); // no rank outlives the lesson
        work(rank, size, shared);
        exit(EXIT_SUCCESS);
    }
}

// Waits for all ranks; ends with a code of its own if one of them failed.
static inline void join_ranks(const pid_t pids[], int size) {
    for (int rank = 0; rank < size; rank++) {
        int status = 0;
        if (waitpid(pids[rank], &status, 0) < 0 || status != 0) exit(EX_SOFTWARE);
    }
}

#endif
