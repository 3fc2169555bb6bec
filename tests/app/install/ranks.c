// Ranks that talk, in a program that knows nothing of Sounder's tree. It has functions of its own that are called like
// some of the library's, and like some of its inside: neither may get into the other's way.
#include <stdio.h>

#include <sounder/shm/group/group.h>

int net_init(int rank) {
    return 10 * rank;
}

void log_warning(const char *sentence) {
    fprintf(stderr, "the program's own: %s\n", sentence);
}

int main(void) {
    Error err;
    Group *group = NULL;
    Status status = group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 60}, &err);
    if (status != STATUS_OK) goto failed;
    int32_t sum = net_init((int)group_rank(group));
    TRY_GOTO(failed, group_all_reduce(group, &sum, &sum, 1, GROUP_I32, GROUP_SUM, &err));
    printf("rank %u of %u: sum %d\n", group_rank(group), group_size(group), sum);
    TRY_GOTO(failed, group_finish(group, &err));
    return 0;
failed:
    log_warning(err.message);
    return status_exit_code(status);
}
