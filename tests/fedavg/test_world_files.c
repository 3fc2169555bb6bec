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
    refuse(*state, true, cut, sizeof cut - 1, ":2: a byte that is 0; a line is \"CLIENT MICROSECONDS BYTES [WATTS [LINK_WATTS]]\"");
    refuse(*state, false, cut, sizeof cut - 1, ":2: a byte that is 0");
    refuse(*state, false, nothing, sizeof nothing - 1, ":2: END is not after BEGIN");
    refuse(*state, false, late, sizeof late - 1, ":1: more than 10^12 seconds");
}

static void refuse_weights(const char *text, Status status, const char *sentence) {
    WorldFiles files = {.clients = 2};
    Error err;
    assert_int_equal(world_files_read_weights(&files, text, &err), status);
    if (!strstr(err.message, sentence)) fail_msg("\"%s\" does not say \"%s\"", err.message, sentence);
    world_files_free(&files);
}

static void weights_are_a_list_or_a_file_with_a_number_above_0_for_each_client(void **state) {
    char path[SCRATCH_PATH_BYTES], text[SCRATCH_PATH_BYTES + 8];
    WorldFiles files = {.clients = 2}, listed = {.clients = 2};
    Error err;
    snprintf(text, sizeof text, "file:%s", scratch_path(path, *state, "weights"));
    scratch_write(path, "1 0.25 # the small one\n0,3\n", 27);
    check_ok(world_files_read_weights(&files, text, &err));
    check_ok(world_files_read_weights(&listed, "3,0.25", &err));
    assert_true(files.weights[0] == 3 && files.weights[1] == 0.25);
    assert_memory_equal(files.weights, listed.weights, 2 * sizeof *files.weights);
    assert_int_equal(world_files_hash(&files), world_files_hash(&listed));
    assert_int_not_equal(world_files_hash(&files), 0);
    world_files_free(&files), world_files_free(&listed);
    scratch_write(path, "0 3\n0 4\n", 8);
    refuse_weights(text, STATUS_DATA, ":2: a second line of this client; a line is \"CLIENT WEIGHT\"");
    scratch_write(path, "0 3\n", 4);
    refuse_weights(text, STATUS_DATA, "client 1 has no line; each of the 2 clients needs one");
    scratch_write(path, "0 3 5\n", 6);
    refuse_weights(text, STATUS_DATA, ":1: more than two numbers");
    scratch_write(path, "0 0\n", 4);
    refuse_weights(text, STATUS_DATA, ":1: no weight, which is a number above 0");
    refuse_weights("1", STATUS_USAGE, "a list of 1, but there are 2 clients; give each a number");
    refuse_weights("1,2,3", STATUS_USAGE, "a list of 3, but there are 2 clients");
    refuse_weights("1,nan", STATUS_USAGE, "number 2 is no weight");
    refuse_weights("1,-2", STATUS_USAGE, "number 2 is no weight");
    refuse_weights("balanced", STATUS_USAGE,
                   "number 1 is no weight, which is a number above 0 and at most 10^9; or write file:FILE");
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
        cmocka_unit_test_setup_teardown(weights_are_a_list_or_a_file_with_a_number_above_0_for_each_client,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_named_pipe_is_refused_at_once, scratch_set_up, scratch_tear_down),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
