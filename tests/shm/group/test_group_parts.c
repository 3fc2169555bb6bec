// Sub-groups: who is in them, what works in them, and that they are independent.
#include "ranks.h"

#include <sched.h>
#include <sys/resource.h>

// Each part sums its members' ranks in the whole group.
static void divide_by_parity(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group);
    Group *part;
    require_ok(group_split(&part, group, (int)(rank % 2), -(int)rank, &err)); // the last rank comes first
    uint32_t members = (size + 1 - rank % 2) / 2, last = size - 1 - (size - 1 - rank) % 2;
    require(group_size(part) == members && group_rank(part) == (last - rank) / 2);
    int32_t sum = (int32_t)rank, expected = 0;
    require_ok(group_all_reduce(part, &sum, &sum, 1, GROUP_I32, GROUP_SUM, &err));
    for (uint32_t other = rank % 2; other < size; other += 2)
        expected += (int32_t)other;
    require(sum == expected);
    if (members > 1) { // messages go by the ranks of the part
        uint32_t next = (group_rank(part) + 1) % members, source = 99;
        GroupRequest request;
        require_ok(group_isend(part, &request, &rank, 1, GROUP_I32, next, &err));
        uint32_t got = 99;
        require_ok(group_recv(part, &got, &source, 1, GROUP_I32, GROUP_ANY, &err));
        require_ok(group_wait(part, &request, NULL, &err));
        require(source == (group_rank(part) + members - 1) % members && got == last - 2 * source);
    }
    require_ok(group_barrier(group, &err)); // the whole group works beside its parts
    require_ok(group_finish(part, &err));
    require_ok(group_finish(group, &err));
}

static void a_split_orders_its_members_by_key(void **state) {
    (void)state;
    assert_int_equal(run_ranks(1, divide_by_parity, NULL), 0);
    assert_int_equal(run_ranks(4, divide_by_parity, NULL), 0);
    assert_int_equal(run_ranks(7, divide_by_parity, NULL), 0);
}

static void take_a_subset(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    const uint32_t list[] = {3, 1};
    uint32_t rank = group_rank(group);
    Group *part;
    require_ok(group_subset(&part, group, list, 2, &err));
    require((part != NULL) == (rank == 1 || rank == 3));
    if (part) {
        require(group_size(part) == 2 && group_rank(part) == (rank == 3 ? 0 : 1));
        Group *inner; // a part has parts
        require_ok(group_split(&inner, part, 0, 0, &err));
        double value = rank == 3 ? 1.5 : 0;
        require_ok(group_broadcast(inner, &value, 1, GROUP_F64, 0, &err));
        require(value == 1.5);
        require_ok(group_finish(inner, &err));
    }
    require_ok(group_finish(part, &err));
    require_ok(group_subset(&part, group, NULL, 0, &err)); // nobody
    require(!part);
    require_ok(group_finish(group, &err));
}

static void a_subset_has_the_order_of_its_list(void **state) {
    (void)state;
    assert_int_equal(run_ranks(4, take_a_subset, NULL), 0);
}

static void give_different_lists(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    const uint32_t list[] = {0, 1, 2};
    Group *part;
    Status status = group_subset(&part, group, list, group_rank(group) == 2 ? 3 : 2, &err);
    require(status == STATUS_MISMATCH && !part && strstr(err.message, "0 and 2"));
    require(group_finish(group, &err) == STATUS_MISMATCH);
}

static void different_lists_fail_on_all_ranks(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, give_different_lists, NULL), 0);
}

static void repeat_a_member(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    const uint32_t twice[] = {1, 1}, beyond[] = {2};
    Group *part;
    require(group_subset(&part, group, twice, 2, &err) == STATUS_USAGE && !part && strstr(err.message, "twice"));
    require(group_subset(&part, group, beyond, 1, &err) == STATUS_USAGE && !part);
    require_ok(group_finish(group, &err));
}

static void a_list_with_a_rank_twice_or_unknown_is_refused(void **state) {
    (void)state;
    assert_int_equal(run_ranks(2, repeat_a_member, NULL), 0);
}

