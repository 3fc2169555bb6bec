// A control group's memory limit, and its count of processes killed for memory: in a mount namespace whose
// /sys/fs/cgroup is ours to write.
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "own_folder.h"
#include "tests/check.h"
#include "tests/deadline.h"
#include "world.h"

enum { CHILD_SKIPPED = 77 };

static const char limits[] = "/sys/fs/cgroup";

// In both versions' places: which of them the kernel names in /proc/self/cgroup depends on the machine.
static void write_limit(const char *first, const char *second, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/memory/%s", limits, first);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) != 0) _exit(100);
    snprintf(path, sizeof path, "%s/%s", limits, second);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) != 0) _exit(101);
}

static void count_kills(const char *text) {
    write_limit("memory.oom_control", "memory.events", text);
}

// Returns the result of the test's function if /sys/fs/cgroup may be mounted over, else CHILD_SKIPPED.
static int in_group_of_our_own(int (*test)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        deadline_join();
        if (!own_folder_at(limits, NULL) || mkdir("/sys/fs/cgroup/memory", 0700) != 0) _exit(CHILD_SKIPPED);
        _exit(test());
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    return WEXITSTATUS(exit_status);
}

static int ask_for_more_than_the_limit(void) {
    Error err = {.message = ""};
    Segment segment;
    if (segment_available() < 10000000) return 1; // the machine's, which has no such limit
    write_limit("memory.limit_in_bytes", "memory.max", "5000000\n");
    write_limit("memory.usage_in_bytes", "memory.current", "2000000\n");
    if (segment_available() != 3000000) return 2;
    if (segment_create(&segment, "weights", 3100000, &err) != STATUS_OS) return 3;
    if (!strstr(err.message, "segment weights needs 3100064 bytes of shared memory, where 3000000 are available"))
        return 4;
    if (segment_create(&segment, "weights", 2900000, &err) != STATUS_OK) return 5;
    segment_free(&segment);
    return 0;
}

static void what_a_group_has_left_is_all_that_is_available(void **state) {
    (void)state;
    const int result = in_group_of_our_own(ask_for_more_than_the_limit);
    if (result == CHILD_SKIPPED) skip(); // not allowed to mount
    assert_int_equal(result, 0);
}

// One phase in which rank 1 is killed; whether the log's line tells of the kernel.
static bool kernel_is_blamed(World *world, bool *told) {
    Error err;
    char text[4096] = "";
    int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
    dup2(log, STDERR_FILENO);
    world->control->orders[1] = WORK_FOREVER;
    world->kill_rank = 1;
    bool ok = world_phase(world, &err) == STATUS_OK;
    dup2(saved, STDERR_FILENO);
    ok = ok && pread(log, text, sizeof text - 1, 0) > 0 && strstr(text, "rank 1 was killed by signal 9 (SIGKILL)");
    *told = strstr(text, "by the kernel, as memory ran out") != NULL;
    close(saved);
    close(log);
    return ok;
}

static int lose_a_worker_twice(void) {
    Error err;
    World world;
    bool told;
    count_kills("oom_kill 3\n");
    if (world_init(&world, 2, 60, &err) != STATUS_OK || world_start(&world, &err) != STATUS_OK) return 1;
    if (!kernel_is_blamed(&world, &told) || told) return 2;
    if (world_start(&world, &err) != STATUS_OK) return 3;
    count_kills("oom_kill 4\n");
    if (!kernel_is_blamed(&world, &told) || !told) return 4;
    world_free(&world);
    return 0;
}

static void a_worker_that_the_kernel_has_killed_for_memory_is_told_apart(void **state) {
    (void)state;
    const int result = in_group_of_our_own(lose_a_worker_twice);
    if (result == CHILD_SKIPPED) skip(); // not allowed to mount
    assert_int_equal(result, 0);
}

int main(int argc, char **argv) {
    if (is_worker(argc, argv)) return worker_main(argv);
    deadline_set(60);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_group_has_left_is_all_that_is_available),
        cmocka_unit_test(a_worker_that_the_kernel_has_killed_for_memory_is_told_apart),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
