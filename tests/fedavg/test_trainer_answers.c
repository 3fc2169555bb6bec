// A trainer's answers, as a program in any language may write them, are numbers that a run can use, or a sentence.
#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fedavg/trainer/describe.h"
#include "fedavg/trainer/files.h"

#include "tests/check.h"
#include "tests/late_clock.h"

enum { SAMPLES = 4 };

// A process whose answers are already there.
static TrainerProcess answered(const char *lines) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[1], lines, strlen(lines), 0), strlen(lines));
    TrainerProcess process = {.socket = ends[0], .leash = ends[1], .buffer = malloc(TRAINER_LINE_BYTES)};
    assert_non_null(process.buffer);
    return process;
}

static void release(TrainerProcess *process) {
    close(process->socket);
    close(process->leash);
    free(process->buffer);
}

static Status ask(TrainerAnswer *answer, const char *task, const char *lines, Error *err) {
    static RunConfig config;
    RunMemory memory = {.config = &config};
    uint32_t order[SAMPLES], ends[1];
    float scores[SAMPLES];
    const Desk desk = {.order = order, .ends = ends, .answers = scores, .room = SAMPLES};
    Trainer trainer = {.memory = &memory, .process = answered(lines), .desk = desk};
    const TrainerTurn turn = {.tests = strcmp(task, "test") == 0 ? task : NULL, .client = UINT32_MAX};
    desk_add_batch(&trainer.desk, (const uint32_t[SAMPLES]){0, 1, 2, 3}, SAMPLES);
    const Status status = trainer_ask(answer, &trainer, &turn, err);
    release(&trainer.process);
    return status;
}

static void refuse(Status status, const char *task, const char *lines, const char *sentence) {
    TrainerAnswer answer;
    Error err = {.message = ""};
    assert_int_equal(ask(&answer, task, lines, &err), status);
    if (!strstr(err.message, sentence)) fail_msg("\"%s\" does not say \"%s\"", err.message, sentence);
}

static void signs_of_life_come_before_an_answer(void **state) {
    (void)state;
    TrainerAnswer answer;
    Error err;
    assert_int_equal(
        ask(&answer, "train", "{\"progress\":1}\n{\"progress\":1}\n{\"turn\":1,\"loss_sum\":2.5,\"steps\":3}\n", &err),
        STATUS_OK);
    assert_true(answer.loss_sum == 2.5 && answer.steps == 3);
    assert_int_equal(ask(&answer, "test", "{\"turn\":1,\"loss_sum\":null,\"samples\":4,\"hits\":3}\n", &err),
                     STATUS_OK);
    assert_true(isnan(answer.loss_sum) && answer.samples == SAMPLES && answer.judges && answer.hits == 3);
}

static void an_answer_may_have_metrics_and_need_not_count_hits(void **state) {
    (void)state;
    TrainerAnswer answer;
    Error err;
    assert_int_equal(ask(&answer, "test",
                         "{\"turn\":1,\"samples\":4,\"hits\":null,\"metrics\":{\"f1\":[3,4],\"auc\":[null,4]}}\n",
                         &err),
                     STATUS_OK);
    assert_true(!answer.judges && answer.metrics.count == 2);
    assert_true(metric_sums_value(&answer.metrics, "f1") == 0.75 && isnan(metric_sums_value(&answer.metrics, "auc")));
}

static void a_test_has_the_answers_of_all_samples_or_of_none(void **state) {
    (void)state;
    TrainerAnswer answer;
    Error err;
    assert_int_equal(ask(&answer, "test", "{\"turn\":1,\"samples\":4,\"answers\":4}\n", &err), STATUS_OK);
    assert_true(answer.answers);
    assert_int_equal(ask(&answer, "test", "{\"turn\":1,\"samples\":4}\n", &err), STATUS_OK);
    assert_false(answer.answers);
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"answers\":3}\n", "answers for 3 of 4 samples");
    refuse(STATUS_UNAVAILABLE, "test", "{\"turn\":1,\"samples\":4,\"answers\":[1]}\n", "it answered answers as");
}