static void lose_a_stranger(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    Group *part;
    uint32_t rank = group_rank(group);
    require_ok(group_split(&part, group, rank == 2 ? 1 : 0, 0, &err));
    if (rank == 2) raise(SIGKILL);
    require(group_barrier(group, &err) == STATUS_PEER_DIED && group_failed_rank(group) == 2);
    for (int i = 0; i < 100; i++)
        require_ok(group_barrier(part, &err));
    require_ok(group_finish(part, &err));
    require(group_finish(group, &err) == STATUS_PEER_DIED);
}

static void a_part_outlives_the_death_of_a_rank_outside(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, lose_a_stranger, NULL), 0);
}

// The last rank may open the part's memory, its socket and one process descriptor.
static void lack_a_descriptor(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    Group *part;
    struct rlimit limit;
    const int free_fd = dup(STDERR_FILENO);
    close(free_fd);
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlim_t before = limit.rlim_cur;
    if (group_rank(group) == 2) limit.rlim_cur = (rlim_t)free_fd + 3;
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    require(group_split(&part, group, 0, 0, &err) == STATUS_OS && !part);
    require(strstr(err.message, "no process descriptors for a sub-group: Too many open files"));
    limit.rlim_cur = before;
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    require_ok(group_split(&part, group, 0, 0, &err));
    require_ok(group_finish(part, &err));
    require_ok(group_finish(group, &err));
}

static void a_member_without_descriptors_is_no_loss_for_the_group_and_known_to_all_members(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, lack_a_descriptor, NULL), 0);
}

// Every rank is the first process of a PID namespace, as in a container of its own. It has a part of itself alone, so
// that the same descriptor number means something else in each process.
static void divide_among_containers(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    Group *alone, *half, *pair;
    const uint32_t rank = group_rank(group);
    require(getpid() == 1);
    require_ok(group_split(&alone, group, (int)rank, 0, &err));
    require_ok(group_split(&half, group, rank == 3 ? -1 : 0, -(int)rank, &err));
    if (half) { // of ranks 2, 1, 0: a part of a part whose first member is not rank 0
        require_ok(group_split(&pair, half, group_rank(half) == 0 ? -1 : 1, 0, &err));
        int32_t sum = (int32_t)rank;
        if (pair) require_ok(group_all_reduce(pair, &sum, &sum, 1, GROUP_I32, GROUP_SUM, &err));
        require(sum == (pair ? 1 : 2));
        require_ok(group_finish(pair, &err));
    }
    require_ok(group_finish(half, &err));
    require_ok(group_finish(alone, &err));
    if (rank == 3) _exit(0); // the first process of a namespace cannot kill itself
    require(group_barrier(group, &err) == STATUS_PEER_DIED);
    require(strstr(err.message, "rank 3 (in another container)"));
    require(group_finish(group, &err) == STATUS_PEER_DIED);
}

static void parts_span_pid_namespaces(void **state) {
    (void)state;
    enum { RANKS = 4 };
    pid_t pids[RANKS];
    char place[64];
    meeting_place(place);
    fflush(NULL);
    const pid_t trial = fork();
    if (trial == 0) _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(trial, &status, 0), trial);
    if (status != 0) {
        print_message("a PID namespace takes root: skipped\n");
        skip();
    }
    for (int rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork();
        if (pids[rank] != 0) continue;
        deadline_join();
        const GroupConfig config = {
            .init = place, .rank = rank, .size = RANKS, .timeout_seconds = RANKS_TIMEOUT_SECONDS};
        if (unshare(CLONE_NEWPID) != 0) _exit(1);
        const pid_t pid = start_rank(&config, divide_among_containers, NULL);
        if (waitpid(pid, &status, 0) != pid) _exit(1);
        _exit(status != 0);
    }
    assert_int_equal(wait_for_ranks(pids, RANKS), 0);
}

int main(int argc, char **argv) {
    deadline_set(100);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_orders_its_members_by_key),
        cmocka_unit_test(a_subset_has_the_order_of_its_list),
        cmocka_unit_test(different_lists_fail_on_all_ranks),
        cmocka_unit_test(a_list_with_a_rank_twice_or_unknown_is_refused),
        cmocka_unit_test(a_part_outlives_the_death_of_a_rank_outside),
        cmocka_unit_test(a_member_without_descriptors_is_no_loss_for_the_group_and_known_to_all_members),
        cmocka_unit_test(parts_span_pid_namespaces),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
