// Part of train_steps.h: the end of a run: the tests of its final and of its best model, its last lines, its result.
#include "app/train/train_steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/train/missing_clients.h"
#include "app/train/run_continue.h"
#include "app/train/run_goals.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/memory/state.h"
#include "fedavg/trainer/faults.h"
#include "io/durable.h"
#include "nn/label_rows.h"

bool train_has_result(const Run *run) {
    return train_is_finished(run) && run_record_has_result(&run->past, &run->folder, run->rounds_done);
}

bool train_is_in_real_time(const Run *run) {
    return run->memory.algorithm.engine->in_real_time;
}

bool train_is_finished(const Run *run) {
    if (train_is_in_real_time(run) && run->stop_signal && run->rounds_done > 0) return true;
    return run->rounds_done >= (uint32_t)run->options.rounds || run->spent ||
           goals_end(&run->memory.control->goals, &run->options);
}

bool train_has_ended(const Run *run) {
    return train_is_finished(run) && run->tested_round == run->rounds_done;
}

static Status load_best(Run *run, float *weights, bool *found, Error *err) {
    *found = false;
    if (!train_is_first(run)) return STATUS_OK;
    return best_model_load(weights, found, &run->best, &run->memory, &run->folder, run->rounds_done, err);
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
    if (status == STATUS_OK && found) run->best_final = round_test_of(&report, &run->memory);
    run->summary.workers_lost += report.workers_lost;
    free(weights);
    return status;
}

// The answers are those of the final model's test.
static Status measure_classes(Run *run, Error *err) {
    const RunMemory *memory = &run->memory;
    const Dataset *data = &memory->data;
    if (!memory->answers || dataset_has_numbers(&data->items) || !train_is_first(run)) return STATUS_OK;
    double *recalls = run->summary.recalls = malloc((size_t)data->classes * sizeof *recalls);
    if (!recalls) return fail(err, STATUS_OS, "no memory for the accuracies of %d classes", data->classes);
    if (dataset_has_rows(&data->items)) {
        AnswerFigures figures;
        label_rows_figures(&figures, recalls, memory->answers, data->test.count, data->classes);
        return STATUS_OK;
    }
    double *f1 = run->summary.f1 = malloc((size_t)data->classes * sizeof *f1);
    if (!f1) return fail(err, STATUS_OS, "no memory for the F1 of %d classes", data->classes);
    return answer_by_class(recalls, f1, memory->answers, data->test.count, data->classes, err);
}

Status train_test_at_end(Run *run, Error *err) {
    RoundReport report = {0};
    run->final = run->tested;
    const bool lacks_answers = run->device.on_gpu && isnan(run->tested.figures.balanced_accuracy);
    if (run->memory.partition.validation_count == 0 && !lacks_answers) return measure_classes(run, err);
    run->rounds.wants_answers = true;
    progress_begin(&run->progress, run->rounds_done, run->memory.data.test.count);
    TRY(train_check_data(run, rounds_evaluate(&run->rounds, run->rounds_done, EVALUATE_TEST_SET, &report, err), err));
    run->summary.workers_lost += report.workers_lost;
    run->final = round_test_of(&report, &run->memory);
    TRY(measure_classes(run, err));
    if (!run->tested.validates) run->tested.figures = run->final.figures;
    if (run->tested.validates) TRY(train_check_data(run, test_best(run, err), err));
    run->progress.round = 0; // none runs
    return STATUS_OK;
}

void train_say_how_to_continue(Run *run) {
    char command[RUN_COMMAND_BYTES];
    Error why;
    if (run_continue_command(command, &run->options, &run->memory.control->goals, run->folder.path, run->rounds_done,
                             run->spent, &why) == STATUS_OK)
        progress_say(&run->progress, "go on: %s\n", command);
    else
        progress_say(&run->progress, "cannot go on: %s\n", why.message);
}

static void print_best(Run *run) {
    const Goals *goals = &run->memory.control->goals;
    char text[RUN_FIGURE_TEXT_BYTES], number[RUN_FIGURE_TEXT_BYTES], tested[RUN_FIGURE_TEXT_BYTES + 8] = "";
    const RunFigure figure = run_figure_on_test(&run->figure);
    if (run->best_final.tested && !run_figure_tests_clients(&run->figure))
        snprintf(tested, sizeof tested, ", test %s",
                 run_figure_number(number, &figure, round_test_value(&run->best_final, &figure)));
    if (goals->best_round == run->rounds_done || !run_folder_has(&run->folder, BEST_MODEL_NAME)) return;
    progress_say(&run->progress, "best: %s/" BEST_MODEL_NAME "  round %u, %s%s\n", run->folder.path, goals->best_round,
                 run_figure_text(text, &run->figure, goals->best), tested);
}

