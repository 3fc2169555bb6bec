// The supervisor: whatever a worker does, the parent neither hangs nor overlooks it.
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/log.h"
#include "tests/check.h"
#include "tests/deadline.h"
#include "world.h"

// A world with everybody standing at the first barrier.
static void world_up(World *world, uint32_t workers, double hang_seconds) {
    Error err;
    check_ok(world_init(world, workers, hang_seconds, &err));
    check_ok(world_start(world, &err));
    assert_int_equal(supervisor_alive(&world->supervisor), workers);
}

static void world_down(World *world) {
    assert_int_equal(atomic_load(&world->control->violations), 0);
    world_free(world);
    assert_int_equal(waitpid(-1, NULL, 0), -1); // nobody is left
    assert_int_equal(errno, ECHILD);
}

// The log lines written between begin and end.
typedef struct LogCapture {
    int saved_stderr, file;
} LogCapture;

static LogCapture capture_begin(void) {
    LogCapture capture = {.saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
                          .file = memfd_create("log", MFD_CLOEXEC)};
    assert_true(dup2(capture.file, STDERR_FILENO) >= 0);
    return capture;
}

static void capture_end(LogCapture *capture, char *text, size_t bytes) {
    dup2(capture->saved_stderr, STDERR_FILENO);
    close(capture->saved_stderr);
    ssize_t count = pread(capture->file, text, bytes - 1, 0);
    assert_true(count >= 0);
    text[count] = 0;
    close(capture->file);
}

// One phase, with what it logs.
static Status phase_with_log(World *world, char *text, size_t bytes, Error *err) {
    LogCapture capture = capture_begin();
    Status status = world_phase(world, err);
    capture_end(&capture, text, bytes);
    return status;
}

static void all_workers_do_every_phase_and_stand_still_in_between(void **state) {
    (void)state;
    enum { WORKERS = 4, PHASES = 200 };
    Error err;
    World world;
    world_up(&world, WORKERS, 60);
    for (uint32_t phase = 1; phase <= PHASES; phase++) {
        check_ok(world_phase(&world, &err));
        for (uint32_t rank = 0; rank < WORKERS; rank++) {
            assert_int_equal(world.supervisor.workers[rank].state, WORKER_RUNNING);
            assert_int_equal(atomic_load(&world.control->seen_phase[rank]), phase);
            assert_int_equal(atomic_load(&world.control->phases_done[rank]), phase);
            assert_true(atomic_load(&world.control->pulses[rank].arrived_nanoseconds) <= clock_nanoseconds());
        }
    }
    assert_int_equal(world.supervisor.deaths, 0);
    world_down(&world);
}

static void a_worker_finds_its_descriptors_and_nothing_else(void **state) {
    (void)state;
    enum { WORKERS = 2 };
    Error err;
    World world;
    int stray = fcntl(STDERR_FILENO, F_DUPFD, 3); // inheritable, and standing where the start-up pipe shall be
    assert_true(stray >= 3);
    signal(SIGPIPE, SIG_IGN);
    world_up(&world, WORKERS, 60);
    world.control->orders[1] = INSPECT;
    check_ok(world_phase(&world, &err));
    assert_int_equal(world.control->open_descriptors, WORKER_FIRST_FD + 1);
    assert_true(world.control->own_group);
    assert_true(world.control->open_signals);
    assert_true(world.control->default_sigpipe);
    world_down(&world);
    signal(SIGPIPE, SIG_DFL);
    close(stray);
}

static void a_worker_inherits_its_descriptors_and_no_more_than_there_is_room_for(void **state) {
    (void)state;
    Error err = {0};
    World world;
    check_ok(world_init(&world, 1, 60, &err));
    int fds[WORKER_MAX_FDS + 1];
    for (uint32_t i = 0; i <= WORKER_MAX_FDS; i++)
        fds[i] = world.fds[0];
    world.supervisor.config.fds = fds;
    world.supervisor.config.fd_count = WORKER_MAX_FDS + 1;
    assert_int_equal(supervisor_start(&world.supervisor, 0, &err), STATUS_SOFTWARE);
    assert_string_equal(err.message, "a worker inherits at most 9 descriptors, not 10");
    world.supervisor.config.fd_count = WORKER_MAX_FDS;
    world.supervisor.config.rank_fds = fds;
    check_ok(world_start(&world, &err));
    world.control->orders[0] = INSPECT;
    check_ok(world_phase(&world, &err));
    assert_int_equal(world.control->open_descriptors, WORKER_FIRST_FD + WORKER_MAX_FDS + 1);
    world_down(&world);
}

