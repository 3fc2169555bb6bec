// How the ranks of a group meet, and what is said when they do not.
#include "meetings.h"

#include <errno.h>
#include <fcntl.h>

#include "shm/group/group_call.h"
#include "tests/shm/asleep.h"

static void ranks_meet_whoever_comes_first(void **state) {
    (void)state;
    char places[2][64];
    meeting_place(places[0]);
    tcp_place(places[1]);
    for (int p = 0; p < 2; p++)
        for (int last = 0; last < 3; last++) {
            Guest guests[3];
            for (int rank = 0; rank < 3; rank++)
                guests[rank] = (Guest){.config = {.init = places[p], .rank = rank, .size = 3, .timeout_seconds = 60},
                                       .comes_after_seconds = rank == last ? 0.05 : 0};
            assert_int_equal(hold_meeting(guests, 3), 0);
        }
    assert_int_equal(access(places[0] + strlen("file://"), F_OK), -1); // the file is gone
}

// Three meetings at once, since each takes as long as its first rank has patience: rank 0 by a file and by a port, and
// another rank.
static void who_is_missing_is_named_to_all_as_soon_as_one_has_waited_enough(void **state) {
    (void)state;
    enum { PATIENCE = 5 }; // the other rank comes by then, on a busy machine too
    char places[3][64];
    meeting_place(places[0]);
    tcp_place(places[1]);
    tcp_place(places[2]);
    Guest guests[6];
    for (int i = 0; i < 6; i++) {
        const bool is_impatient = i < 4 ? i % 2 == 0 : i == 5;
        guests[i] = (Guest){.config = {.init = places[i / 2],
                                       .rank = i < 4 ? i % 2 * 2 : i % 2,
                                       .size = i < 4 ? 4 : 3,
                                       .timeout_seconds = is_impatient ? PATIENCE : 60},
                            .comes_after_sockets = i == 5 ? 1 : 0,
                            .expected = STATUS_TIMEOUT,
                            .words = {places[i / 2], i < 4 ? "only 2 of 4 ranks came, ranks 1 and 3 missing"
                                                           : "only 2 of 3 ranks came, rank 2 missing"}};
    }
    assert_int_equal(hold_meeting(guests, 6), 0);
}

static void without_rank_0_the_others_say_so(void **state) {
    (void)state;
    char place[64];
    const Guest guests[] = {{.config = {.init = tcp_place(place), .rank = 1, .size = 2, .timeout_seconds = 0.1},
                             .expected = STATUS_TIMEOUT,
                             .words = {place, "after ", " s rank 0 is missing"}}};
    assert_int_equal(hold_meeting(guests, 1), 0);
}

static void a_file_of_an_earlier_run_is_an_error_on_every_rank(void **state) {
    (void)state;
    char place[64];
    meeting_place(place);
    const char *path = place + strlen("file://");
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    Guest guests[3];
    for (int rank = 0; rank < 3; rank++)
        guests[rank] = (Guest){.config = {.init = place, .rank = rank, .size = 3, .timeout_seconds = 60},
                               .expected = STATUS_DATA,
                               .words = {path, "an earlier run left it; remove it"}};
    assert_int_equal(hold_meeting(guests, 3), 0);
    assert_int_equal(unlink(path), 0); // nobody has taken it away
}

static void a_file_server_that_renames_only_over_other_files_will_do(void **state) {
    (void)state;
    skip_without_seccomp();
    char place[64];
    meeting_place(place);
    Guest guests[3];
    for (int i = 0; i < 3; i++) // the third is a second rank 0, which must not take the file away
        guests[i] = (Guest){.config = {.init = place, .rank = i % 2, .size = 3, .timeout_seconds = 60},
                            .refused_call = SYS_renameat2,
                            .refusal = EINVAL,
                            .comes_after_sockets = i == 2 ? 2 : 0,
                            .expected = STATUS_MISMATCH,
                            .words = {"two processes are rank 0"}};
    assert_int_equal(hold_meeting(guests, 3), 0);
    for (int i = 0; i < 2; i++) {
        guests[i].config.size = 2;
        guests[i].expected = STATUS_OK;
        guests[i].words[0] = NULL;
    }
    assert_int_equal(hold_meeting(guests, 2), 0);
    assert_int_equal(access(place + strlen("file://"), F_OK), -1);
}

