// Files about clients: each line that does not fit is refused with its number, and what is no file is not waited for.
#include "fedavg/memory/world_files.h"

#include <sys/stat.h>

#include "tests/scratch.h"

static void refuse(const char *folder, bool is_pace, const void *text, size_t bytes, const char *sentence) {
    char path[SCRATCH_PATH_BYTES];
    WorldFiles files;
    Error err = {.message = ""};
    scratch_write(scratch_path(path, folder, "file"), text, bytes);
    assert_int_equal(world_files_read(&files, is_pace ? path : "", is_pace ? "" : path, NULL, 2, &err), STATUS_DATA);
    if (!strstr(err.message, sentence)) fail_msg("\"%s\" does not say \"%s\"", err.message, sentence);
}

static void numbers_out_of_range_are_refused(void **state) {
    static const char forever[] = "0 1e308 0\n1 1 0\n", nothing[] = "0 5 7\n1 7 7\n", late[] = "0 1e300 1e301\n",
                      cut[] = "0 1 2\n1 3\0 4\n";
    refuse(*state, true, forever, sizeof forever - 1, ":1: more than 10^15 microseconds");
    refuse(*state, true, cut, sizeof cut - 1, ":2: a byte that is 0; a line is \"CLIENT MICROSECONDS BYTES\"");
    refuse(*state, false, cut, sizeof cut - 1, ":2: a byte that is 0");
    refuse(*state, false, nothing, sizeof nothing - 1, ":2: END is not after BEGIN");
    refuse(*state, false, late, sizeof late - 1, ":1: more than 10^12 seconds");
}

static void a_named_pipe_is_refused_at_once(void **state) {
    char path[SCRATCH_PATH_BYTES];
    WorldFiles files;
    Error err;
    assert_int_equal(mkfifo(scratch_path(path, *state, "pipe"), 0600), 0);
    const char *const places[][3] = {{path, "", NULL}, {"", path, NULL}, {"", "", path}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(world_files_read(&files, places[i][0], places[i][1], places[i][2], 2, &err), STATUS_NOINPUT);
        assert_non_null(strstr(err.message, "pipe is no regular file; save what it gives in one"));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_out_of_range_are_refused, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_named_pipe_is_refused_at_once, scratch_set_up, scratch_tear_down),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
