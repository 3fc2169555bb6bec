// Lesson 1. Ranks.
//
// A rank is a process that knows its number and how many there are. fork makes a copy of this process: from there on
// each continues alone, with its own memory. The process that starts another one has to wait for it: so it learns that
// the rank has ended, and how. Rank 3 dies in the middle of its work, as processes do.
//
//   parent   its memory: pids, stdout's buffer
//   rank 0   a copy of it: its own buffer ─▶ written when main returns
//   rank 3   a copy of it: its own buffer    lost with the process, but for what fflush has written
//            All write to the same open file, which fork does not copy.
//
// Question: which of the eight lines are missing if the fflush is taken out? Guess, then look:
//   cc -O2 -o lesson 01_ranks.c && ./lesson | cat
// Build: cc -O2 -o lesson 01_ranks.c
// Run: ./lesson
// Prints, in any order:
//   I am rank 0 of 4
//   I am rank 1 of 4
//   I am rank 2 of 4
//   I am rank 3 of 4
//   rank 0 ended with code 0
//   rank 1 ended with code 10
//   rank 2 ended with code 20
//   rank 3 was killed by signal 9
// Change: "fflush(stdout);" -> "": lacks I am rank 3 of 4
// Change: "return work(rank, RANKS);" -> "work(rank, RANKS);": prints rank 1 ended with code 0
// Read: shm/spawn.c, where it calls PR_SET_PDEATHSIG. Why does the new process then ask for its parent's number?
// shm/supervisor.h: the parent polls a descriptor of each worker (a pidfd) instead of waiting in waitpid. Why?
// PyTorch: mp.spawn(run, nprocs=4) and p.join() in "Writing Distributed Applications".
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4 };

static int work(int rank, int size) {
    printf("I am rank %d of %d\n", rank, size);
    fflush(stdout); // what is still in the buffer dies with the process
    if (rank == 3) raise(SIGKILL);
    return 10 * rank;
}

int main(void) {
    pid_t pids[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork(); // returns twice: 0 in the copy, the copy's number here
        if (pids[rank] < 0) return EXIT_FAILURE;
        if (pids[rank] == 0) return work(rank, RANKS);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;
        if (waitpid(pids[rank], &status, 0) < 0) continue; // no child of this process (the second Change)
        if (WIFEXITED(status)) printf("rank %d ended with code %d\n", rank, WEXITSTATUS(status));
        if (WIFSIGNALED(status)) printf("rank %d was killed by signal %d\n", rank, WTERMSIG(status));
    }
    return EXIT_SUCCESS;
}
