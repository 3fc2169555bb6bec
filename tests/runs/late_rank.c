// Ranks of a group of the library (tests/runs/test_launch_watch.py). The rank that the first argument names sleeps in
// prepare_batch for as many seconds as the second says, and comes late to the third call.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shm/group/group.h"

// Adds something to the result, so that the call is no jump.
__attribute__((noinline)) static unsigned int prepare_batch(unsigned int seconds) {
    return 1 + sleep(seconds);
}

static Status work(unsigned int late, unsigned int seconds, Error *err) {
    Group *group;
    float sums[10] = {0};
    TRY(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 60}, err));
    TRY(group_barrier(group, err));
    TRY(group_all_reduce(group, sums, sums, 2, GROUP_F32, GROUP_SUM, err));
    if (group_rank(group) == late) sums[0] = (float)prepare_batch(seconds);
    TRY(group_all_reduce(group, sums, sums, 10, GROUP_F32, GROUP_SUM, err));
    return group_finish(group, err);
}

int main(int argc, char **argv) {
    Error err;
    if (argc != 3) return 64;
    const Status status = work((unsigned int)atoi(argv[1]), (unsigned int)atoi(argv[2]), &err);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return status_exit_code(status);
}
