// Two jobs at one meeting place: their ranks never join one group.
#include "meetings.h"

static pid_t start(const Guest *guest) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) return pid;
    deadline_join();
    meet_as(guest);
    return 0;
}

// Rank 0 of the first job waits for its rank 1 when both ranks of the second job come and are refused.
static void second_job_is_refused(const char *place, const Guest first[2], Guest second[2], const char *remedy) {
    pid_t pids[2] = {start(&first[0])};
    wait_for_sockets(place, 1);
    for (int rank = 0; rank < 2; rank++) {
        second[rank].expected = STATUS_MISMATCH;
        second[rank].words[0] = "belong to two jobs at one place";
        second[rank].words[1] = remedy;
    }
    assert_int_equal(hold_meeting(second, 2), 0);
    pids[1] = start(&first[1]);
    assert_int_equal(wait_for_ranks(pids, 2), 0);
}

static void ranks_of_another_launch_are_refused(void **state) {
    (void)state;
    const char *const other[] = {"SOUNDER_LAUNCH_ID=2", NULL}; // another launch, and ranks started by hand
    char places[2][64];
    for (int p = 0; p < 2; p++)
        for (int o = 0; o < 2; o++) {
            Guest first[2], second[2];
            if (p == 0)
                tcp_place(places[p]);
            else
                meeting_place(places[p]);
            for (int rank = 0; rank < 2; rank++) {
                const GroupConfig config = {.init = places[p], .rank = rank, .size = 2, .timeout_seconds = 60};
                first[rank] = (Guest){.config = config, .environment = {"SOUNDER_LAUNCH_ID=1"}};
                second[rank] = (Guest){.config = config, .environment = {other[o]}};
            }
            second_job_is_refused(places[p], first, second,
                                  p == 0 ? "another --master-port" : "name another file in one of them");
        }
}

static void ranks_of_another_mpirun_are_refused_at_one_port(void **state) {
    (void)state;
    char place[64], port[32];
    tcp_place(place);
    snprintf(port, sizeof port, "MASTER_PORT%s", strrchr(place, ':'));
    *strchr(port, ':') = '=';
    const GroupConfig config = {.rank = -1, .size = -1, .timeout_seconds = 60};
    const char *const ranks[] = {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_RANK=1"}, *size = "OMPI_COMM_WORLD_SIZE=2";
    Guest first[2], second[2];
    for (int rank = 0; rank < 2; rank++) {
        const char *host = "MASTER_ADDR=127.0.0.1";
        first[rank] = (Guest){.config = config, .environment = {ranks[rank], size, host, port, "PMIX_NAMESPACE=one"}};
        second[rank] = (Guest){.config = config, .environment = {ranks[rank], size, host, port, "PMIX_NAMESPACE=two"}};
    }
    second_job_is_refused(place, first, second, "another --master-port");
}

int main(int argc, char **argv) {
    deadline_set(100);
    forget_launchers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_another_launch_are_refused),
        cmocka_unit_test(ranks_of_another_mpirun_are_refused_at_one_port),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
