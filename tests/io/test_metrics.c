// Metrics: whole lines only, and a run that goes on drops exactly what it will write again.
#include "io/metrics.h"

#include <errno.h>
#include <fcntl.h>
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

static Folder open_folder(void **state) {
    Folder folder = {.fd = open(*state, O_RDONLY | O_DIRECTORY), .path = *state};
    assert_true(folder.fd >= 0);
    return folder;
}

static const char *metrics_path(char path[SCRATCH_PATH_BYTES], void **state) {
    return scratch_path(path, *state, "metrics.jsonl");
}

static void begin_new(Metrics *metrics, char path[SCRATCH_PATH_BYTES], void **state) {
    Error err;
    Folder folder = open_folder(state);
    unlink(metrics_path(path, state));
    check_ok(metrics_create(metrics, &folder, &err));
    close(folder.fd);
}

static Status append_round(Metrics *metrics, int64_t round, Error *err) {
    JsonObject line;
    json_begin(&line);
    put_whole(&line, "round", round);
    return metrics_append(metrics, &line, err);
}

static Status reopen(Metrics *metrics, void **state, uint32_t rounds_done, Error *err) {
    Folder folder = open_folder(state);
    Status status = metrics_reopen(metrics, &folder, rounds_done, err);
    close(folder.fd);
    return status;
}

// Writes `before`, opens the file to go on after rounds_done and expects `after`.
static void expect_reopened(void **state, const char *before, uint32_t rounds_done, const char *after) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    Error err;
    scratch_write(metrics_path(path, state), before, strlen(before));
    check_ok(reopen(&metrics, state, rounds_done, &err));
    metrics_close(&metrics);
    expect_contents(path, after);
}

