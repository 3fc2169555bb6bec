// Lesson 2. A shared segment.
//
// An ordinary variable is copied by fork: what a rank writes, nobody else sees. Memory that is mapped shared is one and
// the same for all. The segment has no name (no file in /dev/shm): it lives as long as somebody holds it, so nothing is
// left behind whoever dies. Each rank writes its own slot, hence nobody is in anybody's way; waiting for the end of the
// ranks is what makes it safe to read. Later lessons read while the ranks live.
//
// PyTorch: model.share_memory() in the Hogwild example, and every tensor sent through a torch.multiprocessing queue.
//
// Run: build/lessons/02_shared_segment
// Prints:
//   ordinary memory: 0 0 0 0
//   shared memory: 0 1 4 9
#include <stdio.h>

#include "lesson.h"
#include "shm/segment.h"

enum { RANKS = 4 };

static int ordinary[RANKS]; // every rank has one of its own

static void work(int rank, int size, void *memory) {
    (void)size;
    int *shared = memory;
    ordinary[rank] = rank * rank;
    shared[rank] = rank * rank;
}

static void print(const char *name, const int *values) {
    printf("%s memory:", name);
    for (int rank = 0; rank < RANKS; rank++)
        printf(" %d", values[rank]);
    printf("\n");
}

int main(void) {
    Error err;
    Segment segment;
    must(segment_create(&segment, "squares", RANKS * sizeof(int), &err), &err);

    pid_t pids[RANKS];
    start_ranks(pids, RANKS, work, segment.memory);
    join_ranks(pids, RANKS);

    print("ordinary", ordinary);
    print("shared", segment.memory);
    segment_free(&segment);
    return 0;
}