static void a_rank_0_that_dies_meeting_leaves_a_file_that_is_an_error(void **state) {
    (void)state;
    char place[64];
    meeting_place(place);
    const char *path = place + strlen("file://");
    Guest first = {.config = {.init = place, .rank = 0, .size = 2, .timeout_seconds = 60}};
    pid_t pid = fork();
    if (pid == 0) {
        deadline_join();
        meet_as(&first);
    }
    while (access(path, F_OK) != 0)
        usleep(1000);
    kill(pid, SIGKILL);
    assert_int_equal(wait_for_ranks(&pid, 1), 0);
    Guest guests[2];
    for (int rank = 0; rank < 2; rank++)
        guests[rank] = (Guest){.config = {.init = place, .rank = rank, .size = 2, .timeout_seconds = 60},
                               .expected = STATUS_DATA,
                               .words = {path, "an earlier run left it"}};
    assert_int_equal(hold_meeting(guests, 2), 0);
    assert_int_equal(unlink(path), 0);
}

static void two_processes_with_one_rank_fail_on_all_ranks(void **state) {
    (void)state;
    char places[2][64];
    meeting_place(places[0]);
    tcp_place(places[1]);
    for (int p = 0; p < 2; p++)
        for (int twice = 0; twice < 2; twice++) {
            Guest guests[3];
            const char *words = twice == 0 ? "two processes are rank 0" : "two processes are rank 1";
            for (int i = 0; i < 3; i++)
                guests[i] =
                    (Guest){.config = {.init = places[p], .rank = i < 2 ? i : twice, .size = 3, .timeout_seconds = 60},
                            .comes_after_sockets = i < 2 ? 0 : 2,
                            .comes_after_seconds = i < 2 ? 0 : 0.05,
                            .expected = STATUS_MISMATCH,
                            .words = {words, " (process ", "), probably of two jobs; "}};
            assert_int_equal(hold_meeting(guests, 3), 0);
        }
}

static void different_sizes_fail_on_all_ranks(void **state) {
    (void)state;
    char place[64];
    meeting_place(place);
    Guest guests[3];
    for (int rank = 0; rank < 3; rank++)
        guests[rank] =
            (Guest){.config = {.init = place, .rank = rank, .size = rank == 2 ? 5 : 4, .timeout_seconds = 60},
                    .comes_after_sockets = rank == 2 ? 2 : 0,
                    .comes_after_seconds = rank == 2 ? 0.05 : 0,
                    .expected = STATUS_MISMATCH,
                    .words = {"rank 2 (process ", "expects 5 ranks, rank 0 (process ",
                              ") 4; if these are two jobs, name another file in one of them"}};
    assert_int_equal(hold_meeting(guests, 3), 0);
}

static void a_rank_that_dies_while_meeting_ends_it_for_all(void **state) {
    (void)state;
    char place[64];
    meeting_place(place);
    pid_t pids[2];
    for (int rank = 0; rank < 2; rank++) {
        Guest guest = {.config = {.init = place, .rank = rank, .size = 3, .timeout_seconds = 60},
                       .expected = STATUS_PEER_DIED,
                       .words = {"rank 1 (process ", "ended while the group was meeting"}};
        pids[rank] = fork();
        if (pids[rank] == 0) {
            deadline_join();
            meet_as(&guest);
        }
    }
    wait_for_sockets(place, 2);
    while (!is_asleep(pids[1])) // connected, it sleeps only in the poll behind its hello
        usleep(1000);
    kill(pids[1], SIGKILL);
    assert_int_equal(wait_for_ranks(pids, 2), 0);
}

#define HOST_OF_32  "a-host-of-thirty-two-letters.org"
#define HOST_OF_256 HOST_OF_32 HOST_OF_32 HOST_OF_32 HOST_OF_32 HOST_OF_32 HOST_OF_32 HOST_OF_32 HOST_OF_32

static void where_pidfd_open_is_refused_a_rank_says_what_it_takes(void **state) {
    (void)state;
    skip_without_seccomp();
    char place[64];
    const Guest guest = {.config = {.init = meeting_place(place), .rank = 0, .size = 2, .timeout_seconds = 60},
                         .refused_call = SYS_pidfd_open,
                         .refusal = EPERM,
                         .expected = STATUS_OS,
                         .words = {"pidfd_open, which needs Linux 5.3", "Operation not permitted"}};
    assert_int_equal(hold_meeting(&guest, 1), 0);
}

