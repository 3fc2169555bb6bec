// A process group on shared memory: all_reduce of --bytes (floats) and of 8 bytes, and a message of 8 bytes that goes
// to and fro, by --ranks processes.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "bench.h"
#include "shm/group/group.h"

enum { TURNS = 9, MESSAGE_FLOATS = 2 };

// Microseconds of one call or of one way, the medians of some turns.
typedef struct Figures {
    double all_reduce, small_all_reduce, one_way;
} Figures;

static Status time_all_reduce(double *microseconds, Group *group, float *data, size_t count, uint32_t calls,
                              Error *err) {
    double turns[TURNS];
    for (int turn = -1; turn < TURNS; turn++) { // the first one warms up
        for (size_t i = 0; i < count; i++)
            data[i] = 0;
        TRY(group_barrier(group, err));
        uint64_t start = clock_nanoseconds();
        for (uint32_t i = 0; i < calls; i++)
            TRY(group_all_reduce(group, data, data, count, GROUP_F32, GROUP_SUM, err));
        if (turn >= 0) turns[turn] = clock_seconds_since(start) * 1e6 / calls;
    }
    *microseconds = bench_median(turns, TURNS);
    return STATUS_OK;
}

// Ranks 0 and 1 send each other a message in turn; the others look on.
static Status time_message(double *microseconds, Group *group, float *data, uint32_t ways, Error *err) {
    double turns[TURNS];
    uint32_t rank = group_rank(group), other = 1 - rank;
    for (int turn = -1; turn < TURNS; turn++) {
        TRY(group_barrier(group, err));
        uint64_t start = clock_nanoseconds();
        for (uint32_t i = 0; i < ways && rank < 2; i++)
            if (i % 2 == rank)
                TRY(group_send(group, data, MESSAGE_FLOATS, GROUP_F32, other, err));
            else
                TRY(group_recv(group, data, NULL, MESSAGE_FLOATS, GROUP_F32, (int)other, err));
        if (turn >= 0) turns[turn] = clock_seconds_since(start) * 1e6 / ways;
    }
    *microseconds = bench_median(turns, TURNS);
    return STATUS_OK;
}

static Status take_part(const BenchOptions *options, const char *place, uint32_t rank, Figures *figures, Error *err) {
    Group *group = NULL;
    size_t count = options->bytes / sizeof(float);
    float *data = calloc(count > MESSAGE_FLOATS ? count : MESSAGE_FLOATS, sizeof *data);
    if (!data) return fail(err, STATUS_OS, "out of memory for %u bytes", options->bytes);
    GroupConfig config = {.init = place, .rank = (int)rank, .size = (int)options->ranks, .timeout_seconds = 60};
    Status status;
    TRY_GOTO(done, group_init(&group, &config, err));
    TRY_GOTO(done, time_all_reduce(&figures->all_reduce, group, data, count, options->waits / 100 + 1, err));
    TRY_GOTO(done, time_all_reduce(&figures->small_all_reduce, group, data, MESSAGE_FLOATS, options->waits, err));
    TRY_GOTO(done, time_message(&figures->one_way, group, data, options->waits, err));
    status = group_finish(group, err);
    group = NULL;
done:
    if (group) group_finish(group, NULL);
    free(data);
    return status;
}

// Starts ranks 1, 2, ...; returns how many were started.
static uint32_t start_ranks(pid_t *children, const BenchOptions *options, const char *place) {
    pid_t parent = getpid();
    for (uint32_t rank = 1; rank < options->ranks; rank++) {
        children[rank] = fork();
        if (children[rank] < 0) return rank - 1;
        if (children[rank] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        Figures figures;
        Error err;
        _exit(getppid() == parent && take_part(options, place, rank, &figures, &err) == STATUS_OK ? 0 : 1);
    }
    return options->ranks - 1;
}

Status bench_group(const BenchOptions *options, Error *err) {
    pid_t children[GROUP_MAX_RANKS];
    if (options->ranks < 2 || options->ranks > GROUP_MAX_RANKS)
        return fail(err, STATUS_USAGE, "--ranks %u: give 2 to %d", options->ranks, GROUP_MAX_RANKS);
    char place[64];
    snprintf(place, sizeof place, "file:///tmp/sounder-bench-%d", getpid());
    Figures figures = {0};
    uint32_t started = start_ranks(children, options, place);
    Status status =
        started == options->ranks - 1
            ? take_part(options, place, 0, &figures, err)
            : fail_errno(err, STATUS_OS, "only %u of %u processes could be started", started, options->ranks - 1);
    if (status == STATUS_OK)
        printf("{\"bench\": \"group\", \"ranks\": %u, \"cores\": %d, \"bytes\": %u, \"all_reduce_microseconds\": %.2f, "
               "\"small_all_reduce_microseconds\": %.3f, \"one_way_microseconds\": %.3f}\n",
               options->ranks, cores_usable(), options->bytes, figures.all_reduce, figures.small_all_reduce,
               figures.one_way);
    for (uint32_t rank = 1; rank <= started; rank++) {
        if (status != STATUS_OK) kill(children[rank], SIGKILL);
        waitpid(children[rank], NULL, 0);
    }
    return status;
}
