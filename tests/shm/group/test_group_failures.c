// What goes wrong in a group: calls that do not fit, ranks that come too late, ranks that die in any call.
#include "ranks.h"

#include <sched.h>
#include <time.h>

#include "shm/group/group_shared.h"

enum { LONG = 300000 }; // elements: more than any ring or slot holds

// A call that every kind of test makes: number `kind` of the list, on a group of three.
enum { CALLS = 16 };

typedef struct Buffers {
    float in[3 * LONG], out[3 * LONG];
} Buffers;

static Buffers *buffers_new(void) {
    Buffers *buffers = calloc(1, sizeof *buffers);
    require(buffers);
    return buffers;
}

static Status call(Group *group, uint32_t kind, Buffers *b, Error *err) {
    uint32_t rank = group_rank(group), next = (rank + 1) % 3, last = (rank + 2) % 3;
    GroupRequest request;
    Group *part;
    switch (kind) {
    case 0:
        return group_barrier(group, err);
    case 1:
        return group_broadcast(group, b->out, 10, GROUP_F32, 0, err);
    case 2:
        return group_reduce(group, b->out, b->in, 10, GROUP_F32, GROUP_SUM, 2, err);
    case 3:
        return group_all_reduce(group, b->out, b->in, 10, GROUP_F32, GROUP_SUM, err);
    case 4:
        return group_all_reduce(group, b->out, b->in, LONG, GROUP_F32, GROUP_SUM, err);
    case 5:
        return group_gather(group, b->out, b->in, 10, GROUP_F32, 0, err);
    case 6:
        return group_all_gather(group, b->out, b->in, LONG, GROUP_F32, err);
    case 7:
        return group_scatter(group, b->out, b->in, 10, GROUP_F32, 2, err);
    case 8:
        return group_reduce_scatter(group, b->out, b->in, LONG, GROUP_F32, GROUP_MAX, err);
    case 9:
        return group_all_to_all(group, b->out, b->in, 10, GROUP_F32, err);
    case 10:
        return group_split(&part, group, 0, 0, err);
    case 11: // everyone waits for the one before; nobody sends
        return group_recv(group, b->out, NULL, 10, GROUP_F32, (int)last, err);
    case 12:
        return group_recv(group, b->out, NULL, 10, GROUP_F32, GROUP_ANY, err);
    case 13: // everyone sends; nobody receives
        return group_send(group, b->in, LONG, GROUP_F32, next, err);
    case 14:
        TRY(group_isend(group, &request, b->in, LONG, GROUP_F32, next, err));
        for (bool done = false; !done;) {
            TRY(group_test(group, &request, &done, NULL, err));
            require(group_failed_rank(group) < 0); // a death it has noticed is one it has said
            sched_yield();
        }
        return STATUS_OK;
    default:
        TRY(group_irecv(group, &request, b->out, 10, GROUP_F32, (int)last, err));
        return group_wait(group, &request, NULL, err);
    }
}

static void sleep_milliseconds(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

// Deaths --------------------------------------------------------------------------------------------------------------

static void require_death_of_one(Group *group, Status status, const Error *sentence) {
    Error err = {.message = ""};
    require(status == STATUS_PEER_DIED && group_failed_rank(group) == 1 && strstr(sentence->message, "rank 1 "));
    require(group_barrier(group, &err) == STATUS_PEER_DIED && strcmp(err.message, sentence->message) == 0);
    require(group_finish(group, &err) == STATUS_PEER_DIED);
}

// Rank 1 dies instead of making the call.
static void die_before(Group *group, const void *context) {
    Error err = {.message = ""};
    require_ok(group_barrier(group, &err));
    if (group_rank(group) == 1) raise(SIGKILL);
    require_death_of_one(group, call(group, *(const uint32_t *)context, buffers_new(), &err), &err);
}

static void a_rank_that_dies_before_any_call_is_named_by_all_who_wait_in_it(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < CALLS; kind++)
        assert_int_equal(run_ranks(3, die_before, &kind), 0);
}

// Rank 1 waits in the call, and so does rank 0, when rank 2 kills it.
static void die_inside(Group *group, const void *context) {
    Error err = {.message = ""};
    int32_t pids[3], own = getpid();
    require_ok(group_all_gather(group, pids, &own, 1, GROUP_I32, &err));
    if (group_rank(group) == 2) {
        sleep_milliseconds(20); // time to fall asleep; what is required holds at any moment
        kill(pids[1], SIGKILL);
    }
    Buffers *buffers = buffers_new();
    Status status;
    do // a call to which rank 1 had given its part already ends well
        status = call(group, *(const uint32_t *)context, buffers, &err);
    while (status == STATUS_OK);
    require(group_rank(group) != 1);
    if (group_failed_rank(group) < 0) status = group_barrier(group, &err); // it was the part of a split that failed
    require_death_of_one(group, status, &err);
}

