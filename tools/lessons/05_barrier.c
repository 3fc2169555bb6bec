// Lesson 5. A barrier, and what happens when a rank is killed before it.
//
// At a barrier everybody waits until everybody is there. pthread_barrier_t counts arrivals: a rank that was killed will
// never be counted, and the others wait for ever. In Sounder's barrier each rank has a slot of its own, and somebody
// who knows (here: the parent, who was told by waitpid) may say that a rank has departed. The others then go on.
//
// PyTorch: dist.barrier(); over NCCL, who waits there for a dead rank waits until the timeout.
//
// Run: build/lessons/05_barrier
// Prints, in any order:
//   pthread_barrier_t: rank 0 still waits
//   pthread_barrier_t: rank 1 still waits
//   Barrier: rank 0 went on
//   Barrier: rank 1 went on
#include <pthread.h>
#include <stdio.h>

#include "lesson.h"
#include "shm/barrier.h"
#include "shm/segment.h"

enum { RANKS = 3, VICTIM = RANKS - 1 };

typedef struct Shared {
    pthread_barrier_t theirs;
    Barrier ours;
} Shared;

static void wait_for_theirs(int rank, int size, void *memory) {
    (void)size;
    if (rank == VICTIM) raise(SIGKILL);
    pthread_barrier_wait(&((Shared *)memory)->theirs);
    printf("pthread_barrier_t: rank %d went on\n", rank);
}

static void wait_for_ours(int rank, int size, void *memory) {
    (void)size;
    if (rank == VICTIM) raise(SIGKILL);
    barrier_wait(&((Shared *)memory)->ours, (uint32_t)rank, 0, 0);
    printf("Barrier: rank %d went on\n", rank);
}

int main(void) {
    Error err;
    Segment segment;
    must(segment_create(&segment, "barriers", sizeof(Shared), &err), &err);
    Shared *shared = segment.memory;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->theirs, &attributes, RANKS);
    barrier_init(&shared->ours, RANKS, 0);

    pid_t pids[RANKS];
    start_ranks(pids, RANKS, wait_for_theirs, shared);
    waitpid(pids[VICTIM], NULL, 0);
    usleep(300000); // a long time for a barrier, and no time would be long enough
    for (int rank = 0; rank < VICTIM; rank++) {
        if (waitpid(pids[rank], NULL, WNOHANG) == 0) printf("pthread_barrier_t: rank %d still waits\n", rank);
        kill(pids[rank], SIGKILL);
        waitpid(pids[rank], NULL, 0);
    }

    start_ranks(pids, RANKS, wait_for_ours, shared);
    waitpid(pids[VICTIM], NULL, 0); // it is dead for certain ...
    barrier_depart(&shared->ours, VICTIM);
    join_ranks(pids, VICTIM); // ... and the others end by themselves
    segment_free(&segment);
    return 0;
}
