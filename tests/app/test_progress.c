// What a run prints: numbers and times as people read them, and how far a round is where no line can move.
#include "app/train/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/check.h"

enum { WORKERS = 20, TEXT_BYTES = 4096 };

// A run without processes: what the parent knows of one.
typedef struct Stage {
    Rounds rounds;
    RunMemory memory;
    Nodes nodes;
    Progress progress;
} Stage;

static Stage *set_up(uint32_t workers) {
    Stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    stage->memory.control = aligned_alloc(64, sizeof *stage->memory.control);
    assert_non_null(stage->memory.control);
    memset(stage->memory.control, 0, sizeof *stage->memory.control);
    stage->memory.control->config.workers = workers;
    stage->memory.config = &stage->memory.control->config;
    stage->memory.algorithm = run_algorithm(stage->memory.config);
    barrier_init(&stage->memory.control->phase, workers + 1, 0);
    stage->rounds.memory = &stage->memory;
    stage->rounds.phases.supervisor.workers = calloc(workers, sizeof(WorkerRecord));
    assert_non_null(stage->rounds.phases.supervisor.workers);
    for (uint32_t rank = 0; rank < workers; rank++)
        stage->rounds.phases.supervisor.workers[rank].state = rank == 3 ? WORKER_DEAD : WORKER_RUNNING;
    stage->nodes.size = 1;
    progress_init(&stage->progress, &(Options){.rounds = 4}, &stage->nodes);
    return stage;
}

static void clear(Stage *stage) {
    free(stage->rounds.phases.supervisor.workers);
    free(stage->memory.control);
    free(stage);
}

// What a tick writes on a stderr that is a file; text: (TEXT_BYTES).
static void text_of_tick(char *text, Progress *progress) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    progress_tick(progress);
    fflush(NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = 0;
    fclose(file);
}

static void numbers_and_times_are_written_as_people_read_them(void **state) {
    (void)state;
    char text[PROGRESS_NUMBER_BYTES];
    assert_string_equal(with_commas(text, 999), "999");
    assert_string_equal(with_commas(text, 1234567), "1,234,567");
    assert_string_equal(duration_text(text, 0.2), "0 s");
    assert_string_equal(duration_text(text, 59.6), "60 s");
    assert_string_equal(duration_text(text, 99.4), "99 s");
    assert_string_equal(duration_text(text, 100), "0:01:40");
    assert_string_equal(duration_text(text, 36000), "10:00:00");
    assert_string_equal(duration_text(text, INFINITY), "277777:46:40");
}

static void without_a_terminal_a_line_comes_every_ten_minutes(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    Stage *stage = set_up(4);
    Progress *progress = &stage->progress;
    progress_watch(progress, &stage->rounds);
    progress_begin(progress, 2, 1000);
    atomic_store(&stage->memory.control->pulses[1].progress, 250);
    text_of_tick(text, progress);
    assert_string_equal(text, "");
    progress->start_nanoseconds = progress->spoken_nanoseconds = clock_nanoseconds() - 600000000000ull;
    text_of_tick(text, progress);
    static const char before[] = "round 2/4   25%  0 samples/s  ETA 1:";
    unsigned minutes = 0, seconds = 0;
    int end = 0;
    assert_int_equal(strncmp(text, before, sizeof before - 1), 0);
    assert_int_equal(sscanf(text + sizeof before - 1, "%2u:%2u%n", &minutes, &seconds, &end), 2);
    assert_string_equal(text + sizeof before - 1 + end, "  ranks TTTD\n");
    // Eleven times what the machine stood still comes on top.
    assert_in_range(60 * minutes + seconds, 50 * 60, 59 * 60);
    text_of_tick(text, progress);
    assert_string_equal(text, "");
    clear(stage);
}

// The first step lasts until its line has come, the second ends at once, unless the machine stands still in it.
static void a_long_step_of_the_set_up_is_spoken_of_and_a_short_one_is_not(void **state) {
    (void)state;
    char text[TEXT_BYTES] = "";
    Stage *stage = set_up(4);
    int spoken[2], saved = dup(STDERR_FILENO);
    fflush(NULL);
    assert_int_equal(pipe(spoken), 0);
    dup2(spoken[1], STDERR_FILENO);
    close(spoken[1]);
    progress_step_begin(&stage->progress, "reading the data set");
    ssize_t bytes = read(spoken[0], text, sizeof text - 1);
    progress_step_end(&stage->progress);
    const uint64_t begin = clock_nanoseconds();
    progress_step_begin(&stage->progress, "setting up the memory of the run");
    progress_step_end(&stage->progress);
    const bool was_short = clock_seconds_since(begin) < 2;
    progress_step_end(&stage->progress);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_true(bytes > 0);
    assert_string_equal(text, "reading the data set ...\n");
    bytes = read(spoken[0], text, sizeof text);
    if (was_short) assert_int_equal(bytes, 0);
    close(spoken[0]);
    clear(stage);
}

