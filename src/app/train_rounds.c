// Part of train.h: a run from its first worker to its final model: its rounds, the files written after each, and its
// end.
#include "app/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/train/run_continue.h"
#include "app/train/run_goals.h"
#include "app/train/run_schedule.h"
#include "base/clock.h"
#include "base/log.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/trainer/faults.h"
#include "io/durable.h"

static Status write_checkpoint(Run *run, Error *err) {
    TRY(run_checkpoint_write(&run->folder, &run->memory, &run->spec, &run->about, &run->record, run->rounds_done, err));
    run->saved = run->rounds_done;
    client_state_rows_saved(&run->rounds.client_states, run->rounds_done);
    return STATUS_OK;
}

static bool is_due(int every, uint32_t round) {
    return every > 0 && round % (uint32_t)every == 0;
}

static Status save_round(Run *run, Error *err) {
    uint64_t begin = trace_begin(run->rounds.trace);
    const Folder folder = run_folder_at(&run->folder);
    TRY(best_model_save(&run->best, &folder, run->memory.control->goals.best_round, run->rounds_done, err));
    TRY(write_checkpoint(run, err));
    trace_end(run->rounds.trace, TRACE_CHECKPOINT, begin, run->rounds_done, run->rounds_done);
    return STATUS_OK;
}

static Status evaluate_clients(Run *run, ClientTests *tests, uint32_t round, EvaluationTask task, Error *err) {
    TRY(rounds_evaluate_clients(&run->rounds, round, task, err));
    return client_tests_measure(tests, &run->memory, err);
}

// A trainer shows in its first test whether it counts hits and which metrics it has.
static Status settle_figure(Run *run, const RoundTest *test, Error *err) {
    char name[OPTION_NAMED_BYTES], has[256] = "no metric";
    const FigureFacts *facts = &figure_facts[run->figure.kind];
    const MetricSums *metrics = &test->metrics;
    if (!run->options.trainer[0]) return STATUS_OK;
    const char *named = run->target.given ? "target" : "patience-by";
    const char *text = run->target.given ? run->options.target : run->options.patience_by;
    options_named(name, &run->options, named);
    for (uint32_t i = 0, used = 0; i < metrics->count && used < sizeof has; i++)
        used += (uint32_t)snprintf(has + used, sizeof has - used, "%s%s", i > 0 ? ", " : "", metrics->all[i].name);
    if (run->figure.kind == FIGURE_METRIC && !metric_sums_find(metrics, run->figure.metric))
        return fail(err, STATUS_USAGE,
                    "%s %.100s: the trainer's test reports %s; take one of these, or give turn.add(..., %s=...)", name,
                    text, has, run->figure.metric);
    if (!facts->is_share || test->judged) return STATUS_OK;
    if (*text)
        return fail(err, STATUS_USAGE,
                    "%s %.100s: the trainer's test counts no hits; give turn.add(..., hits=...), or take loss%s", name,
                    text, run->target.given ? "=VALUE" : "");
    run->figure = (RunFigure){.kind = facts->loss};
    if (train_is_first(run)) goals_begin(&run->memory.control->goals, &run->target, &run->figure);
    return STATUS_OK;
}

// Tests the global model on the validation set, or on the test set without one, and, if the run's figure is of the
// clients' own models, or of the global model on their samples, these as well. Those jobs stay in the queue.
static Status test_models(Run *run, RoundTest *test, uint32_t round, Error *err) {
    const bool validates = run->memory.partition.validation_count > 0;
    TRY(rounds_evaluate(&run->rounds, round, validates ? EVALUATE_VALIDATION : EVALUATE_TEST_SET, &run->report, err));
    *test = round_test_of(&run->report, &run->memory);
    TRY(settle_figure(run, test, err));
    if (!run_figure_tests_clients(&run->figure)) return STATUS_OK;
    const uint64_t begin = clock_nanoseconds();
    const bool personal = figure_facts[run->figure.kind].is_personal;
    TRY(evaluate_clients(run, personal ? &test->personal : &test->clients, round,
                         personal ? EVALUATE_PERSONAL : EVALUATE_CLIENT, err));
    run->report.evaluate_seconds += clock_seconds_since(begin);
    return STATUS_OK;
}