static void the_trainers_own_sentence_is_told_and_decides_whether_another_try_is_of_use(void **state) {
    (void)state;
    refuse(STATUS_UNAVAILABLE, "train", "{\"error\":\"ValueError: no bottom\"}\n", "ValueError: no bottom");
    refuse(STATUS_DATA, "train", "{\"error\":\"no bottom\",\"fatal\":1}\n", "no bottom");
    refuse(STATUS_DATA, "train", "{\"error\":\"no bottom\",\"fatal\":true}\n", "no bottom");
    refuse(STATUS_UNAVAILABLE, "train", "{\"error\":\"\"}\n", "its error says no more");
    refuse(STATUS_UNAVAILABLE, "train", "{\"error\":{\"code\":3}}\n", "its error says no more");
}

static void what_is_no_number_is_not_taken_for_a_missing_one(void **state) {
    (void)state;
    refuse(STATUS_UNAVAILABLE, "train", "{\"turn\":1,\"loss_sum\":\"2.5\"}\n", "it answered loss_sum as something");
    refuse(STATUS_UNAVAILABLE, "train", "{\"turn\":1,\"steps\":[3]}\n", "it answered steps as something");
    refuse(STATUS_UNAVAILABLE, "test", "{\"turn\":1,\"samples\":4,\"hits\":\"3\"}\n", "it answered hits as something");
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"metrics\":[1,2]}\n", "its metrics are no object");
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"metrics\":{\"auc\":0.5}}\n",
           "its metric \"auc\" is no [sum,");
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"metrics\":{\"auc\":[1,null]}}\n",
           "its metric \"auc\" is no [sum,");
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"metrics\":{\"a b\":[1,2]}}\n", "cannot be named \"a b\"");
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"hits\":2.5}\n", "counted 2.5 hits in 4 samples");
    refuse(STATUS_DATA, "test", "{\"turn\":1,\"samples\":4,\"hits\":5}\n", "counted 5 hits in 4 samples");
}

static void the_first_answer_says_that_the_program_is_ready(void **state) {
    (void)state;
    static const char *const lines[] = {"{\"ready\":1,\"pid\":7}\n", "{\"ready\":true,\"server\":true}\n",
                                        "{\"turn\":1}\n", "{\"ready\":0}\n"};
    const TrainerWait wait = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        Error err = {.message = ""};
        TrainerProcess process = answered(lines[i]);
        json_t *ready;
        assert_int_equal(trainer_process_ready(&ready, &process, &wait, &err), i < 2 ? STATUS_OK : STATUS_UNAVAILABLE);
        assert_int_equal(trainer_flag(ready, "server"), i == 1);
        if (i >= 2) assert_non_null(strstr(err.message, "its first answer is not {\"ready\":1}"));
        json_decref(ready);
        release(&process);
    }
}

static Status describe(TrainerNet *net, const char *line, size_t values, Error *err) {
    const TrainerWait wait = {0};
    TrainerProcess process = answered(line);
    json_t *told;
    assert_int_equal(trainer_process_receive(&told, &process, &wait, err), STATUS_OK);
    release(&process);
    const int desk = memfd_create("desk", MFD_CLOEXEC);
    assert_int_equal(ftruncate(desk, (off_t)(values * sizeof(float))), 0);
    const Status status = trainer_net_read(net, told, desk, err);
    json_decref(told);
    close(desk);
    return status;
}