static void workers_that_take_long_to_start_are_spoken_of(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    Stage *stage = set_up(4);
    const uint64_t begin = clock_nanoseconds();
    progress_watch(&stage->progress, &stage->rounds);
    text_of_tick(text, &stage->progress);
    if (clock_seconds_since(begin) < 2) assert_string_equal(text, "");
    stage->progress.start_nanoseconds = stage->progress.spoken_nanoseconds = clock_nanoseconds() - 3000000000ull;
    text_of_tick(text, &stage->progress);
    unsigned seconds = 0;
    int end = 0;
    assert_int_equal(sscanf(text, "starting the workers: %u s%n", &seconds, &end), 1);
    assert_string_equal(text + end, "\n");
    assert_in_range(seconds, 3, 99);
    clear(stage);
}

static void more_than_sixteen_ranks_are_counts(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    Stage *stage = set_up(WORKERS);
    progress_watch(&stage->progress, &stage->rounds);
    progress_begin(&stage->progress, 1, 1000);
    barrier_arrive(&stage->memory.control->phase, 7);
    stage->rounds.phases.supervisor.workers[8].state = WORKER_STARTING;
    stage->progress.spoken_nanoseconds = clock_nanoseconds() - 600000000000ull;
    text_of_tick(text, &stage->progress);
    assert_non_null(strstr(text, "  ranks 17 T 1 B 1 S 1 D\n"));
    clear(stage);
}

static void a_quiet_run_answers_the_first_signal_and_says_nothing_else(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    Stage *stage = set_up(4);
    progress_init(&stage->progress, &(Options){.rounds = 4, .quiet = true}, &stage->nodes);
    progress_watch(&stage->progress, &stage->rounds);
    progress_begin(&stage->progress, 3, 1000);
    stage->progress.spoken_nanoseconds = clock_nanoseconds() - 600000000000ull;
    text_of_tick(text, &stage->progress);
    assert_string_equal(text, "");
    stage->rounds.phases.supervisor.interrupts = 1;
    stage->rounds.phases.supervisor.last_signal = SIGINT;
    text_of_tick(text, &stage->progress);
    assert_string_equal(text, "Ctrl-C: finishing round 3; again: stop now and lose it\n");
    text_of_tick(text, &stage->progress);
    assert_string_equal(text, "");
    clear(stage);
}

static void a_loss_that_is_no_number_has_no_sign(void **state) {
    (void)state;
    char text[TEXT_BYTES];
    Stage *stage = set_up(4);
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    int saved = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    RoundReport report = {.round = 1,
                          .cohort = &(Cohort){.count = 0},
                          .train_loss = -(double)NAN,
                          .seconds = 2,
                          .samples = 5000,
                          .refused = 1,
                          .refused_steps = 2,
                          .epsilon = INFINITY,
                          .sample_epsilon = INFINITY};
    const RoundTest test = round_test_none(&(Dataset){.items.label_bytes = 2});
    progress_end(&stage->progress, &report, &test, &(RunFigure){0});
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = 0;
    fclose(file);
    assert_string_equal(text, "round 1/4  loss nan  2.00 s  2,500/s  1 update refused  2 steps refused\n");
    clear(stage);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_times_are_written_as_people_read_them),
        cmocka_unit_test(without_a_terminal_a_line_comes_every_ten_minutes),
        cmocka_unit_test(a_long_step_of_the_set_up_is_spoken_of_and_a_short_one_is_not),
        cmocka_unit_test(workers_that_take_long_to_start_are_spoken_of),
        cmocka_unit_test(more_than_sixteen_ranks_are_counts),
        cmocka_unit_test(a_quiet_run_answers_the_first_signal_and_says_nothing_else),
        cmocka_unit_test(a_loss_that_is_no_number_has_no_sign),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