static void wrong_configurations_are_refused_with_a_remedy(void **state) {
    (void)state;
    const Guest guests[] = {
        {.config = {.init = "tcp://127.0.0.1:29500", .rank = 3, .size = 3},
         .expected = STATUS_USAGE,
         .words = {"rank 3", "ranks 0 to 2"}},
        {.config = {.init = "tcp://127.0.0.1:29500", .rank = 0, .size = 251},
         .expected = STATUS_USAGE,
         .words = {"1 to 250 ranks, not 251"}},
        {.config = {.init = "tcp://127.0.0.1", .rank = 0, .size = 1},
         .expected = STATUS_USAGE,
         .words = {"give tcp://host:port"}},
        {.config = {.init = "tcp://" HOST_OF_256 ":29500", .rank = 0, .size = 1},
         .expected = STATUS_USAGE,
         .words = {"give tcp://host:port"}},
        {.config = {.init = "tcp://127.0.0.1:0", .rank = 0, .size = 1},
         .expected = STATUS_USAGE,
         .words = {"tcp://127.0.0.1:0: the port is a number from 1 to 65535"}},
        {.config = {.init = "tcp://192.0.2.1:29500", .rank = 0, .size = 1}, // reserved for documentation
         .expected = STATUS_USAGE,
         .words = {"192.0.2.1 is not an address of this machine", "mpi://"}},
        {.config = {.init = "file://here", .rank = 0, .size = 1},
         .expected = STATUS_USAGE,
         .words = {"give an absolute path"}},
        {.config = {.init = "file:///no/such/folder/meeting", .rank = 0, .size = 1},
         .expected = STATUS_CANTCREATE,
         .words = {"/no/such/folder", "No such file"}},
        {.config = {.init = "nfs://here", .rank = 0, .size = 1}, .expected = STATUS_USAGE, .words = {"nfs://here"}},
        {.config = {.rank = -1, .size = -1}, .expected = STATUS_USAGE, .words = {"RANK and WORLD_SIZE are not set"}},
        {.config = {.rank = 0, .size = 1},
         .expected = STATUS_USAGE,
         .words = {"MASTER_ADDR and MASTER_PORT are not set"}},
        {.config = {.rank = -1, .size = -1},
         .environment = {"RANK=0", "WORLD_SIZE=2"},
         .expected = STATUS_USAGE,
         .words = {"RANK is set, but MASTER_ADDR"}},
        {.config = {.rank = -1, .size = -1},
         .environment = {"RANK=first", "WORLD_SIZE=2"},
         .expected = STATUS_USAGE,
         .words = {"RANK=first: give a number"}},
        {.config = {.rank = -1, .size = -1},
         .environment = {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=7", "SLURM_STEP_NUM_NODES=2",
                         "SLURM_STEP_NUM_TASKS=2"},
         .expected = STATUS_USAGE,
         .words = {"2 machines", "mpi://"}},
        {.config = {.rank = -1, .size = -1},
         .environment = {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=7"}, // in a batch script
         .expected = STATUS_USAGE,
         .words = {"SLURM_NTASKS is 4", "start the ranks with srun"}},
    };
    assert_int_equal(hold_meeting(guests, (uint32_t)(sizeof guests / sizeof *guests)), 0);
}

static void what_a_launcher_or_a_path_can_get_wrong_is_refused_too(void **state) {
    (void)state;
    char long_path[128], longest_path[128]; // of 92 and 91 bytes
    snprintf(long_path, sizeof long_path, "file:///no/%088d", 0);
    snprintf(longest_path, sizeof longest_path, "file:///no/%086d/", 0);
    const Guest guests[] = {
        {.config = {.rank = -1, .size = -1},
         .environment = {"RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"},
         .expected = STATUS_USAGE,
         .words = {"LOCAL_WORLD_SIZE=2 of 4 ranks are on this machine", "mpi://",
                   "the ranks of one machine with one launch"}},
        {.config = {.rank = -1, .size = -1},
         .environment = {"RANK=1x", "WORLD_SIZE=2"},
         .expected = STATUS_USAGE,
         .words = {"RANK=1x: give a number"}},
        {.config = {.init = long_path, .rank = 0, .size = 1},
         .expected = STATUS_USAGE,
         .words = {"a path of at most 91 bytes"}},
        {.config = {.init = longest_path, .rank = 0, .size = 1},
         .expected = STATUS_CANTCREATE,
         .words = {"No such file"}},
    };
    assert_int_equal(hold_meeting(guests, (uint32_t)(sizeof guests / sizeof *guests)), 0);
}

static void the_environment_of_every_launcher_is_understood(void **state) {
    (void)state;
    char port[32], job[2][48];
    snprintf(port, sizeof port, "MASTER_PORT=%d", reserve_port());
    snprintf(job[0], sizeof job[0], "PMIX_NAMESPACE=%016lx", draw_number());
    snprintf(job[1], sizeof job[1], "SLURM_JOB_ID=%016lx", draw_number());
    const GroupConfig open = {.rank = -1, .size = -1, .timeout_seconds = 60};
    const Guest torchrun[] = {
        {.config = open, .environment = {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=1", "MASTER_ADDR=localhost", port}},
        {.config = open, .environment = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", port}},
    };
    const Guest mpirun[] = {
        {.config = open, .environment = {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", job[0]}},
        {.config = open, .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", job[0]}},
    };
    const Guest srun[] = {
        {.config = open,
         .environment = {"SLURM_PROCID=0", "SLURM_NTASKS=2", job[1], "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2"}},
        {.config = open,
         .environment = {"SLURM_PROCID=1", "SLURM_NTASKS=2", job[1], "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2"}},
    };
    assert_int_equal(hold_meeting(torchrun, 2), 0);
    assert_int_equal(hold_meeting(mpirun, 2), 0);
    assert_int_equal(hold_meeting(srun, 2), 0);
}

static void without_room_for_the_memory_all_ranks_say_so(void **state) {
    (void)state;
    char place[64];
    meeting_place(place);
    Guest guests[3];
    for (int rank = 0; rank < 3; rank++)
        guests[rank] = (Guest){.config = {.init = place, .rank = rank, .size = 3, .timeout_seconds = 60},
                               .has_small_files = rank == 0,
                               .expected = STATUS_OS,
                               .words = {"group", "File too large"}};
    assert_int_equal(hold_meeting(guests, 3), 0);
}

static void many_ranks_are_named_up_to_the_twelfth(void **state) {
    (void)state;
    char text[GROUP_RANKS_TEXT_BYTES];
    bool marks[20] = {false};
    for (int rank = 1; rank <= 12; rank++)
        marks[rank] = true;
    assert_string_equal(group_ranks_text(text, marks, 20), "ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 12");
    marks[15] = true;
    assert_string_equal(group_ranks_text(text, marks, 20), "ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 1 more");
    marks[19] = true;
    assert_string_equal(group_ranks_text(text, marks, 20), "ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more");
}

static void leave_nothing(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    require_ok(group_finish(group, &err));
}

static uint32_t count_descriptors(void) {
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void a_group_leaves_no_descriptor_open(void **state) {
    (void)state;
    uint32_t before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        Error err = {.message = ""};
        char place[64];
        Group *group, *part;
        GroupConfig config = {.init = meeting_place(place), .rank = 0, .size = 2, .timeout_seconds = 60};
        GroupConfig other = config;
        other.rank = 1;
        pid_t pid = i == 2 ? 0 : start_rank(&other, leave_nothing, NULL);
        if (i == 2) { // alone it fails, after it has begun
            config.timeout_seconds = 0.05;
            assert_int_equal(group_init(&group, &config, &err), STATUS_TIMEOUT);
            continue;
        }
        check_ok(group_init(&group, &config, &err));
        (void)part;
        check_ok(group_finish(group, &err));
        assert_int_equal(wait_for_ranks(&pid, 1), 0);
    }
    assert_int_equal(count_descriptors(), before);
}

int main(int argc, char **argv) {
    deadline_set(560);
    forget_launchers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet_whoever_comes_first),
        cmocka_unit_test(who_is_missing_is_named_to_all_as_soon_as_one_has_waited_enough),
        cmocka_unit_test(without_rank_0_the_others_say_so),
        cmocka_unit_test(a_file_of_an_earlier_run_is_an_error_on_every_rank),
        cmocka_unit_test(a_file_server_that_renames_only_over_other_files_will_do),
        cmocka_unit_test(a_rank_0_that_dies_meeting_leaves_a_file_that_is_an_error),
        cmocka_unit_test(two_processes_with_one_rank_fail_on_all_ranks),
        cmocka_unit_test(different_sizes_fail_on_all_ranks),
        cmocka_unit_test(a_rank_that_dies_while_meeting_ends_it_for_all),
        cmocka_unit_test(where_pidfd_open_is_refused_a_rank_says_what_it_takes),
        cmocka_unit_test(wrong_configurations_are_refused_with_a_remedy),
        cmocka_unit_test(what_a_launcher_or_a_path_can_get_wrong_is_refused_too),
        cmocka_unit_test(the_environment_of_every_launcher_is_understood),
        cmocka_unit_test(without_room_for_the_memory_all_ranks_say_so),
        cmocka_unit_test(many_ranks_are_named_up_to_the_twelfth),
        cmocka_unit_test(a_group_leaves_no_descriptor_open),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