static void a_net_has_names_shapes_and_as_many_values(void **state) {
    (void)state;
    static const struct {
        const char *tensors, *sentence;
        size_t values;
    } wrong[] = {{"[[\"w\",[2,3]]]", "20 bytes of initial values; its tensors have 24", 5},
                 {"[[\"w\",[2,3]]]", "28 bytes of initial values; its tensors have 24", 7},
                 {"[[\"w\",[2147483647]]]", "24 bytes of initial values; its tensors have 8589934588", 6},
                 {"[[\"w\"]]", "w has no shape", 1},
                 {"[[\"w\",\"2x3\"]]", "w has no shape", 1},
                 {"[[\"w\",[2,0]]]", "w has a side of 0; a side is a whole number from 1", 0},
                 {"[[\"w\",[2,1e300]]]", "w has a side of 1e+300", 0},
                 {"[[\"w\",[0.5]]]", "w has a side of 0.5", 0},
                 {"[[\"w\",[46341,46341]]]", "w has a side of 46341; a side", 0},
                 {"[[\"__metadata__\",[1]]]", "cannot be named __metadata__", 1},
                 {"[[\"w\",[1]],[\"w\",[1]]]", "two tensors w", 2},
                 {"[[3,[1]]]", "tensor 0 has no name", 1},
                 {"[]", "it has 0 tensors", 0}};
    TrainerNet net;
    Error err = {.message = ""};
    char line[256];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(line, sizeof line, "{\"tensors\":%s}\n", wrong[i].tensors);
        assert_int_equal(describe(&net, line, wrong[i].values, &err), STATUS_DATA);
        if (!strstr(err.message, wrong[i].sentence))
            fail_msg("%s: \"%s\" does not say \"%s\"", line, err.message, wrong[i].sentence);
    }
    assert_int_equal(describe(&net, "{\"tensors\":[[\"w\",[2,3]],[\"scale\",[]]]}\n", 7, &err), STATUS_OK);
    assert_true(net.count == 2 && net.parameters == 7 && net.tensors[1].first == 6 && net.tensors[1].rank == 0);
    trainer_net_free(&net);
}

static void flags_may_be_numbers_or_true_and_a_state_is_a_number(void **state) {
    (void)state;
    static const char *const wrong[] = {"true", "2.5", "\"8\"", "[8]"};
    TrainerNet net;
    Error err = {.message = ""};
    char line[256];
    assert_int_equal(
        describe(&net, "{\"tensors\":[[\"w\",[2]]],\"views\":true,\"whole_test\":1,\"still\":true}\n", 2, &err),
        STATUS_OK);
    assert_true(net.views && net.whole_test && net.still && net.state_floats == 0);
    trainer_net_free(&net);
    assert_int_equal(describe(&net, "{\"tensors\":[[\"w\",[2]]],\"views\":false,\"state\":8}\n", 2, &err), STATUS_OK);
    assert_true(!net.views && !net.whole_test && !net.still && net.state_floats == 8);
    trainer_net_free(&net);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(line, sizeof line, "{\"tensors\":[[\"w\",[2]]],\"state\":%s}\n", wrong[i]);
        assert_int_equal(describe(&net, line, 2, &err), STATUS_DATA);
        assert_non_null(strstr(err.message, "a state that is no whole number"));
    }
    assert_int_equal(describe(&net, "{\"tensors\":[[\"w\",[2]]],\"still\":\"yes\"}\n", 2, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "still as something that is neither true nor false"));
}

static void a_batch_beyond_the_desk_is_not_written_and_fails_the_turn(void **state) {
    (void)state;
    static RunConfig config;
    RunMemory memory = {.config = &config};
    uint32_t order[SAMPLES + 1] = {[SAMPLES] = 77}, ends[2] = {[1] = 77};
    Trainer trainer = {.memory = &memory,
                       .process = answered("{\"turn\":1}\n"),
                       .desk = {.order = order, .ends = ends, .room = SAMPLES}};
    const TrainerTurn turn = {0};
    TrainerAnswer answer;
    Error err;
    desk_add_batch(&trainer.desk, (const uint32_t[SAMPLES]){0, 1, 2, 3}, SAMPLES);
    desk_add_batch(&trainer.desk, (const uint32_t[1]){4}, 1);
    assert_true(order[SAMPLES] == 77 && ends[1] == 77);
    assert_int_equal(trainer_ask(&answer, &trainer, &turn, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "its desk has room for"));
    assert_int_equal(trainer_ask(&answer, &trainer, &turn, &err), STATUS_OK); // the next one has room again
    release(&trainer.process);
}