static void a_rank_that_dies_inside_any_call_is_named_by_all_who_wait_in_it(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < CALLS; kind++)
        assert_int_equal(run_ranks(3, die_inside, &kind), 0);
}

// Rank 1 dies at a random moment of a storm of calls. context: the write end of a pipe, told that this rank has joined.
static void die_at_random(Group *group, const void *context) {
    require(write(*(const int *)context, "", 1) == 1);
    Error err = {.message = ""};
    Buffers *buffers = buffers_new();
    Status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK; i++)
        status = call(group, i % 10, buffers, &err);
    require_death_of_one(group, status, &err);
}

static void deaths_at_random_moments_never_hang_the_others(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 25; i++) {
        pid_t pids[3];
        char place[64];
        meeting_place(place);
        int joined[2];
        assert_int_equal(pipe(joined), 0);
        for (int rank = 0; rank < 3; rank++)
            pids[rank] = start_rank(&(GroupConfig){.init = place, .rank = rank, .size = 3, .timeout_seconds = 60},
                                    die_at_random, &joined[1]);
        close(joined[1]);
        char byte;
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(read(joined[0], &byte, 1), 1);
        close(joined[0]);
        struct timespec moment = {.tv_nsec = (long)(i * 7919 % 1000) * 10000};
        nanosleep(&moment, NULL);
        kill(pids[1], SIGKILL);
        assert_int_equal(wait_for_ranks(pids, 3), 0);
    }
}

static void end_without_finish(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    if (group_rank(group) == 1) _exit(0);
    require_death_of_one(group, group_barrier(group, &err), &err);
}

static void a_rank_that_ends_without_finish_counts_as_dead(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, end_without_finish, NULL), 0);
}

// Whoever finishes first ends first, while the others have yet to notice that everybody has come.
static void finish_and_end(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    require_ok(group_finish(group, &err));
    raise(SIGKILL);
}

static void a_rank_may_die_when_it_has_finished(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++)
        assert_int_equal(run_ranks(4, finish_and_end, NULL), 0);
}

// Mismatches ----------------------------------------------------------------------------------------------------------

// What ranks 0 and 1 of three call, and words of the sentence. Rank 2 comes only when both have failed.
typedef struct Misfit {
    const char *words[4];
    int told[2]; // a pipe to rank 2
    int number;
} Misfit;

static Status misfit_call(Group *group, int number, Error *err) {
    static float data[64];
    bool first = group_rank(group) == 0;
    switch (number) {
    case 0:
        return first ? group_barrier(group, err) : group_broadcast(group, data, 3, GROUP_F32, 2, err);
    case 1:
        return group_all_reduce(group, data, data, first ? 7 : 8, GROUP_F32, GROUP_SUM, err);
    case 2:
        return group_all_reduce(group, data, data, 7, first ? GROUP_F32 : GROUP_I32, GROUP_SUM, err);
    case 3:
        return group_all_reduce(group, data, data, 7, GROUP_F32, first ? GROUP_MIN : GROUP_AVG, err);
    case 4:
        return group_gather(group, data, data, 7, GROUP_F32, first ? 0 : 1, err);
    case 5:
        return first ? group_finish(group, err) : group_barrier(group, err);
    case 6:
        return first ? group_send(group, data, 7, GROUP_F32, 1, err)
                     : group_recv(group, data, NULL, 8, GROUP_F32, 0, err);
    default:
        return first ? group_send(group, data, 7, GROUP_F32, 1, err)
                     : group_recv(group, data, NULL, 7, GROUP_I32, GROUP_ANY, err);
    }
}

static void make_misfit(Group *group, const void *context) {
    const Misfit *misfit = context;
    Error err = {.message = ""}, again = {.message = ""};
    uint32_t rank = group_rank(group);
    Status status;
    char byte = 0;
    if (rank < 2) {
        bool finishes = misfit->number == 5 && rank == 0;
        status = misfit_call(group, misfit->number, &err);
        if (misfit->number >= 6 && rank == 0) status = group_barrier(group, &err); // a short send is buffered
        require(write(misfit->told[1], &byte, 1) == 1);
        if (!finishes) require(group_barrier(group, &again) == STATUS_MISMATCH);
        if (!finishes) require(strcmp(err.message, again.message) == 0);
        if (!finishes) require(group_finish(group, &again) == STATUS_MISMATCH);
    } else {
        require(read(misfit->told[0], &byte, 1) == 1 && read(misfit->told[0], &byte, 1) == 1);
        status = group_barrier(group, &err);
        require(group_finish(group, &again) == STATUS_MISMATCH);
    }
    require(status == STATUS_MISMATCH);
    for (int i = 0; i < 4; i++)
        if (misfit->words[i] && !strstr(err.message, misfit->words[i]))
            requirement_not_met(err.message, misfit->words[i], misfit->number);
}