static void a_worker_killed_at_work_departs_and_the_others_go_on(void **state) {
    (void)state;
    enum { WORKERS = 3 };
    Error err;
    World world;
    char text[4096];
    world_up(&world, WORKERS, 60);
    world.control->orders[1] = WORK_FOREVER;
    world.kill_rank = 1;
    check_ok(phase_with_log(&world, text, sizeof text, &err));
    assert_non_null(strstr(text, "rank 1 was killed by signal 9 (SIGKILL)"));
    assert_int_equal(world.supervisor.deaths, 1);
    assert_int_equal(world.reported_deaths, 1);
    assert_int_equal(world.reported_rank, 1);
    assert_true(world.departed_before_report);
    assert_int_equal(supervisor_alive(&world.supervisor), WORKERS - 1);
    assert_int_equal(world.supervisor.workers[1].state, WORKER_DEAD);
    assert_int_equal(WTERMSIG(world.supervisor.workers[1].exit_status), SIGKILL);

    world.kill_rank = -1;
    check_ok(world_phase(&world, &err));
    assert_int_equal(world.supervisor.deaths, 0);
    assert_int_equal(atomic_load(&world.control->phases_done[2]), 2);
    world_down(&world);
}

static void a_stopped_worker_is_warned_about_then_killed(void **state) {
    (void)state;
    Error err;
    World world;
    char text[4096];
    world_up(&world, 2, 60);
    world.control->orders[0] = WORK_FOREVER;
    world.last_rank = 0;
    world.stops_last = true;
    check_ok(phase_with_log(&world, text, sizeof text, &err));
    assert_non_null(strstr(text, "rank 0 has made no progress for "));
    const char *warning = strstr(text, "s and will be killed after 2 s");
    const char *killing = strstr(text, "s and is killed");
    assert_true(warning && killing && warning < killing);
    assert_null(strstr(text, "rank 1"));
    assert_int_equal(WTERMSIG(world.supervisor.workers[0].exit_status), SIGKILL);
    assert_int_equal(supervisor_alive(&world.supervisor), 1);
    world_down(&world);
}

static void a_worker_that_hangs_while_starting_is_killed(void **state) {
    (void)state;
    Error err;
    World world;
    char text[4096];
    check_ok(world_init(&world, 2, 60, &err));
    world.control->orders[1] = HANG_WHEN_STARTED;
    world.last_rank = 1;
    LogCapture capture = capture_begin();
    Status status = world_start(&world, &err);
    capture_end(&capture, text, sizeof text);
    assert_int_equal(status, STATUS_OK);
    assert_non_null(strstr(text, "rank 1 was killed by signal 9 (SIGKILL) while starting"));
    assert_int_equal(world.supervisor.workers[0].state, WORKER_RUNNING);
    assert_false(world.supervisor.workers[1].was_ready);
    world_down(&world);
}

static void time_in_which_the_parent_was_not_looking_is_not_held_against_a_worker(void **state) {
    (void)state;
    Error err;
    World world;
    world_up(&world, 1, 60);
    world.supervisor.config.hang_seconds = 2.1;    // more than two ticks can amount to
    world.supervisor.workers[0].still_seconds = 0; // what a slow machine took to start it
    world.control->orders[0] = HANG_UNTIL_TOLD;
    world.first_tick_milliseconds = 2500;
    world.tell_at_tick = 2;
    check_ok(world_phase(&world, &err));
    assert_int_equal(supervisor_alive(&world.supervisor), 1);
    world_down(&world);
}

// Always. Whatever the machine does to rank 1, it has made progress when the supervisor looks again.
static bool is_enough_while_rank_1_goes_on(void *context) {
    World *world = context;
    atomic_fetch_add(&world->control->pulses[1].progress, 1);
    return true;
}

static void a_worker_that_hangs_is_killed_where_every_wait_is_shorter_than_a_tick(void **state) {
    (void)state;
    enum { TURNS = 1500, TURN_MILLISECONDS = 10 };
    Error err;
    World world;
    world_up(&world, 2, 60);
    world.supervisor.config.hang_seconds = 2;
    for (int rank = 0; rank < 2; rank++)
        world.supervisor.workers[rank].still_seconds = 0; // what a slow machine took to start them
    world.control->orders[0] = HANG;
    world.control->orders[1] = WORK_FOREVER;
    world.supervisor.config.is_enough = is_enough_while_rank_1_goes_on;
    LogCapture capture = capture_begin();
    supervisor_release(&world.supervisor);
    for (int turn = 0; turn < TURNS && world.supervisor.workers[0].state != WORKER_DEAD; turn++) {
        check_ok(supervisor_gather(&world.supervisor, &err));
        sleep_milliseconds(TURN_MILLISECONDS);
    }
    char text[4096];
    capture_end(&capture, text, sizeof text);
    assert_int_equal(world.supervisor.workers[0].state, WORKER_DEAD);
    assert_int_equal(world.supervisor.workers[1].state, WORKER_RUNNING);
    assert_non_null(strstr(text, "rank 0 has made no progress for "));
    assert_true(world.ticks > 1);
    world_down(&world);
}

