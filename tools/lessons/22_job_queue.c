// Lesson 22. A queue of jobs whose workers are killed.
//
// A hundred jobs, four workers. A worker takes a free job by one exchange (lesson 6): from then on the job says who has
// it. It writes the result into the job's own place and then marks the job as done. Seven workers are killed between
// the two. The parent learns of each death from waitpid, makes the dead worker's job free again, and starts another
// worker.
//
//   job    free ──take──▶ rank 2 ──▶ done           the parent alone goes back: rank 2 is dead ──▶ free
//
// So a job may be computed twice. That does no harm: the second result overwrites the first with the same number.
//
// Question: which of the jobs come out wrong if a worker adds to the result instead of storing it? (The first Change.)
// Build: cc -O2 -o lesson 22_job_queue.c
// Run: ./lesson
// Prints:
//   100 of 100 jobs are right, 7 workers were killed
// Change: "shared->results[job] = job * job" -> "shared->results[job] += job * job":
//   prints 93 of 100 jobs are right, 7 workers were killed
// Change: "rank + 1, FREE" -> "rank + 1, rank + 1": prints 93 of 100 jobs are right, 7 workers were killed
// Read: fedavg/memory/queue.h: what does a job say besides who has it, and why? fedavg/README.md: how can the same
// bits come out although chance decides which worker trains which client?
// PyTorch: a multiprocessing.Pool hangs if one of its workers is killed; torchrun starts all ranks again from a
// checkpoint.
#include <stdatomic.h>
#include <stdio.h>

#include "ranks.h"

enum { JOBS = 100, WORKERS = 4, FREE = 0, DONE = -1 };

typedef struct Shared {
    _Atomic int jobs[JOBS]; // FREE, DONE, or the number of a worker + 1
    int results[JOBS], tries[JOBS];
} Shared;

static int take_job(Shared *shared, int rank) {
    for (int job = 0; job < JOBS; job++) {
        int state = FREE;
        if (atomic_compare_exchange_strong(&shared->jobs[job], &state, rank + 1)) return job;
    }
    return -1;
}

static void work(Shared *shared, int rank) {
    for (int job; (job = take_job(shared, rank)) >= 0;) {
        shared->results[job] = job * job;
        if (job % 14 == 13 && shared->tries[job]++ == 0) raise(SIGKILL);
        atomic_store_explicit(&shared->jobs[job], DONE, memory_order_release);
    }
}

static pid_t start(Shared *shared, int rank) {
    const pid_t pid = fork_rank();
    if (pid != 0) return pid;
    work(shared, rank);
    _exit(0);
}

static void give_back(Shared *shared, int from, int to) {
    for (int job = 0; job < JOBS; job++) {
        int state = from;
        atomic_compare_exchange_strong(&shared->jobs[job], &state, to);
    }
}

int main(void) {
    Shared *shared = share(sizeof *shared);
    pid_t pids[WORKERS];
    for (int rank = 0; rank < WORKERS; rank++)
        pids[rank] = start(shared, rank);
    int killed = 0, right = 0, status;
    for (pid_t pid; (pid = wait(&status)) > 0;) {
        int rank = 0;
        while (pids[rank] != pid)
            rank++;
        if (!WIFSIGNALED(status)) continue;
        killed++;
        give_back(shared, rank + 1, FREE);
        pids[rank] = start(shared, rank); // may find the job, and do it at once
    }
    for (int job = 0; job < JOBS; job++)
        right += atomic_load(&shared->jobs[job]) == DONE && shared->results[job] == job * job;
    printf("%d of %d jobs are right, %d workers were killed\n", right, JOBS, killed);
    return 0;
}
