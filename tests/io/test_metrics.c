// Metrics: whole lines only, and a run that goes on drops exactly what it will write again.
#include "io/metrics.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "tests/scratch.h"

static void expect_contents(const char *path, const char *expected) {
    size_t count;
    char *bytes = scratch_read(path, &count);
    assert_string_equal(bytes, expected);
    free(bytes);
}

// Writes `before`, opens the file to go on after rounds_done and expects `after`.
static void expect_reopened(const char *path, const char *before, uint32_t rounds_done, const char *after) {
    Metrics metrics;
    Error err;
    scratch_write(path, before, strlen(before));
    check_ok(metrics_open(&metrics, path, rounds_done, &err));
    metrics_close(&metrics);
    expect_contents(path, after);
}

static void lines_are_appended_in_order(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    Error err;
    check_ok(metrics_open(&metrics, scratch_path(path, *state, "new.jsonl"), 0, &err));
    expect_contents(path, "");
    check_ok(metrics_append(&metrics, json_pack("{s:i, s:o}", "round", 1, "loss", metrics_real(0.5)), &err));
    expect_contents(path, "{\"round\":1,\"loss\":0.5}\n"); // at once, not when it is closed
    check_ok(metrics_append(&metrics, json_pack("{s:s}", "text", "two\nlines"), &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"round\":1,\"loss\":0.5}\n{\"text\":\"two\\nlines\"}\n");
    check_ok(metrics_open(&metrics, path, 1, &err));
    check_ok(metrics_append(&metrics, json_pack("{s:i}", "round", 2), &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"round\":1,\"loss\":0.5}\n{\"text\":\"two\\nlines\"}\n{\"round\":2}\n");
}

static void numbers_that_json_does_not_have_become_null(void **state) {
    (void)state;
    const double numbers[] = {NAN, INFINITY, -INFINITY, 1.25};
    for (int i = 0; i < 4; i++) {
        json_t *value = metrics_real(numbers[i]);
        assert_int_equal(json_is_null(value), i < 3);
        json_decref(value);
    }
}

static void going_on_drops_later_rounds_and_the_summary(void **state) {
    char path[SCRATCH_PATH_BYTES];
    scratch_path(path, *state, "resumed.jsonl");
    expect_reopened(path,
                    "{\"round\":0}\n{\"round\":1}\n{\"client\":3,\"round\":2}\n{\"client\":4,\"round\":3}\n"
                    "{\"type\":\"host\"}\n{\"type\":\"summary\",\"seconds\":1}\n{\"round\":2}\n",
                    2,
                    "{\"round\":0}\n{\"round\":1}\n{\"client\":3,\"round\":2}\n{\"type\":\"host\"}\n{\"round\":2}\n");
    expect_reopened(path, "{\"round\":1}\n", 0, "");
    expect_reopened(path, "{\"round\":4294967296}\n", UINT32_MAX, "");
}

static void a_torn_last_line_is_removed(void **state) {
    char path[SCRATCH_PATH_BYTES];
    const char whole[] = "{\"round\":1}\n{\"round\":2}\n";
    scratch_path(path, *state, "torn.jsonl");
    for (size_t length = 0; length < sizeof whole; length++) {
        char torn[sizeof whole];
        memcpy(torn, whole, length);
        torn[length] = '\0';
        expect_reopened(path, torn, 2, length < 12 ? "" : length < 24 ? "{\"round\":1}\n" : whole);
    }
}

static void a_line_that_is_no_object_is_removed(void **state) {
    char path[SCRATCH_PATH_BYTES];
    scratch_path(path, *state, "bad.jsonl");
    expect_reopened(path, "{\"round\":1}\n{\"rou\n\n[1]\n{\"round\":2}\n", 2, "{\"round\":1}\n{\"round\":2}\n");
}

static void a_file_with_nothing_to_remove_is_left_alone(void **state) {
    char path[SCRATCH_PATH_BYTES];
    struct stat before, after;
    scratch_path(path, *state, "same.jsonl");
    scratch_write(path, "{\"round\":1}\n", 12);
    assert_int_equal(stat(path, &before), 0);
    expect_reopened(path, "{\"round\":1}\n", 1, "{\"round\":1}\n");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void a_full_disk_is_reported_and_leaves_whole_lines(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    struct rlimit before, limit;
    Error err;
    check_ok(metrics_open(&metrics, scratch_path(path, *state, "full.jsonl"), 0, &err));
    check_ok(metrics_append(&metrics, json_pack("{s:i}", "round", 1), &err));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 20; // within the next line
    setrlimit(RLIMIT_FSIZE, &limit);
    Status torn = metrics_append(&metrics, json_pack("{s:i}", "round", 2), &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(torn, STATUS_IO);
    assert_non_null(strstr(err.message, path));
    expect_contents(path, "{\"round\":1}\n");
    check_ok(metrics_append(&metrics, json_pack("{s:i}", "round", 2), &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"round\":1}\n{\"round\":2}\n");
}

static void what_cannot_be_a_line_or_a_file_is_refused(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    Error err;
    check_ok(metrics_open(&metrics, scratch_path(path, *state, "refused.jsonl"), 0, &err));
    assert_int_equal(metrics_append(&metrics, NULL, &err), STATUS_SOFTWARE);
    assert_int_equal(metrics_append(&metrics, json_pack("{s:f}", "loss", (double)NAN), &err), STATUS_SOFTWARE);
    metrics_close(&metrics);
    expect_contents(path, "");
    assert_int_equal(metrics_open(&metrics, scratch_path(path, *state, "no/folder.jsonl"), 0, &err), STATUS_CANTCREATE);
    assert_non_null(strstr(err.message, path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_appended_in_order),
        cmocka_unit_test(numbers_that_json_does_not_have_become_null),
        cmocka_unit_test(going_on_drops_later_rounds_and_the_summary),
        cmocka_unit_test(a_torn_last_line_is_removed),
        cmocka_unit_test(a_line_that_is_no_object_is_removed),
        cmocka_unit_test(a_file_with_nothing_to_remove_is_left_alone),
        cmocka_unit_test(a_full_disk_is_reported_and_leaves_whole_lines),
        cmocka_unit_test(what_cannot_be_a_line_or_a_file_is_refused),
    };
    log_init(LOG_ERROR, LOG_RANK_PARENT); // the warnings about removed lines are wanted here
    return cmocka_run_group_tests_name("metrics", tests, scratch_set_up, scratch_tear_down);
}