// Between two turns: the next one cannot be sent, and the reason is there to be read.
static void the_last_words_of_a_trainer_are_heard_when_the_next_turn_finds_it_gone(void **state) {
    (void)state;
    const TrainerWait wait = {0};
    TrainerProcess process = answered("{\"error\":\"no such file\",\"fatal\":1}\n");
    JsonObject line;
    Error err = {.message = ""};
    close(process.leash);
    process.leash = -1;
    json_begin(&line);
    put_whole(&line, "turn", 2);
    assert_int_equal(trainer_process_send(&process, &line, &wait, &err), STATUS_DATA);
    assert_string_equal(err.message, "no such file");
    release(&process);
}

// A keeper says on the leash how the program has ended.
static void an_end_without_an_answer_is_told_with_its_cause(void **state) {
    (void)state;
    static const struct {
        const char *report, *sentence;
    } ends[] = {
        {"exit 3", "exit code 3 and without an answer"},
        {"exit 0", "without an answer; a program of a run gives answers to its end, as sounder.serve(...) does"},
        {"signal 11", "signal 11 (Segmentation fault)"},
        {"fork 11", "there is no process for it: Resource temporarily unavailable; the system's limits"}};
    const TrainerWait wait = {0};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int leashes[2];
        json_t *told;
        Error err = {.message = ""};
        TrainerProcess process = answered("");
        close(process.leash);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, leashes), 0);
        process.leash = leashes[0];
        assert_int_equal(send(leashes[1], ends[i].report, strlen(ends[i].report), 0), strlen(ends[i].report));
        shutdown(process.socket, SHUT_RD);
        assert_int_equal(trainer_process_receive(&told, &process, &wait, &err), STATUS_UNAVAILABLE);
        if (!strstr(err.message, ends[i].sentence))
            fail_msg("%s: \"%s\" does not say \"%s\"", ends[i].report, err.message, ends[i].sentence);
        close(leashes[1]);
        release(&process);
    }
}

// As a program may do that has the descriptor: the run, which has mapped the desk, would end by SIGBUS.
static void a_desk_cannot_be_cut(void **state) {
    (void)state;
    uint8_t *memory, *again;
    int fd = -1;
    Error err;
    check_ok(desk_map(&memory, &fd, 4096, &err));
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    check_ok(desk_map(&again, &fd, 4096, &err)); // of a program that is started again
    memory[4095] = 7;
    assert_int_equal(again[4095], 7);
    munmap(memory, 4096);
    munmap(again, 4096);
    close(fd);
}

// The parent and its trainer were stopped for an hour by Ctrl-Z; then the trainer is silent for longer than it may be.
static void time_in_which_the_run_was_stopped_is_no_silence(void **state) {
    (void)state;
    enum { SECOND = 1000000000 };
    const uint64_t now = clock_nanoseconds();
    TrainerProcess process = {.heard_nanoseconds = now - UINT64_C(3602) * SECOND,
                              .looked_nanoseconds = now - UINT64_C(3601) * SECOND};
    Error err;
    check_ok(trainer_process_check_silence(&process, 30, &err));
    check_ok(trainer_process_check_silence(&process, 30, &err));
    process.heard_nanoseconds = clock_nanoseconds() - UINT64_C(31) * SECOND;
    assert_int_equal(trainer_process_check_silence(&process, 30, &err), STATUS_UNAVAILABLE);
}