static void calls_that_do_not_fit_fail_at_once_on_all_ranks_naming_both(void **state) {
    (void)state;
    Misfit misfits[] = {
        {.words = {"rank 0's call 1 is barrier", "rank 1's call 1 is broadcast of 3 f32 from rank 2"}},
        {.words = {"rank 0's call 1 is all_reduce of 7 f32 (sum)", "rank 1's call 1 is all_reduce of 8 f32 (sum)"}},
        {.words = {"of 7 f32", "of 7 i32"}},
        {.words = {"(min)", "(avg)"}},
        {.words = {"gather of 7 f32 to rank 0", "gather of 7 f32 to rank 1"}},
        {.words = {"rank 0's call 1 is finish", "rank 1's call 1 is barrier"}},
        {.words = {"rank 0's message 1 to rank 1 is send of 7 f32", "rank 1 called recv of 8 f32"}},
        {.words = {"rank 0's message 1 to rank 1 is send of 7 f32", "rank 1 called recv of 7 i32"}},
    };
    for (int number = 0; number < (int)(sizeof misfits / sizeof *misfits); number++) {
        misfits[number].number = number;
        assert_int_equal(pipe(misfits[number].told), 0);
        assert_int_equal(run_ranks(3, make_misfit, &misfits[number]), 0);
        close(misfits[number].told[0]);
        close(misfits[number].told[1]);
    }
}

// Deadlines -----------------------------------------------------------------------------------------------------------

// Until rank 0 stands in the collective that this rank makes next.
static void wait_for_rank_0(const Group *group) {
    const SharedGroup *shared = group->state;
    const uint64_t step = shared->step + 1;
    while (atomic_load(&shared->members[0].arrivals[step % 2].step) != step)
        sleep_milliseconds(1);
}

// Rank 1 does not come before rank 2 has lost its patience, and rank 0 hears of it.
static void come_late(Group *group, const void *context) {
    const Misfit *misfit = context; // the pipe and the kind of call
    Error err = {.message = ""}, again = {.message = ""};
    Buffers *buffers = buffers_new();
    char byte = 0;
    require_ok(group_barrier(group, &err));
    if (group_rank(group) == 1) {
        require(read(misfit->told[0], &byte, 1) == 1 && read(misfit->told[0], &byte, 1) == 1);
        require(group_barrier(group, &err) == STATUS_TIMEOUT);
    } else {
        if (group_rank(group) == 2) { // it alone is impatient, and only with rank 1
            if (misfit->number <= 10) wait_for_rank_0(group);
            group_set_timeout(group, 0.2);
        }
        require(call(group, (uint32_t)misfit->number, buffers, &err) == STATUS_TIMEOUT);
        require(write(misfit->told[1], &byte, 1) == 1);
        require(strstr(err.message, "rank 2 waited 0.2 s"));
        if (misfit->number <= 10) require(strstr(err.message, ": rank 1 did not come"));
        require(group_failed_rank(group) == -1);
    }
    require(group_barrier(group, &again) == STATUS_TIMEOUT && strcmp(err.message, again.message) == 0);
    require(group_finish(group, &again) == STATUS_TIMEOUT);
}

static void every_call_that_waits_has_a_deadline_and_names_who_is_late(void **state) {
    (void)state;
    pid_t pids[CALLS][3];
    Misfit misfits[CALLS];
    for (int kind = 0; kind < CALLS; kind++) { // all groups wait side by side
        if (kind == 14) continue;              // test does not wait
        char place[64];
        meeting_place(place);
        misfits[kind] = (Misfit){.number = kind};
        assert_int_equal(pipe(misfits[kind].told), 0);
        for (int rank = 0; rank < 3; rank++)
            pids[kind][rank] = start_rank(
                &(GroupConfig){.init = place, .rank = rank, .size = 3, .timeout_seconds = RANKS_TIMEOUT_SECONDS},
                come_late, &misfits[kind]);
    }
    for (int kind = 0; kind < CALLS; kind++) {
        if (kind == 14) continue;
        assert_int_equal(wait_for_ranks(pids[kind], 3), 0);
        close(misfits[kind].told[0]);
        close(misfits[kind].told[1]);
    }
}

int main(int argc, char **argv) {
    deadline_set(560);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_dies_before_any_call_is_named_by_all_who_wait_in_it),
        cmocka_unit_test(a_rank_that_dies_inside_any_call_is_named_by_all_who_wait_in_it),
        cmocka_unit_test(deaths_at_random_moments_never_hang_the_others),
        cmocka_unit_test(a_rank_that_ends_without_finish_counts_as_dead),
        cmocka_unit_test(a_rank_may_die_when_it_has_finished),
        cmocka_unit_test(calls_that_do_not_fit_fail_at_once_on_all_ranks_naming_both),
        cmocka_unit_test(every_call_that_waits_has_a_deadline_and_names_who_is_late),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