static void a_worker_that_cannot_start_is_quoted(void **state) {
    (void)state;
    Error err;
    World world;
    char text[4096];
    check_ok(world_init(&world, 3, 60, &err));
    world.control->orders[2] = FAIL_TO_START;
    LogCapture capture = capture_begin();
    Status status = world_start(&world, &err);
    capture_end(&capture, text, sizeof text);
    assert_int_equal(status, STATUS_OK);
    assert_non_null(strstr(text, "rank 2 exited with code 66 while starting: the data set is not there"));
    assert_int_equal(supervisor_alive(&world.supervisor), 2);

    world.control->orders[2] = WORK;
    check_ok(supervisor_start(&world.supervisor, 2, &err));
    check_ok(world_phase(&world, &err));
    assert_int_equal(world.supervisor.workers[2].restarts, 1);
    assert_string_equal(world.supervisor.workers[2].message, "");
    assert_int_equal(atomic_load(&world.control->phases_done[2]), 1);
    world_down(&world);
}

static void leaving_early_is_a_death_even_with_exit_code_zero(void **state) {
    (void)state;
    Error err;
    World world;
    char text[4096];
    world_up(&world, 2, 60);
    world.control->orders[0] = EXIT_ZERO;
    check_ok(phase_with_log(&world, text, sizeof text, &err));
    assert_non_null(strstr(text, "rank 0 exited with code 0"));
    assert_int_equal(world.supervisor.deaths, 1);
    world_down(&world);
}

static void when_nobody_is_left_the_wait_ends_and_new_workers_may_begin(void **state) {
    (void)state;
    enum { WORKERS = 2 };
    Error err = {0};
    World world;
    char text[4096];
    check_ok(world_init(&world, WORKERS, 60, &err));
    assert_int_equal(supervisor_gather(&world.supervisor, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.message, "no worker has been started");
    check_ok(world_start(&world, &err));
    world.control->orders[0] = EXIT_ZERO;
    world.control->orders[1] = WORK_FOREVER;
    world.kill_rank = 1;
    assert_int_equal(phase_with_log(&world, text, sizeof text, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "all 2 workers have died (last: rank "));

    world.control->orders[0] = world.control->orders[1] = WORK;
    world.kill_rank = -1;
    check_ok(world_start(&world, &err));
    check_ok(world_phase(&world, &err));
    assert_int_equal(supervisor_alive(&world.supervisor), WORKERS);
    world_down(&world);
}

static void the_first_interrupt_is_counted_and_the_second_ends_the_wait(void **state) {
    (void)state;
    Error err = {0};
    World world;
    world_up(&world, 2, 60);
    world.control->orders[0] = HANG_UNTIL_TOLD;
    world.interrupts_to_raise = 1;
    world.tell_at_tick = 2;
    check_ok(world_phase(&world, &err));
    assert_int_equal(world.supervisor.interrupts, 1);
    assert_int_equal(world.supervisor.last_signal, SIGINT);

    kill(getpid(), SIGINT); // at once: the echo of the first
    assert_int_equal(supervisor_interrupts(&world.supervisor), 1);

    world.control->orders[0] = HANG;
    world.supervisor.of_others.last_nanoseconds -= STOP_ECHO_MILLISECONDS * UINT64_C(1000000);
    kill(getpid(), SIGTERM);
    assert_int_equal(world_phase(&world, &err), STATUS_CANCELLED);
    assert_int_equal(world.supervisor.interrupts, 2);
    assert_int_equal(world.supervisor.last_signal, SIGTERM);
    world.supervisor.of_others.last_nanoseconds -= STOP_ECHO_MILLISECONDS * UINT64_C(1000000);
    kill(getpid(), SIGINT); // comes too late to be gathered, and must not kill us
    world_down(&world);
    assert_int_equal(world.supervisor.interrupts, 3);
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    assert_false(sigismember(&blocked, SIGINT));
}

static void a_worker_is_only_started_when_it_is_due(void **state) {
    (void)state;
    Error err = {0};
    World world;
    world_up(&world, 1, 60);
    assert_int_equal(supervisor_start(&world.supervisor, 0, &err), STATUS_SOFTWARE);
    assert_non_null(strstr(err.message, "running already"));
    world_down(&world);

    check_ok(world_init(&world, 2, 60, &err));
    world.control->orders[0] = HANG_WHEN_STARTED;
    check_ok(supervisor_start(&world.supervisor, 0, &err));
    supervisor_release(&world.supervisor); // the barrier stays closed, since rank 0 has not arrived
    assert_int_equal(supervisor_start(&world.supervisor, 1, &err), STATUS_SOFTWARE);
    assert_non_null(strstr(err.message, "between gather and release"));
    world_down(&world);
}

static void a_worker_whose_parent_died_before_it_attached_does_not_start(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        Error err = {0};
        if (worker_attach(getppid(), &err) != STATUS_OK) _exit(1);
        if (worker_attach(getppid() + 1, &err) != STATUS_PEER_DIED) _exit(2); // a stranger's, as if ours were dead
        _exit(0);
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
}

static void a_barrier_of_another_size_is_refused(void **state) {
    (void)state;
    Error err = {0};
    Supervisor supervisor;
    Barrier *barrier = aligned_alloc(64, sizeof *barrier);
    assert_non_null(barrier);
    barrier_init(barrier, 4, 0);
    SupervisorConfig config = {.workers = 4, .barrier = barrier};
    assert_int_equal(supervisor_init(&supervisor, &config, &err), STATUS_SOFTWARE);
    assert_non_null(strstr(err.message, "do not fit a barrier of 4 ranks"));
    free(barrier);
}

// The rest happens in a child whose limits may be lowered for good. Its exit code is the line that failed.
static int start_many_workers_with_few_descriptors(rlim_t soft, rlim_t hard, Status expected) {
    Error err = {0};
    World world;
    struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return __LINE__ % 256;
    if (world_init(&world, WORKERS_MAX, 60, &err) != expected) return __LINE__ % 256;
    if (expected == STATUS_OK) {
        getrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_cur < 2 * WORKERS_MAX) return __LINE__ % 256;
        if (world_start(&world, &err) != STATUS_OK) return __LINE__ % 256;
        if (supervisor_alive(&world.supervisor) != WORKERS_MAX) return __LINE__ % 256;
        world_free(&world);
    } else {
        if (!strstr(err.message, "64 workers need ") || !strstr(err.message, "the limit is 100")) return __LINE__ % 256;
        if (waitpid(-1, NULL, 0) != -1 || errno != ECHILD) return __LINE__ % 256; // failed before spawning
    }
    return 0;
}

