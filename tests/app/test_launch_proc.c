// What /proc tells of a rank's processes, also of one that has ended.
#include "app/launch/launch_proc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

// A child that waits for a signal.
static pid_t start_waiting(void) {
    const pid_t pid = fork();
    if (pid > 0) return pid;
    for (;;)
        pause();
}

static void a_process_tells_what_it_uses_and_where_it_waits(void **state) {
    (void)state;
    char name[PROCESS_NAME_BYTES], own[PROCESS_NAME_BYTES];
    ProcessWait wait = {.text = ""};
    const pid_t pid = start_waiting();
    assert_true(process_use(getpid()).bytes > 0);
    for (int tries = 0; tries < 60000 && !process_wait(&wait, pid); tries++)
        usleep(1000);
    assert_true(wait.text[0] && !wait.may_be_freed);
    process_name(name, pid);
    process_name(own, getpid());
    assert_string_equal(name, own);
    const ProcessList children = process_children(getpid());
    assert_true(children.count == 1 && children.pids[0] == pid);
    free(children.pids);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_process_that_has_ended_has_used_nothing(void **state) {
    (void)state;
    char name[PROCESS_NAME_BYTES];
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    const ProcessUse use = process_use(pid);
    assert_true(use.cpu_seconds == 0 && use.bytes == 0);
    process_name(name, pid);
    assert_string_equal(name, "?");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_tells_what_it_uses_and_where_it_waits),
        cmocka_unit_test(a_process_that_has_ended_has_used_nothing),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
