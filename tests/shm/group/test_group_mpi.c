// One rank of groups by MPI: test_group_mpi.sh starts it under mpirun with the names of what to do.
#include "group_everything.h"
#include "group_exchanges.h"
#include "tests/no_memory.h"

static const size_t uneven = 9001;

static void divide(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group);
    Group *part;
    require_ok(group_split(&part, group, rank == 0 ? -1 : 3, -(int)rank, &err)); // all but rank 0, the last one first
    require((part == NULL) == (rank == 0));
    if (part) {
        require(group_size(part) == size - 1 && group_rank(part) == size - 1 - rank);
        uint32_t first = rank;
        require_ok(group_broadcast(part, &first, 1, GROUP_I32, 0, &err));
        require(first == size - 1);
    }
    require_ok(group_barrier(group, &err));
    require_ok(group_finish(part, &err));
    require_ok(group_finish(group, &err));
}

// Stands still behind its sentence, since mpirun ends all as soon as one ends; the script, which looks for it, ends it.
static void say_failure(Group *group, Status status, const Error *sentence) {
    Error again = {.message = ""};
    require(group_barrier(group, &again) == status && strcmp(again.message, sentence->message) == 0);
    require(group_finish(group, &again) == status);
    printf("rank says %s: %s\n", status_name(status), sentence->message);
    fflush(stdout);
    for (;;)
        pause();
}

static void misfit(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    float data[8] = {0};
    Status status =
        group_rank(group) == 0 ? group_barrier(group, &err) : group_broadcast(group, data, 8, GROUP_F32, 1, &err);
    say_failure(group, status, &err);
}

static void misfit_message(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    float data[8] = {0};
    if (group_rank(group) == 0) require_ok(group_send(group, data, 7, GROUP_F32, 1, &err));
    while (group_rank(group) == 0)
        pause();
    say_failure(group, group_recv(group, data, NULL, 8, GROUP_F32, 0, &err), &err);
}

static void late(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    while (group_rank(group) == 1)
        pause();
    group_set_timeout(group, 0.2);
    say_failure(group, group_barrier(group, &err), &err);
}

static void die(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    if (group_rank(group) == 1) raise(SIGKILL);
    require_ok(group_barrier(group, &err)); // mpirun ends it
    printf("the barrier was passed\n");
}

static const GroupConfig by_mpi = {.init = "mpi://", .rank = -1, .size = -1, .timeout_seconds = 60};

static Status sum_alone(void *context, Error *err) {
    (void)context;
    Group *group;
    float sum = 1;
    Error ignored;
    TRY(group_init(&group, &by_mpi, err));
    const Status status = group_all_reduce(group, &sum, &sum, 1, GROUP_F32, GROUP_SUM, err);
    require(group_finish(group, &ignored) == status); // a group that has failed stays failed
    return status;
}

static void run_out_of_memory(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    no_memory_sweep("a group by MPI", sum_alone, NULL);
    require_ok(group_finish(group, &err));
}

static const struct Scenario {
    const char *name;
    RankFunction *function;
} scenarios[] = {
    {"everything", try_everything},
    {"round", pass_round},
    {"exchange", exchange_with_all},
    {"any", gather_from_any},
    {"order", match_in_order},
    {"test", test_until_done},
    {"arguments", refuse_arguments},
    {"divide", divide},
    {"misfit", misfit},
    {"misfit-message", misfit_message},
    {"late", late},
    {"die", die},
    {"no-memory", run_out_of_memory},
};

static void play(const char *name) {
    Error err = {.message = ""};
    Group *group;
    require_ok(group_init(&group, &by_mpi, &err));
    size_t i = 0;
    while (i < sizeof scenarios / sizeof *scenarios && strcmp(scenarios[i].name, name) != 0)
        i++;
    require(i < sizeof scenarios / sizeof *scenarios);
    scenarios[i].function(group, &uneven);
    printf("done\n");
}

int main(int argc, char **argv) {
    Error err = {.message = ""};
    Group *whole = NULL; // of several scenarios: it starts MPI, which a process can do once, and ends it
    alarm(100);
    require(argc > 1);
    const bool fails = strcmp(argv[1], "no-memory-once") == 0;
    if (fails) no_memory.until_failure = 2; // the first allocation after MPI has started
    const Status status = argc > 2 || fails ? group_init(&whole, &by_mpi, &err) : STATUS_OK;
    if (status == STATUS_UNAVAILABLE) {
        fprintf(stderr, "%s\n", err.message);
        return 77;
    }
    if (fails) {
        require(no_memory.held == 0 && status == STATUS_OS);
        printf("OS: %s\n", err.message);
        return 0;
    }
    require(status == STATUS_OK);
    for (int i = 1; i < argc; i++)
        play(argv[i]);
    require_ok(group_finish(whole, &err));
    return 0;
}