static void assert_child_succeeds(rlim_t soft, rlim_t hard, Status expected) {
    pid_t child = fork();
    if (child == 0) {
        deadline_join();
        _exit(start_many_workers_with_few_descriptors(soft, hard, expected));
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
}

static void a_limit_of_open_files_too_low_is_raised_or_named(void **state) {
    (void)state;
    assert_child_succeeds(100, 1000, STATUS_OK);
    assert_child_succeeds(50, 100, STATUS_OS);
}

int main(int argc, char **argv) {
    if (is_worker(argc, argv)) return worker_main(argv);
    deadline_set(100);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_workers_do_every_phase_and_stand_still_in_between),
        cmocka_unit_test(a_worker_finds_its_descriptors_and_nothing_else),
        cmocka_unit_test(a_worker_inherits_its_descriptors_and_no_more_than_there_is_room_for),
        cmocka_unit_test(a_worker_killed_at_work_departs_and_the_others_go_on),
        cmocka_unit_test(a_stopped_worker_is_warned_about_then_killed),
        cmocka_unit_test(a_worker_that_hangs_while_starting_is_killed),
        cmocka_unit_test(time_in_which_the_parent_was_not_looking_is_not_held_against_a_worker),
        cmocka_unit_test(a_worker_that_hangs_is_killed_where_every_wait_is_shorter_than_a_tick),
        cmocka_unit_test(a_worker_that_cannot_start_is_quoted),
        cmocka_unit_test(leaving_early_is_a_death_even_with_exit_code_zero),
        cmocka_unit_test(when_nobody_is_left_the_wait_ends_and_new_workers_may_begin),
        cmocka_unit_test(the_first_interrupt_is_counted_and_the_second_ends_the_wait),
        cmocka_unit_test(a_worker_is_only_started_when_it_is_due),
        cmocka_unit_test(a_worker_whose_parent_died_before_it_attached_does_not_start),
        cmocka_unit_test(a_barrier_of_another_size_is_refused),
        cmocka_unit_test(a_limit_of_open_files_too_low_is_raised_or_named),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
