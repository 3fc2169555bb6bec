// What trainers print: in the run's file, line by line and within bounds, and on the terminal when one ends the run.
#include <fcntl.h>
#include <sys/stat.h>

#include "fedavg/trainer/output.h"

#include "tests/scratch.h"

static TrainerOutput output;
static char file_path[SCRATCH_PATH_BYTES];

static void begin(const char *folder) {
    const Folder run = {.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = folder};
    Error err;
    check_ok(trainer_output_open(&output, &err));
    check_ok(trainer_output_add_workers(&output, 1, &err));
    scratch_path(file_path, folder, TRAINER_LOG_NAME);
    trainer_output_begin(&output, &run);
    close(run.fd);
}

static void print(const char *text) {
    const ssize_t bytes = (ssize_t)strlen(text);
    assert_int_equal(write(trainer_output_fd(&output, 0), text, (size_t)bytes), bytes);
    trainer_output_serve(&output);
}

static void begin_run(const void *folder) {
    begin(folder);
}

static void print_text(const void *text) {
    print(text);
}

// Ends the run, and compares its file.
static void expect_file(const char *wanted) {
    size_t count;
    trainer_output_close(&output);
    char *text = scratch_read(file_path, &count);
    assert_string_equal(text, wanted);
    free(text);
    unlink(file_path);
}

// Returns the text that a call writes to stderr, malloc'ed.
static char *shown(const char *folder, void (*call)(const void *), const void *context) {
    char path[SCRATCH_PATH_BYTES];
    size_t count;
    const int before = dup(STDERR_FILENO);
    const int file = open(scratch_path(path, folder, "stderr"), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(file, STDERR_FILENO);
    call(context);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    close(file);
    return scratch_read(path, &count);
}

static void show_failure(const void *why) {
    trainer_output_print_last(&output, 0, why);
}

static void expect_shown(const char *folder, const char *why, const char *wanted) {
    char *text = shown(folder, show_failure, why);
    assert_string_equal(text, wanted);
    free(text);
}

static void of_a_progress_bar_the_last_text_is_kept(void **state) {
    begin(*state);
    print("epoch 1\r\n\r 0%|   |\r 50%|#  |");
    print("\r100%|## |");
    print("\nbar\r   \rloss 0.3\n");
    print(" 7%\r 9%\r");
    expect_file("rank 0: epoch 1\nrank 0: 100%|## |\nrank 0: loss 0.3\nrank 0:  9%\n");
}

static void a_file_that_is_full_says_so_and_ends_with_the_last_lines(void **state) {
    begin(*state);
    output.room = 2 * strlen("rank 0: line 1\n");
    print("line 1\nline 2\n");
    char *warned = shown(*state, print_text, "line 3\nline 4\n");
    assert_non_null(strstr(warned, "trainer.log has 64 MiB; of what trainers print"));
    free(warned);
    expect_file("rank 0: line 1\nrank 0: line 2\n"
                "sounder: the file is full; the last lines of each trainer follow when the run ends\n"
                "rank 0: line 3\nrank 0: line 4\n");
}

// Every byte is in the file, or counted as left out.
static void the_last_lines_of_a_flood_follow_what_is_left_out(void **state) {
    enum { LINES = 6000, LINE = 10 };
    char line[LINE + 8]; // the compiler does not know that no number is longer than 4 digits
    size_t count, left_out = 0, lines = 0;
    begin(*state);
    output.room = strlen("rank 0: ") + LINE;
    print("the first\n");
    free(shown(*state, print_text, "the last.\n")); // it warns
    for (int i = 1; i < LINES; i++) {
        snprintf(line, sizeof line, "line %4d\n", i);
        print(line);
    }
    trainer_output_close(&output);
    char *text = scratch_read(file_path, &count), *place = strstr(text, "rank 0: sounder: ");
    assert_non_null(place);
    assert_int_equal(sscanf(place, "rank 0: sounder: %zu bytes", &left_out), 1);
    while ((place = strstr(place + 1, "rank 0: line ")))
        lines++;
    assert_int_equal(left_out / LINE + lines, LINES);
    assert_true(lines > 3000 && strstr(text, "rank 0: line 5999\n"));
    free(text);
    unlink(file_path);
}

static void another_name_of_a_users_file_is_left_alone(void **state) {
    char mine[SCRATCH_PATH_BYTES];
    size_t count;
    scratch_write(scratch_path(mine, *state, "mine"), "my own text\n", 12);
    scratch_path(file_path, *state, TRAINER_LOG_NAME);
    assert_int_equal(link(mine, file_path), 0);
    char *told = shown(*state, begin_run, *state);
    assert_non_null(strstr(told, "trainer.log has another name"));
    free(told);
    assert_string_equal(output.path, ""); // lines go to stderr
    told = shown(*state, print_text, "hello\n");
    assert_string_equal(told, "rank 0: hello\n");
    free(told);
    trainer_output_close(&output);
    char *text = scratch_read(mine, &count);
    assert_string_equal(text, "my own text\n");
    free(text);
    unlink(file_path);
}

#define TRACE "Traceback (most recent call last):\n  File \"trainer.py\", line 7, in train\n"
#define SHOWN "rank 0: Traceback (most recent call last):\nrank 0:   File \"trainer.py\", line 7, in train\n"

static void the_exception_that_ends_a_run_is_shown_alone(void **state) {
    begin(*state);
    print(TRACE "KeyError: 'handled'\nepoch 1\n" TRACE "ValueError: the loss has\nno bottom\n");
    for (int i = 0; i < 60; i++)
        print("nanobind: leaked function\n");
    expect_shown(*state, "--trainer, client 3 in round 2: ValueError: the loss has\nno bottom",
                 SHOWN "rank 0: ValueError: the loss has\nrank 0: no bottom\n");
    print(TRACE "sounder.command.Error: turn 3 was not handed in\n");
    expect_shown(*state, "client 3: turn 3 was not handed in",
                 SHOWN "rank 0: sounder.command.Error: turn 3 was not handed in\n");
    trainer_output_close(&output);
    unlink(file_path);
}

static void without_an_exception_the_last_lines_are_shown(void **state) {
    begin(*state);
    print(TRACE "KeyError: 'handled'\n");
    for (int i = 0; i < 20; i++)
        print("ordinary\n");
    char *text = shown(*state, show_failure, "it ended with exit code 7 and without an answer");
    assert_null(strstr(text, "handled"));
    assert_int_equal(strlen(text), 20 * strlen("rank 0: ordinary\n"));
    free(text);
    trainer_output_close(&output);
    unlink(file_path);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_progress_bar_the_last_text_is_kept),
        cmocka_unit_test(a_file_that_is_full_says_so_and_ends_with_the_last_lines),
        cmocka_unit_test(the_last_lines_of_a_flood_follow_what_is_left_out),
        cmocka_unit_test(another_name_of_a_users_file_is_left_alone),
        cmocka_unit_test(the_exception_that_ends_a_run_is_shown_alone),
        cmocka_unit_test(without_an_exception_the_last_lines_are_shown),
    };
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}