static void a_later_start_may_take_ten_times_as_long_as_the_first(void **state) {
    (void)state;
    TrainerPlan plan = {.hang_seconds = 60};
    TrainerProcess process = {.heard_nanoseconds = clock_nanoseconds() - UINT64_C(80) * 1000000000};
    Error err;
    assert_true(trainer_start_limit(&plan, 9) == 90 && trainer_start_limit(&plan, 0.2) == 60);
    check_ok(trainer_process_check_start(&process, 90, &err));
    check_ok(trainer_process_check_start(&process, 0, &err));
    assert_int_equal(trainer_process_check_start(&process, 60, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "it has started for 60 s, and its first start took at most a tenth of that"));
    plan.hang_seconds = 0;
    assert_true(trainer_start_limit(&plan, 9) == 0);
}

// Outside of single quotes they would mean this process.
static void parameters_of_a_shell_are_refused_where_no_shell_has_them(void **state) {
    (void)state;
    static const char *const wrong[] = {"sh -c \"kill -9 $$\"", "a $?", "a ${!}", "a $1", "a \"'$$'\""};
    static const char *const right[] = {"sh -c 'kill -9 $$'", "a \\$$", "a $HOME ${HOME}", "a 5$", "a '\"' '$?'"};
    TrainerPlan plan = {.option = "--trainer"};
    wordexp_t words;
    Error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(plan.command, sizeof plan.command, "%s", wrong[i]);
        assert_int_equal(trainer_command_words(&words, &plan, &err), STATUS_USAGE);
        assert_non_null(strstr(err.message, " is a shell's, and the run starts the command without one"));
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        snprintf(plan.command, sizeof plan.command, "%s", right[i]);
        check_ok(trainer_command_words(&words, &plan, &err));
        wordfree(&words);
    }
}

static void a_fork_without_descriptors_leaves_nothing(void **state) {
    (void)state;
    struct rlimit before, few;
    TrainerProcess process;
    Error err;
    const int next = dup(STDERR_FILENO); // the first one that is free
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)next + 2; // the first pair, and not the second
    setrlimit(RLIMIT_NOFILE, &few);
    const Status status = trainer_process_fork(&process, -1, -1, -1, &err);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(status, STATUS_OS);
    assert_true(process.socket == -1 && process.leash == -1 && process.buffer == NULL);
    const int again = dup(STDERR_FILENO);
    assert_int_equal(again, next);
    close(again);
}

static void a_folder_that_is_gone_is_an_error(void **state) {
    (void)state;
    const TrainerPlan plan = {.option = "--trainer", .command = "python3 trainer.py", .folder = "/no/such/folder"};
    uint64_t hash;
    Error err;
    assert_int_equal(trainer_hash_files(&hash, &plan, NULL, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "its folder /no/such/folder"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_of_life_come_before_an_answer),
        cmocka_unit_test(an_answer_may_have_metrics_and_need_not_count_hits),
        cmocka_unit_test(a_test_has_the_answers_of_all_samples_or_of_none),
        cmocka_unit_test(the_trainers_own_sentence_is_told_and_decides_whether_another_try_is_of_use),
        cmocka_unit_test(what_is_no_number_is_not_taken_for_a_missing_one),
        cmocka_unit_test(the_first_answer_says_that_the_program_is_ready),
        cmocka_unit_test(a_net_has_names_shapes_and_as_many_values),
        cmocka_unit_test(flags_may_be_numbers_or_true_and_a_state_is_a_number),
        cmocka_unit_test(a_batch_beyond_the_desk_is_not_written_and_fails_the_turn),
        cmocka_unit_test(the_last_words_of_a_trainer_are_heard_when_the_next_turn_finds_it_gone),
        cmocka_unit_test(an_end_without_an_answer_is_told_with_its_cause),
        cmocka_unit_test(a_desk_cannot_be_cut),
        cmocka_unit_test(time_in_which_the_run_was_stopped_is_no_silence),
        cmocka_unit_test(a_later_start_may_take_ten_times_as_long_as_the_first),
        cmocka_unit_test(parameters_of_a_shell_are_refused_where_no_shell_has_them),
        cmocka_unit_test(a_fork_without_descriptors_leaves_nothing),
        cmocka_unit_test(a_folder_that_is_gone_is_an_error),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