// The record is read only if there is something to tell: it is long after many rounds.
static void print_missing(Run *run) {
    char text[MISSING_TEXT_BYTES];
    Error ignored;
    const Folder folder = run_folder_at(&run->folder);
    if (!run->lacks_clients && !run->options.resume[0]) return;
    if (missing_clients_text(text, &folder, &ignored) == STATUS_OK && *text) progress_say(&run->progress, "%s\n", text);
}

static void print_ending(Run *run, const char *sha256, double seconds) {
    const uint32_t rounds = run->rounds_done, again = trainer_faults_total(run->memory.control);
    progress_conclude(&run->progress, &run->figure, &run->tested, &run->final, rounds, seconds);
    print_missing(run);
    const WorldTotals *totals = &run->memory.control->totals;
    if (run->options.until[0] && strcmp(run->options.until, "none") != 0 && !run->spent)
        progress_say(&run->progress, "%u rounds did not reach --until %s\n", rounds, run->options.until);
    if (run->memory.world_files.powers)
        progress_say(&run->progress, "simulated energy: %.4g J of training, %.4g J of links\n", totals->training_joules,
                     totals->link_joules);
    if (!isnan(run->summary.measured_joules))
        progress_say(&run->progress, "measured energy: %.4g J of this machine, other programs included\n",
                     run->summary.measured_joules);
    if (again > 0)
        progress_say(&run->progress, "%u turn%s done again after a fault of the trainer; its output is in %s/%s\n",
                     again, again == 1 ? " was" : "s were", run->folder.path, TRAINER_LOG_NAME);
    progress_say(&run->progress, "model: %s/" MODEL_NAME "  sha256 %.12s...\n", run->folder.path, sha256);
    if (state_models(run->memory.config) > 1)
        progress_say(&run->progress,
                     "that is cluster %u, which most clients trained last; all are %s/cluster-0.safetensors to %u\n",
                     run->memory.control->cluster, run->folder.path, state_models(run->memory.config) - 1);
    print_best(run);
    train_say_how_to_continue(run);
}

// Each of several models has a file with the head of the run's model.
static Status write_clusters(const Run *run, const Folder *folder, Error *err) {
    const RunConfig *config = run->memory.config;
    for (uint32_t m = 0; m < state_models(config); m++) {
        char name[sizeof CLUSTER_MODEL_NAME + 16];
        const FilePart parts[] = {{run->memory.weights_segment.memory, config->weights_offset},
                                  {state_model(&run->memory, m), config->parameters * sizeof(float)}};
        snprintf(name, sizeof name, CLUSTER_MODEL_NAME, m);
        TRY(durable_write(folder, name, parts, 2, err));
    }
    return STATUS_OK;
}

Status train_write_model(Run *run, Error *err) {
    char sha256[65];
    const Folder folder = run_folder_at(&run->folder);
    const RunConfig *config = run->memory.config;
    const FilePart file[] = {{run->memory.weights_segment.memory, config->weights_offset},
                             {state_tested_model(&run->memory), config->parameters * sizeof(float)}};
    TRY(run_folder_check(&run->folder, err));
    TRY(run_checkpoint_prune(&run->folder, run->rounds_done, err));
    TRY(durable_write(&folder, MODEL_NAME, file, 2, err));
    if (state_models(config) > 1) TRY(write_clusters(run, &folder, err));
    TRY(best_model_end(&run->best, &folder, run->memory.control->goals.best_round, run->rounds_done, err));
    sha256_hex(sha256, file, 2);
    RunSummary *summary = &run->summary;
    summary->rounds = run->rounds_done;
    summary->seconds = train_seconds(run);
    summary->last = &run->tested;
    summary->final = &run->final;
    summary->best_final = &run->best_final;
    summary->options = &run->options;
    summary->figure = &run->figure;
    summary->model_sha256 = sha256;
    summary->measured_joules = train_joules(run);
    summary->device = run_device_name(&run->device);
    TRY(report_summary(&run->metrics, &run->memory, summary, err));
    print_ending(run, sha256, summary->seconds);
    return STATUS_OK;
}

void train_note_signal(const Run *run, bool at_once, int *exit_code) {
    int signal = at_once ? run->rounds.phases.supervisor.last_signal : run->stop_signal;
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

Status train_stop_late(Run *run, Status status, int *exit_code, Error *err) {
    const bool begins_again = run->begins_again;
    run->begins_again = false;
    if (*exit_code != 0 || (status != STATUS_OK && !begins_again)) return status;
    run->stop_signal = run->late_signal;
    if (status == STATUS_OK) {
        train_note_signal(run, false, exit_code);
        return STATUS_OK;
    }
    *exit_code = 128 + run->stop_signal;
    if (train_is_first(run)) log_warning("stopped by signal %d before the first round was done", run->stop_signal);
    return fail(err, STATUS_CANCELLED, "stopped by signal %d", run->stop_signal);
}