static void lines_are_appended_in_order(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    JsonObject line;
    Error err;
    begin_new(&metrics, path, state);
    expect_contents(path, "");
    json_begin(&line);
    put_whole(&line, "round", 1);
    put_real(&line, "loss", 0.5);
    check_ok(metrics_append(&metrics, &line, &err));
    expect_contents(path, "{\"round\":1,\"loss\":0.5}\n"); // at once, not when it is closed
    json_begin(&line);
    put_text(&line, "text", "two\nlines");
    check_ok(metrics_append(&metrics, &line, &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"round\":1,\"loss\":0.5}\n{\"text\":\"two\\nlines\"}\n");
    check_ok(reopen(&metrics, state, 1, &err));
    check_ok(append_round(&metrics, 2, &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"round\":1,\"loss\":0.5}\n{\"text\":\"two\\nlines\"}\n{\"round\":2}\n");
}

static void a_line_begins_with_its_type_and_the_time(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    JsonObject line;
    Error err;
    int year, month, day, hour, minute, milliseconds, end = 0;
    double seconds;
    begin_new(&metrics, path, state);
    metrics_begin(&line, "round");
    check_ok(metrics_append(&metrics, &line, &err));
    metrics_close(&metrics);
    size_t count;
    char *text = scratch_read(path, &count);
    assert_int_equal(sscanf(text, "{\"type\":\"round\",\"time\":\"%4d-%2d-%2dT%2d:%2d:%2lf.%3dZ\"}%n", &year, &month,
                            &day, &hour, &minute, &seconds, &milliseconds, &end) >= 6,
                     1);
    assert_true(year > 2020 && strlen(text) == strlen("{'type':'round','time':'2026-11-22T01:18:15.123Z'}\n"));
    free(text);
}

static void numbers_that_json_does_not_have_become_null(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    JsonObject line;
    Error err;
    begin_new(&metrics, path, state);
    json_begin(&line);
    put_reals(&line, "values", (double[]){NAN, INFINITY, -INFINITY, 1.25}, 4);
    put_real(&line, "value", NAN);
    check_ok(metrics_append(&metrics, &line, &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"values\":[null,null,null,1.25],\"value\":null}\n");
}

static void going_on_drops_later_rounds_and_the_summary(void **state) {
    expect_reopened(state,
                    "{\"round\":0}\n{\"round\":1}\n{\"client\":3,\"round\":2}\n{\"client\":4,\"round\":3}\n"
                    "{\"type\":\"host\"}\n{\"type\":\"summary\",\"seconds\":1}\n{\"round\":2}\n",
                    2,
                    "{\"round\":0}\n{\"round\":1}\n{\"client\":3,\"round\":2}\n{\"type\":\"host\"}\n{\"round\":2}\n");
    expect_reopened(state, "{\"round\":1}\n", 0, "");
    expect_reopened(state, "{\"round\":4294967296}\n", UINT32_MAX, "");
}

static void a_torn_last_line_is_removed(void **state) {
    const char whole[] = "{\"round\":1}\n{\"round\":2}\n";
    for (size_t length = 0; length < sizeof whole; length++) {
        char torn[sizeof whole];
        memcpy(torn, whole, length);
        torn[length] = '\0';
        expect_reopened(state, torn, 2, length < 12 ? "" : length < 24 ? "{\"round\":1}\n" : whole);
    }
}

static void a_line_that_is_no_object_is_removed(void **state) {
    expect_reopened(state, "{\"round\":1}\n{\"rou\n\n[1]\n{\"round\":2}\n", 2, "{\"round\":1}\n{\"round\":2}\n");
}

static void a_file_with_nothing_to_remove_is_left_alone(void **state) {
    char path[SCRATCH_PATH_BYTES];
    struct stat before, after;
    scratch_write(metrics_path(path, state), "{\"round\":1}\n", 12);
    assert_int_equal(stat(path, &before), 0);
    Metrics metrics;
    Error err;
    check_ok(reopen(&metrics, state, 1, &err));
    metrics_close(&metrics);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void a_full_disk_is_reported_and_leaves_whole_lines(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics;
    struct rlimit before, limit;
    Error err;
    begin_new(&metrics, path, state);
    check_ok(append_round(&metrics, 1, &err));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 20; // within the next line
    setrlimit(RLIMIT_FSIZE, &limit);
    Status torn = append_round(&metrics, 2, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(torn, STATUS_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, strerror(EFBIG))); // not what a full disk would be
    expect_contents(path, "{\"round\":1}\n");
    check_ok(append_round(&metrics, 2, &err));
    metrics_close(&metrics);
    expect_contents(path, "{\"round\":1}\n{\"round\":2}\n");
}

static void what_cannot_be_a_line_or_a_file_is_refused(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Metrics metrics, second;
    JsonObject line;
    Error err;
    begin_new(&metrics, path, state);
    json_begin(&line);
    put_text(&line, "text", "\xff");
    put_whole(&line, "round", 1);
    assert_int_equal(metrics_append(&metrics, &line, &err), STATUS_SOFTWARE);
    assert_non_null(strstr(err.message, "text is not UTF-8"));
    Folder folder = open_folder(state);
    assert_int_equal(metrics_create(&second, &folder, &err), STATUS_CANTCREATE); // it is another run's
    assert_non_null(strstr(err.message, path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("elsewhere", path), 0); // leads out of the folder
    assert_int_equal(metrics_reopen(&second, &folder, 0, &err), STATUS_IO);
    assert_int_equal(metrics_create(&second, &folder, &err), STATUS_CANTCREATE);
    assert_int_equal(unlink(path), 0);
    metrics_close(&metrics);
    close(folder.fd);
}

static void the_past_is_the_last_start_and_the_last_round(void **state) {
    char path[SCRATCH_PATH_BYTES];
    const char text[] = "{\"type\":\"start\",\"clients\":1}\n{\"type\":\"round\",\"round\":4}\n{\"type\":\"start\","
                        "\"clients\":2}\n{\"type\":\"client\",\"round\":9}\nno JSON\n{\"type\":\"round\",\"round\":5}\n"
                        "{\"type\":\"round\",\"rou";
    MetricsPast past;
    Error err;
    Folder folder = open_folder(state);
    scratch_write(metrics_path(path, state), text, strlen(text));
    check_ok(metrics_past(&past, &folder, &err));
    assert_int_equal(past.round, 5);
    assert_int_equal(json_integer_value(json_object_get(past.start, "clients")), 2);
    assert_null(past.summary);
    metrics_past_free(&past);
    assert_int_equal(unlink(path), 0);
    check_ok(metrics_past(&past, &folder, &err));
    assert_null(past.start);
    assert_int_equal(past.round, 0);
    close(folder.fd);
}

static void a_summary_is_of_the_past_only_as_the_last_line(void **state) {
    char path[SCRATCH_PATH_BYTES];
    MetricsPast past;
    Error err;
    Folder folder = open_folder(state);
    const char *const ends[] = {"", "{\"type\":\"rou", "{\"type\":\"start\"}\n"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"type\":\"start\"}\n{\"type\":\"summary\",\"rounds\":3}\n%s", ends[i]);
        scratch_write(metrics_path(path, state), text, strlen(text));
        check_ok(metrics_past(&past, &folder, &err));
        assert_int_equal(json_integer_value(json_object_get(past.summary, "rounds")), i < 2 ? 3 : 0);
        metrics_past_free(&past);
    }
    close(folder.fd);
}

// stderr goes into a file of the scratch folder until its text is taken.
static int divert_stderr(const char *folder) {
    char path[SCRATCH_PATH_BYTES];
    const int saved = dup(STDERR_FILENO),
              file = open(scratch_path(path, folder, "log"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    return saved;
}

static char *take_stderr(int saved, const char *folder) {
    char path[SCRATCH_PATH_BYTES];
    size_t bytes;
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    return scratch_read(scratch_path(path, folder, "log"), &bytes);
}

// Each reader leaves these out, and says so once, with the first of them.
static void damaged_lines_are_named(void **state) {
    static const char *const damages[] = {"no JSON",
                                          "[1]",
                                          "{\"type\":5}",
                                          "{\"type\":\"round\",\"round\":-5}",
                                          "{\"type\":\"round\",\"round\":\"7\"}",
                                          "{\"type\":\"round\",\"round\":4294967296}",
                                          "{\"type\":\"\xff\"}"};
    char path[SCRATCH_PATH_BYTES], wanted[2 * SCRATCH_PATH_BYTES];
    MetricsPast past;
    Error err;
    Folder folder = open_folder(state);
    log_init(LOG_WARNING, LOG_RANK_PARENT);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"type\":\"start\"}\n%s\n{\"type\":\"round\",\"round\":2}\n%s\n{\"torn\":", damages[i], damages[i]);
        scratch_write(metrics_path(path, state), text, strlen(text));
        const int saved = divert_stderr(*state);
        check_ok(metrics_past(&past, &folder, &err));
        char *log = take_stderr(saved, *state);
        assert_int_equal(past.round, 2);
        metrics_past_free(&past);
        snprintf(wanted, sizeof wanted, "%s, line 2: damaged (", path);
        const char *first = strstr(log, wanted);
        if (!first || strstr(first + strlen(wanted), ", line ")) fail_msg("%s: %s", damages[i], log);
        free(log);
    }
    close(folder.fd);
}

// A folder from elsewhere may lead to other files of the user's.
static void nothing_is_written_into_a_file_that_has_another_name(void **state) {
    char path[SCRATCH_PATH_BYTES], other[SCRATCH_PATH_BYTES];
    Metrics metrics;
    Error err;
    scratch_write(scratch_path(other, *state, "other"), "{\"round\":1}\n", 12);
    unlink(metrics_path(path, state));
    assert_int_equal(link(other, path), 0);
    assert_int_equal(reopen(&metrics, state, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "has another name"));
    expect_contents(other, "{\"round\":1}\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_not_equal(reopen(&metrics, state, 1, &err), STATUS_OK); // and does not wait for a reader
    assert_int_equal(unlink(path), 0);
}

// jansson's allocator: the call after `allocations_left` others has no memory.
static long allocations_left = -1;

static void *failing_malloc(size_t bytes) {
    if (allocations_left-- != 0) return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

// Neither a line that is no JSON or lacks a field, nor a good line that is taken for a bad one.
static Status join_round(void *context, json_t *line, Error *err) {
    char *text = context;
    const size_t length = strlen(text);
    const json_int_t round = json_integer_value(json_object_get(line, "round"));
    snprintf(text + length, 64 - length, "%s%lld ", json_string_value(json_object_get(line, "type")), (long long)round);
    return round < 9 ? STATUS_OK : fail(err, STATUS_DATA, "enough");
}

static void note_seen(void *context, const json_t *line) {
    char *text = context;
    const size_t length = strlen(text);
    snprintf(text + length, 64 - length, "%lld ", (long long)json_integer_value(json_object_get(line, "round")));
}

typedef struct Growth {
    const char *path;
    int seen;
} Growth;

static Status add_another(void *context, json_t *line, Error *err) {
    Growth *growth = context;
    (void)line;
    FILE *file = fopen(growth->path, "ae");
    assert_non_null(file);
    fputs("{\"type\":\"round\",\"round\":1}\n", file);
    fclose(file);
    return ++growth->seen < 100000 ? STATUS_OK : fail(err, STATUS_DATA, "there is no end");
}

static void a_visit_ends_though_each_line_that_is_read_brings_another(void **state) {
    static const char *const types[] = {"round", NULL};
    char path[SCRATCH_PATH_BYTES], lines[16 * 1024] = "";
    const char line[] = "{\"type\":\"round\",\"round\":1}\n";
    size_t bytes = 0;
    for (; bytes + sizeof line < sizeof lines; bytes += sizeof line - 1) // more than a FILE reads ahead
        memcpy(lines + bytes, line, sizeof line - 1);
    Error err;
    Folder folder = open_folder(state);
    scratch_write(metrics_path(path, state), lines, bytes);
    Growth growth = {.path = path};
    check_ok(metrics_visit(&folder, types, add_another, &growth, &err));
    assert_int_equal(growth.seen, bytes / (sizeof line - 1));
    close(folder.fd);
}

static void a_visit_sees_whole_lines_of_its_types_in_order_until_it_fails(void **state) {
    static const char *const types[] = {"round", "end", NULL};
    char path[SCRATCH_PATH_BYTES], seen[64] = "";
    const char lines[] = "{\"type\":\"round\",\"round\":1}\n{\"type\":\"client\",\"round\":2}\nno line\n"
                         "{ \"round\": 3, \"type\": \"end\" }\n{\"type\":\"rounds\",\"round\":4}\n{\"round\":5}\n"
                         "{\"type\":\"end\",\"round\":6}\n{\"type\":\"round\",\"round\":7";
    Error err;
    Folder folder = open_folder(state);
    scratch_write(metrics_path(path, state), lines, sizeof lines - 1);
    check_ok(metrics_visit(&folder, types, join_round, seen, &err));
    assert_string_equal(seen, "round1 end3 end6 ");
    const char end[] = "{\"type\":\"end\",\"round\":9}\n{\"type\":\"end\",\"round\":1}\n";
    scratch_write(path, end, sizeof end - 1);
    seen[0] = '\0';
    assert_int_equal(metrics_visit(&folder, types, join_round, seen, &err), STATUS_DATA);
    assert_string_equal(seen, "end9 ");
    unlink(path);
    check_ok(metrics_visit(&folder, types, join_round, seen, &err));
    assert_string_equal(seen, "end9 ");
    close(folder.fd);
}

static void who_looks_sees_each_line_that_was_written(void **state) {
    char path[SCRATCH_PATH_BYTES], seen[64] = "";
    Metrics metrics;
    Error err;
    begin_new(&metrics, path, state);
    check_ok(append_round(&metrics, 1, &err));
    metrics.on_line = note_seen;
    metrics.context = seen;
    check_ok(append_round(&metrics, 2, &err));
    check_ok(append_round(&metrics, 3, &err));
    metrics_close(&metrics);
    assert_string_equal(seen, "2 3 ");
}

static void a_failed_allocation_spoils_no_line(void **state) {
    char path[SCRATCH_PATH_BYTES];
    const char expected[] = "{\"rank\":1,\"loss\":0.25,\"seconds\":[1.0,2.0]}\n";
    Metrics metrics;
    Error err;
    json_set_alloc_funcs(failing_malloc, free);
    long failures = 0;
    for (long k = 0; k < 100; k++) {
        JsonObject line;
        begin_new(&metrics, path, state);
        allocations_left = k;
        json_begin(&line);
        put_whole(&line, "rank", 1);
        put_real(&line, "loss", 0.25);
        put_reals(&line, "seconds", (double[]){1, 2}, 2);
        Status status = metrics_append(&metrics, &line, &err);
        allocations_left = -1;
        metrics_close(&metrics);
        assert_int_equal(status, status == STATUS_OK ? STATUS_OK : STATUS_OS);
        expect_contents(path, status == STATUS_OK ? expected : "");
        failures += status != STATUS_OK;
        scratch_write(path, expected, strlen(expected));
        allocations_left = k;
        status = reopen(&metrics, state, 1, &err);
        allocations_left = -1;
        if (status == STATUS_OK) metrics_close(&metrics);
        assert_int_equal(status, status == STATUS_OK ? STATUS_OK : STATUS_OS);
        expect_contents(path, expected);
        failures += status != STATUS_OK;
    }
    json_set_alloc_funcs(malloc, free);
    assert_in_range(failures, 10, 199);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_appended_in_order),
        cmocka_unit_test(a_line_begins_with_its_type_and_the_time),
        cmocka_unit_test(numbers_that_json_does_not_have_become_null),
        cmocka_unit_test(going_on_drops_later_rounds_and_the_summary),
        cmocka_unit_test(a_torn_last_line_is_removed),
        cmocka_unit_test(a_line_that_is_no_object_is_removed),
        cmocka_unit_test(a_file_with_nothing_to_remove_is_left_alone),
        cmocka_unit_test(a_full_disk_is_reported_and_leaves_whole_lines),
        cmocka_unit_test(what_cannot_be_a_line_or_a_file_is_refused),
        cmocka_unit_test(the_past_is_the_last_start_and_the_last_round),
        cmocka_unit_test(a_summary_is_of_the_past_only_as_the_last_line),
        cmocka_unit_test(damaged_lines_are_named),
        cmocka_unit_test(nothing_is_written_into_a_file_that_has_another_name),
        cmocka_unit_test(a_visit_sees_whole_lines_of_its_types_in_order_until_it_fails),
        cmocka_unit_test(a_visit_ends_though_each_line_that_is_read_brings_another),
        cmocka_unit_test(who_looks_sees_each_line_that_was_written),
        cmocka_unit_test(a_failed_allocation_spoils_no_line),
    };
    log_init(LOG_ERROR, LOG_RANK_PARENT); // the warnings about removed lines are wanted here
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}
