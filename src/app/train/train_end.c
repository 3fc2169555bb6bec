// Part of train_steps.h: the end of a run: the tests of its final and of its best model, its last lines, its result.
#include "app/train/train_steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/command.h"
#include "app/train/best_model.h"
#include "app/train/run_continue.h"
#include "app/train/run_goals.h"
#include "base/log.h"
#include "base/text.h"
#include "nn/label_rows.h"

bool train_has_result(const Run *run) {
    return train_is_finished(run) && run_record_has_result(&run->past, &run->folder, run->rounds_done);
}

bool train_is_in_real_time(const Run *run) {
    return run->memory.algorithm.engine->in_real_time;
}

bool train_is_finished(const Run *run) {
    if (train_is_in_real_time(run) && run->ends.signal && run->rounds_done > 0) return true;
    return run->rounds_done >= (uint32_t)run->options.rounds || run->ends.is_spent ||
           goals_end(&run->memory.control->goals, &run->options);
}

bool train_has_ended(const Run *run) {
    return train_is_finished(run) && run->results.tested_round == run->rounds_done;
}

static Status load_best(Run *run, float *weights, bool *found, Error *err) {
    *found = false;
    if (!train_is_first(run)) return STATUS_OK;
    return best_model_load(weights, found, run, err);
}

// Only the first node has the file.
static Status test_best(Run *run, Error *err) {
    const size_t bytes = run->memory.config->parameters * sizeof(float);
    float *weights = malloc(bytes);
    bool found = false;
    RoundReport report = {0};
    Status status = weights ? load_best(run, weights, &found, err)
                            : fail(err, STATUS_OS, "no memory for the best model (%zu bytes)", bytes);
    status = nodes_agree(&run->nodes, status, err);
    if (status == STATUS_OK) status = nodes_broadcast(&run->nodes, &found, sizeof found, err);
    if (status == STATUS_OK && found) status = nodes_broadcast(&run->nodes, weights, bytes, err);
    if (status == STATUS_OK && found)
        status = rounds_evaluate_other(&run->rounds, run->rounds_done, weights, &report, err);
    if (status == STATUS_OK && found) run->results.best_final = round_test_of(&report, &run->memory);
    run->results.workers_lost += report.workers_lost;
    free(weights);
    return status;
}

// The answers are those of the final model's test.
static Status measure_classes(Run *run, Error *err) {
    const RunMemory *memory = &run->memory;
    const Dataset *data = &memory->data;
    if (!memory->answers || dataset_has_numbers(&data->items) || !train_is_first(run)) return STATUS_OK;
    double *recalls = run->results.recalls = malloc((size_t)data->classes * sizeof *recalls);
    if (!recalls) return fail(err, STATUS_OS, "no memory for the accuracies of %d classes", data->classes);
    if (dataset_has_rows(&data->items)) {
        AnswerFigures figures;
        label_rows_figures(&figures, recalls, memory->answers, data->test.count, data->classes);
        return STATUS_OK;
    }
    double *f1 = run->results.f1 = malloc((size_t)data->classes * sizeof *f1);
    if (!f1) return fail(err, STATUS_OS, "no memory for the F1 of %d classes", data->classes);
    return answer_by_class(recalls, f1, memory->answers, data->test.count, data->classes, err);
}

Status train_test_at_end(Run *run, Error *err) {
    RoundReport report = {0};
    run->results.final = run->results.tested;
    const bool lacks_answers = run->device.on_gpu && isnan(run->results.tested.figures.balanced_accuracy);
    if (run->memory.partition.validation_count == 0 && !lacks_answers) return measure_classes(run, err);
    run->rounds.wants_answers = true;
    progress_begin(&run->progress, run->rounds_done, run->memory.data.test.count);
    TRY(train_check_data(run, rounds_evaluate(&run->rounds, run->rounds_done, EVALUATE_TEST_SET, &report, err), err));
    run->results.workers_lost += report.workers_lost;
    run->results.final = round_test_of(&report, &run->memory);
    TRY(measure_classes(run, err));
    if (!run->results.tested.validates) run->results.tested.figures = run->results.final.figures;
    if (run->results.tested.validates) TRY(train_check_data(run, test_best(run, err), err));
    run->progress.round = 0; // none runs
    return STATUS_OK;
}

void train_say_how_to_continue(Run *run) {
    char command[RUN_COMMAND_BYTES];
    Error why;
    if (run_continue_command(command, &run->options, &run->memory.control->goals, run->folder.path, run->rounds_done,
                             run->ends.is_spent, &why) == STATUS_OK)
        progress_say(&run->progress, "go on: %s\n", command);
    else
        progress_say(&run->progress, "cannot go on: %s\n", why.message);
}

void train_note_signal(const Run *run, bool at_once, int *exit_code) {
    int signal = at_once ? run->rounds.phases.supervisor.last_signal : run->ends.signal;
    *exit_code = 128 + signal;
    const bool has_result = !at_once && train_has_ended(run);
    char done[48] = "at once", word[SHELL_WORD_BYTES];
    if (!train_is_first(run)) return;
    if (!at_once) snprintf(done, sizeof done, "after round %u", run->rounds_done);
    if (!has_result && train_is_in_real_time(run))
        log_warning("stopped by signal %d %s; on the real clock a run cannot go on", signal, done);
    else if (has_result || run->rounds_done == 0)
        log_warning("stopped by signal %d %s, %s", signal, done,
                    run->rounds_done ? "the last" : "before the first round was done");
    else
        log_warning("stopped by signal %d %s; continue with: sounder train --resume %s", signal, done,
                    shell_path(word, run->folder.path));
}

Status train_stop_late(Run *run, int signal, Status status, int *exit_code, Error *err) {
    const bool begins_again = run->begins_again;
    run->begins_again = false;
    if (*exit_code != 0 || (status != STATUS_OK && !begins_again)) return status;
    run->ends.signal = signal;
    if (status == STATUS_OK) {
        train_note_signal(run, false, exit_code);
        return STATUS_OK;
    }
    *exit_code = 128 + signal;
    if (train_is_first(run)) log_warning("stopped by signal %d before the first round was done", signal);
    return fail(err, STATUS_CANCELLED, "stopped by signal %d", signal);
}
