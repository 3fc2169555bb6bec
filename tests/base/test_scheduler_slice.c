// Longer time slices on a shared core: the request, and that it changes nothing else.
#include "base/cores.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/check.h"

// What the scheduler knows about this process.
static struct sched_attr scheduling(void) {
    struct sched_attr attributes = {0};
    assert_int_equal(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0), 0);
    return attributes;
}

static void slices_become_longer_and_nothing_else_changes(void **state) {
    (void)state;
    const int nicer = getpriority(PRIO_PROCESS, 0) + 5; // only root may be less nice than it was
    assert_int_equal(setpriority(PRIO_PROCESS, 0, nicer < 19 ? nicer : 19), 0);
    struct sched_attr before = scheduling();
    if (before.sched_policy != SCHED_NORMAL) {
        print_message("skipped: the test was started under scheduling policy %u, not SCHED_NORMAL\n",
                      before.sched_policy);
        skip();
    }
    scheduler_slice_request();
    struct sched_attr after = scheduling();
    // A kernel before 6.12 has no slices and returns 0.
    if (before.sched_runtime > 0) assert_int_equal(after.sched_runtime, SCHEDULER_SLICE_MILLISECONDS * 1000000);
    assert_int_equal(after.sched_nice, getpriority(PRIO_PROCESS, 0));
    after.sched_runtime = before.sched_runtime;
    assert_memory_equal(&before, &after, sizeof before);
}

static void a_process_of_another_policy_is_left_alone(void **state) {
    (void)state;
    struct sched_attr idle = {.size = sizeof idle, .sched_policy = SCHED_IDLE};
    assert_int_equal(syscall(SYS_sched_setattr, 0, &idle, 0), 0);
    struct sched_attr before = scheduling();
    scheduler_slice_request();
    struct sched_attr after = scheduling();
    assert_memory_equal(&before, &after, sizeof before);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_become_longer_and_nothing_else_changes),
        cmocka_unit_test(a_process_of_another_policy_is_left_alone),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