// Reports tests of the clients on their own samples: with their own models, with the global one, and with the global
// one after further training by the client. due: --eval-clients-every asks for all of them; otherwise only results of
// the round's test are reported. Call it right after test_models. Results of the global model go into *test.
static Status report_client_evaluations(Run *run, RoundTest *test, uint32_t round, bool due, Error *err) {
    const FigureFacts *facts = &figure_facts[run->figure.kind];
    const bool personal = run->options.recipe.personal.row != PERSONAL_NONE;
    const bool own = test->tested && facts->is_personal, global = test->tested && facts->is_clients;
    const struct {
        EvaluationTask task;
        const char *model;
        bool wanted, done;
    } kinds[] = {{EVALUATE_PERSONAL, "personal", own || (personal && due), own},
                 {EVALUATE_CLIENT, "global", global || due, global},
                 {EVALUATE_FINE_TUNED, "fine-tuned", due && run->options.finetune_epochs > 0, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ClientTests tests = own ? test->personal : test->clients;
        if (!kinds[i].wanted) continue;
        if (!kinds[i].done) TRY(evaluate_clients(run, &tests, round, kinds[i].task, err));
        if (kinds[i].task == EVALUATE_CLIENT) test->clients = tests;
        if (train_is_first(run))
            TRY(report_client_tests(&run->metrics, &run->memory, round, kinds[i].model, &tests, due, err));
    }
    return STATUS_OK;
}

static void say_goals(Run *run, uint32_t round, bool reaches_target) {
    const Goals *goals = &run->memory.control->goals;
    if (reaches_target && figure_facts[run->figure.kind].is_share)
        progress_say(&run->progress, "round %u reaches the target of %g%%\n", round, 100 * goals->target);
    else if (reaches_target)
        progress_say(&run->progress, "round %u reaches the target %s\n", round, run->options.target);
    if (goals_are_out_of_patience(goals, &run->options))
        progress_say(&run->progress, "the %s has not been better since round %u: patience ends\n",
                     run_figure_name(&run->figure), goals->best_round);
}

// A data set that changed during the run may be the cause; then the user is told that.
static Status check_data(const Run *run, Status status, Error *err) {
    if (status == STATUS_CANCELLED) return status;
    TRY(dataset_segment_check(&run->memory.data_segment, err));
    return status;
}

// Call it after the test of the round, while the shared weights are its model.
static Status note_best(Run *run, uint32_t round, Error *err) {
    if (!train_is_first(run) || round == 0 || run->memory.control->goals.best_round != round) return STATUS_OK;
    return best_model_note(&run->best, &run->memory, err);
}

static Status run_round(Run *run, Error *err) {
    const Options *options = &run->options;
    RoundReport *report = &run->report;
    Control *control = run->memory.control;
    uint32_t round = run->rounds_done + 1, last = (uint32_t)options->rounds;
    bool evaluate = round == last || is_due(options->eval_every, round), reaches_target = false;
    uint64_t begin = trace_begin(run->rounds.trace);
    TRY(rounds_draw(&run->rounds, round, err));
    progress_begin(&run->progress, round, rounds_samples(&run->rounds, evaluate));
    TRY(check_data(run, rounds_train(&run->rounds, round, report, err), err));
    run->published = round;
    if (train_is_first(run)) TRY(report_clients(&run->metrics, &run->memory, round, err));
    RoundTest test = round_test_none(&run->memory.data);
    test.judged &= run->tested.judged;
    test.validates = run->memory.partition.validation_count > 0;
    if (evaluate) {
        TRY(check_data(run, test_models(run, &test, round, err), err));
        run->tested = test;
        reaches_target = goals_note(&control->goals, &run->target, &run->figure, round_test_value(&test, &run->figure),
                                    round, &control->totals);
        TRY(note_best(run, round, err));
    }
    const bool is_last = round == last || goals_end(&control->goals, options);
    const bool clients = options->eval_clients_every > 0 && (is_last || is_due(options->eval_clients_every, round));
    TRY(check_data(run, report_client_evaluations(run, &test, round, clients, err), err));
    TRY(rounds_conclude(&run->rounds, report, err));
    run->stop_signal = report->stop_signal;
    run->workers_lost += report->workers_lost;
    run->has_trained |= report->samples > 0;
    if (train_is_first(run)) TRY(nodes_busy(&run->nodes, err)); // the first node's disk may be slow
    progress_end(&run->progress, report, &test, &run->figure);
    if (evaluate) say_goals(run, round, reaches_target);
    if (train_is_first(run))
        TRY(report_round(&run->metrics, &run->memory, report, &test, &run->figure, run_device_name(&run->device), err));
    run->rounds_done = round;
    const bool ends = is_last || run->stop_signal;
    if (train_is_first(run) && (ends || is_due(options->checkpoint_every, round))) TRY(save_round(run, err));
    trace_end(run->rounds.trace, TRACE_ROUND, begin, round, round);
    return trace_file_drain(&run->trace, &run->memory, &run->nodes, err);
}

static void note_cold_start(Run *run) {
    const Control *control = run->memory.control;
    uint64_t first = UINT64_MAX;
    for (uint32_t rank = 0; rank < control->config.workers; rank++) {
        uint64_t began = control->tallies[rank].first_sample_nanoseconds;
        if (began != 0 && began < first) first = began;
    }
    if (first != UINT64_MAX) run->cold_start_seconds = (double)(first - run->start_nanoseconds) * 1e-9;
}

static bool is_in_real_time(const Run *run) {
    return run->memory.algorithm.engine->in_real_time;
}

// On the real clock no other process can continue the run, so a run that is told to stop is finished.
static bool is_finished(const Run *run) {
    if (is_in_real_time(run) && run->stop_signal && run->rounds_done > 0) return true;
    return run->rounds_done >= (uint32_t)run->options.rounds || goals_end(&run->memory.control->goals, &run->options);
}

// Repeats the test of a round that an earlier process finished.
static Status repeat_evaluation(Run *run, Error *err) {
    return check_data(run, test_models(run, &run->tested, run->rounds_done, err), err);
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
    run->workers_lost += report.workers_lost;
    free(weights);
    return status;
}

// The answers are those of the final model's test.
static Status measure_classes(Run *run, Error *err) {
    const RunMemory *memory = &run->memory;
    const Dataset *data = &memory->data;
    if (!memory->answers || dataset_has_targets(&data->items) || !train_is_first(run)) return STATUS_OK;
    run->recalls = malloc((size_t)data->classes * sizeof *run->recalls);
    if (!run->recalls) return fail(err, STATUS_OS, "no memory for the accuracies of %d classes", data->classes);
    return answer_recalls(run->recalls, memory->answers, data->test.count, data->classes, err);
}

// With a validation set the test set is used here alone, for the final model and the best one. A GPU answers here.
static Status test_at_end(Run *run, Error *err) {
    RoundReport report = {0};
    run->final = run->tested;
    const bool lacks_answers = run->device.on_gpu && isnan(run->tested.figures.balanced_accuracy);
    if (run->memory.partition.validation_count == 0 && !lacks_answers) return measure_classes(run, err);
    run->rounds.wants_answers = true;
    progress_begin(&run->progress, run->rounds_done, run->memory.data.test.count);
    TRY(check_data(run, rounds_evaluate(&run->rounds, run->rounds_done, EVALUATE_TEST_SET, &report, err), err));
    run->workers_lost += report.workers_lost;
    run->final = round_test_of(&report, &run->memory);
    TRY(measure_classes(run, err));
    if (!run->tested.validates) run->tested.figures = run->final.figures;
    if (run->tested.validates) TRY(check_data(run, test_best(run, err), err));
    run->progress.round = 0; // none runs
    return STATUS_OK;
}

static Status run_rounds(Run *run, Error *err) {
    run->published = run->saved = run->rounds_done;
    const uint32_t first = run->rounds_done;
    RoundReport before = {0};
    TRY(rounds_conclude(&run->rounds, &before, err));
    run->stop_signal = before.stop_signal;
    TRY(note_best(run, run->rounds_done, err));
    if (is_finished(run) && !run->stop_signal) return repeat_evaluation(run, err);
    while (!is_finished(run) && !run->stop_signal) {
        TRY(run_round(run, err));
        if (run->cold_start_seconds == 0) note_cold_start(run);
    }
    if (!run->has_trained && run->rounds_done > first && train_is_first(run))
        log_warning("no client arrived in any of the %u rounds since round %u: the model has learned nothing in them",
                    run->rounds_done - first, first);
    return STATUS_OK;
}

// Saves the last published round after a GPU failed: its model is in the shared memory, which the GPU cannot damage.
static void save_what_is_there(Run *run) {
    Error err;
    char word[SHELL_WORD_BYTES];
    if (!run->device.on_gpu || run->published == run->saved) return;
    run->rounds_done = run->published;
    if (write_checkpoint(run, &err) == STATUS_OK)
        log_warning("round %u is saved; continue with: sounder train --resume %s", run->saved,
                    shell_path(word, run->folder.path));
    else
        log_warning("round %u cannot be saved: %s", run->published, err.message);
}

// A finished run that is resumed without more rounds has nothing to do, unless it was killed at the very end: then its
// model is missing, or is one of fewer rounds, and is written again.
static bool has_result(const Run *run) {
    return is_finished(run) && run_record_has_result(&run->past, &run->folder, run->rounds_done);
}

// Ends ----------------------------------------------------------------------------------------------------------------

static void print_device(Run *run) {
    char device[512];
    run_device_describe(device, sizeof device, &run->device, &run->options, run->memory.config->gpu.models_per_launch);
    if (*device) progress_say(&run->progress, "device: %s\n", device);
    if (train_is_first(run)) run_device_warn(&run->device, &run->options);
}

static void say_how_to_continue(Run *run) {
    char command[RUN_COMMAND_BYTES];
    Error why;
    if (run_continue_command(command, &run->options, &run->memory.control->goals, run->folder.path, run->rounds_done,
                             &why) == STATUS_OK)
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

static void print_ending(Run *run, const char *sha256, double seconds) {
    const uint32_t rounds = run->rounds_done, again = trainer_faults_total(run->memory.control);
    progress_conclude(&run->progress, &run->figure, &run->tested, &run->final, rounds, seconds);
    if (again > 0)
        progress_say(&run->progress, "%u turn%s done again after a fault of the trainer; its output is in %s/%s\n",
                     again, again == 1 ? " was" : "s were", run->folder.path, TRAINER_LOG_NAME);
    progress_say(&run->progress, "model: %s/" MODEL_NAME "  sha256 %.12s...\n", run->folder.path, sha256);
    print_best(run);
    say_how_to_continue(run);
}

static Status write_model(Run *run, Error *err) {
    char sha256[65];
    const Folder folder = run_folder_at(&run->folder);
    FilePart file = {run->memory.weights_segment.memory, run->memory.weights_segment.bytes};
    TRY(run_folder_check(&run->folder, err));
    TRY(durable_write(&folder, MODEL_NAME, &file, 1, err));
    TRY(best_model_end(&run->best, &folder, run->memory.control->goals.best_round, run->rounds_done, err));
    sha256_hex(sha256, &file, 1);
    RunSummary summary = {.rounds = run->rounds_done,
                          .seconds = clock_seconds_since(run->start_nanoseconds),
                          .cold_start_seconds = run->cold_start_seconds,
                          .workers_lost = run->workers_lost,
                          .last = &run->tested,
                          .final = &run->final,
                          .best_final = &run->best_final,
                          .recalls = run->recalls,
                          .options = &run->options,
                          .figure = &run->figure,
                          .model_sha256 = sha256,
                          .worker_bytes = run->worker_bytes,
                          .trainer_bytes = run->trainer_bytes,
                          .forks = run->forks,
                          .device = run_device_name(&run->device)};
    TRY(report_summary(&run->metrics, &run->memory, &summary, err));
    print_ending(run, sha256, summary.seconds);
    return STATUS_OK;
}

// Reports a signal that ended the run early, and sets the exit code to it.
static void note_signal(const Run *run, bool at_once, int *exit_code) {
    int signal = at_once ? run->rounds.phases.supervisor.last_signal : run->stop_signal;
    *exit_code = 128 + signal;
    char done[48] = "at once", word[SHELL_WORD_BYTES];
    if (!train_is_first(run)) return;
    if (!at_once) snprintf(done, sizeof done, "after round %u", run->rounds_done);
    if (!is_finished(run) && is_in_real_time(run))
        log_warning("stopped by signal %d %s; on the real clock a run cannot go on", signal, done);
    else if (is_finished(run) || run->rounds_done == 0)
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
        note_signal(run, false, exit_code);
        return STATUS_OK;
    }
    *exit_code = 128 + run->stop_signal;
    if (train_is_first(run)) log_warning("stopped by signal %d before the first round was done", run->stop_signal);
    return fail(err, STATUS_CANCELLED, "stopped by signal %d", run->stop_signal);
}

static void note_line(void *run, const json_t *line) {
    tensorboard_note(&((Run *)run)->tensorboard, line);
}

static void close_metrics(Run *run) {
    metrics_close(&run->metrics);
    tensorboard_end(&run->tensorboard);
}

// Writes the files of a run's beginning. The workers are ready by then, so a run that cannot start leaves nothing to
// resume.
static Status begin_files(Run *run, Error *err) {
    if (!train_is_first(run)) return STATUS_OK;
    const Folder folder = run_folder_at(&run->folder);
    TRY(run_config_write(&run->folder, &run->options, err));
    TRY(run->options.resume[0] ? metrics_reopen(&run->metrics, &folder, run->rounds_done, err)
                               : metrics_create(&run->metrics, &folder, err));
    run->record.rounds_done = run->rounds_done;
    run->record.figure = run->figure;
    run->record.tensors = run->memory.tensors.count;
    if (run->memory.schedule.count > 0) TRY(run_schedule_write(&folder, &run->memory.schedule, err));
    Status status = run_record_write(&run->metrics, &run->record, &run->options, run->argc, run->argv, err);
    if (status == STATUS_OK)
        status =
            run_folder_link_live(&run->folder, run->memory.weights_segment.fd, run->memory.control_segment.fd, err);
    if (status != STATUS_OK) metrics_close(&run->metrics);
    if (status != STATUS_OK) return status;
    tensorboard_begin(&run->tensorboard, &folder, &run->options, run->rounds_done);
    run->metrics.on_line = note_line;
    run->metrics.context = run;
    return STATUS_OK;
}

// Opens the trace first: if it cannot be written, the run does not begin.
static Status begin(Run *run, Error *err) {
    Status status = trace_file_open(&run->trace, run->options.trace, &run->memory, &run->nodes, err);
    // filtering a long metrics.jsonl takes time when a run is resumed
    if (status == STATUS_OK) status = nodes_busy(&run->nodes, err);
    if (status == STATUS_OK) status = begin_files(run, err);
    status = nodes_agree(&run->nodes, status, err);
    if (status != STATUS_OK) trace_file_close(&run->trace, NULL);
    return status;
}

// On the real clock the order of arrivals is known only at the end; writes it.
static Status write_arrivals(const Run *run, Error *err) {
    const Folder folder = run_folder_at(&run->folder);
    if (!is_in_real_time(run)) return STATUS_OK;
    return run_schedule_write(&folder, &run->rounds.clock.log, err);
}

static Status run_with_workers(Run *run, Error *err) {
    TRY(begin(run, err));
    train_say_heading(run);
    print_device(run);
    if (is_in_real_time(run))
        progress_say(&run->progress,
                     "clock: real; nothing can resume the run, but --init begins another with the model "
                     "of its last checkpoint\n");
    Status status = run_rounds(run, err);
    if (status == STATUS_OK && is_finished(run)) status = test_at_end(run, err);
    if (status == STATUS_OK) status = nodes_busy(&run->nodes, err);
    if (status == STATUS_OK) status = write_arrivals(run, err);
    Status closed = trace_file_close(&run->trace, status == STATUS_OK ? err : NULL);
    if (status == STATUS_OK) status = closed;
    if (!train_is_first(run)) return status;
    run->worker_bytes = report_worker_bytes(&run->rounds.phases.supervisor);
    run->trainer_bytes = report_trainer_bytes(run->memory.control);
    run->forks = atomic_load(&run->memory.control->forks) != 0;
    if (status != STATUS_OK) save_what_is_there(run);
    run_folder_unlink_live(&run->folder);
    if (status != STATUS_OK) close_metrics(run);
    return status;
}

static Status rehearse(Run *run, Error *err) {
    progress_step_begin(&run->progress, "rehearsing a turn of the trainer");
    const Status status = trainer_host_rehearse(&run->trainers, &run->memory, err);
    progress_step_end(&run->progress);
    return status;
}

// Does everything that needs living workers.
static Status train(Run *run, int *exit_code, Error *err) {
    RoundsConfig config = {.phases = {.memory = &run->memory,
                                      .worker_arguments = worker_arguments,
                                      .on_worker_death = (WorkerDeath)run->options.on_worker_death,
                                      .hang_seconds = run->options.hang_seconds,
                                      .on_tick = progress_tick,
                                      .context = &run->progress,
                                      .trainers = train_has_programs(run) ? &run->trainers : NULL},
                           .backend = run->device.on_gpu ? parent_on_gpu() : &parent_on_cpu,
                           .clients_per_round = (uint32_t)run->options.clients_per_round,
                           .rounds_done = run->rounds_done,
                           .nodes = &run->nodes};
    progress_watch(&run->progress, &run->rounds);
    Status status = STATUS_OK;
    if (config.phases.trainers) status = trainer_host_add_workers(&run->trainers, (uint32_t)run->options.workers, err);
    if (config.phases.trainers && status == STATUS_OK) status = rehearse(run, err);
    if (status == STATUS_OK) status = rounds_init(&run->rounds, &config, err);
    bool started = status == STATUS_OK;
    run->rounds.wants_answers = figure_facts[run->figure.kind].of_classes;
    // A run that is to stop does not begin again on the CPU.
    if (!started && run->device.on_gpu && run->rounds.phases.supervisor.interrupts > 0)
        status = fail(err, STATUS_CANCELLED, "stopped by a signal before the workers were ready");
    status = train_agree_to_begin(run, status, err);
    if (status == STATUS_OK) status = run_with_workers(run, err);
    bool at_once = status == STATUS_CANCELLED; // a second signal
    if (at_once || (status == STATUS_OK && run->stop_signal)) note_signal(run, at_once, exit_code);
    if (started) rounds_free(&run->rounds);
    return status;
}

static Status restore(Run *run, Error *err) {
    if (!run->options.resume[0] || !train_is_first(run)) return STATUS_OK;
    TRY(run_record_check(&run->past, &run->record, run->folder.path, err));
    TRY(run_check_programs(&run->past, &run->record, &run->options, err));
    progress_step_begin(&run->progress, "reading the checkpoint");
    Status status =
        run_checkpoint_restore(&run->memory, &run->rounds_done, &run->folder, &run->record, &run->past, err);
    progress_step_end(&run->progress);
    TRY(status);
    if (run->rounds_done <= (uint32_t)run->options.rounds) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--rounds %d: the run in %s has done %u round%s already", run->options.rounds,
                run->folder.path, run->rounds_done, plural(run->rounds_done));
}

Status train_in_folder(Run *run, int *exit_code, Error *err) {
    TRY(nodes_agree(&run->nodes, restore(run, err), err));
    if (run->options.trainer[0] && !run->target.given) goals_settle(&run->memory.control->goals, &run->figure);
    if (train_is_first(run)) goals_begin(&run->memory.control->goals, &run->target, &run->figure);
    bool done = run->options.resume[0] && train_is_first(run) && has_result(run);
    TRY(together_start(&run->memory, &run->rounds_done, &done, &run->nodes, err));
    if (done) {
        train_say_heading(run);
        if (train_is_first(run)) run_folder_unlink_live(&run->folder); // a process that died could not remove it
        progress_say(&run->progress, "the run in %s has done its %u round%s\n", run->folder.path, run->rounds_done,
                     plural(run->rounds_done));
        say_how_to_continue(run);
        return STATUS_OK;
    }
    TRY(train(run, exit_code, err));
    if (!train_is_first(run)) return STATUS_OK;
    Status status = is_finished(run) ? write_model(run, err) : STATUS_OK;
    close_metrics(run);
    return status;
}
