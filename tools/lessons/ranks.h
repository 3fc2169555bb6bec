// Ranks as lesson 1 starts them, and memory as lesson 2 shares it, for the lessons after these. It needs libc alone.
//
//   static void work(int rank, int size, void *shared) { ... }
//   Shared *shared = share(sizeof *shared);
//   pid_t pids[4];
//   start_ranks(pids, 4, work, shared);
//   join_ranks(pids, 4);
#ifndef SOUNDER_TOOLS_LESSONS_RANKS_H
#define SOUNDER_TOOLS_LESSONS_RANKS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

enum { NOT_HERE = 77 }; // how a lesson ends that this machine cannot show

// Zeroed memory that is one and the same for this process and for those that it forks. It ends with the last of them.
static inline void *share(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) return memory;
    perror("mmap");
    exit(EX_OSERR);
}

// fork for one rank, which does not outlive the lesson: 0 in the rank, its pid in the lesson. A failure ends the
// lesson: for kill a pid of -1 means every process.
static inline pid_t fork_rank(void) {
    fflush(stdout); // or the rank would print what is still in the buffer, too
    const pid_t pid = fork();
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pid >= 0) return pid;
    perror("fork");
    exit(EX_OSERR);
}

// Forks `size` ranks that run work(rank, size, shared) and end.
static inline void start_ranks(pid_t pids[], int size, void (*work)(int rank, int size, void *shared), void *shared) {
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork_rank();
        if (pids[rank] > 0) continue;
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
