// The parent's run, from options to the final model: follow command_train.
#include "app/commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/look/tensorboard.h"
#include "app/run/progress.h"
#include "app/run/ready_data.h"
#include "app/run/report.h"
#include "app/run/run_device.h"
#include "app/run/run_folder.h"
#include "app/run/run_goals.h"
#include "app/run/run_schedule.h"
#include "app/run/run_set_up.h"
#include "base/clock.h"
#include "base/log.h"
#include "fedavg/card/card.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/parent/trace_file.h"
#include "io/durable.h"
#include "nn/kernels.h"
#include "nn/net.h"
#include "nn/spec.h"

typedef struct Run {
    Options options;
    uint64_t start_nanoseconds;
    uint64_t data_hash;
    ModelAbout about;
    Spec spec;
    int argc; // of the command line, which the run's record repeats; borrowed
    char **argv;
    RunFolder folder;
    RunRecord past, record; // of the process before, with --resume; of this one
    const ReadyData *ready; // data sets that are there already; borrowed, NULL: none
    DatasetSource source;
    RunDevice device;
    char blas[NET_BLAS_NAME_BYTES]; // what multiplies for wide layers; empty if the net has none, or a card
    RunMemory memory;
    Nodes nodes;
    Rounds rounds;
    Metrics metrics;
    Tensorboard tensorboard;
    Progress progress;
    TraceFile trace;
    uint32_t rounds_done;
    uint32_t published; // the round whose model the shared memory holds: from its training on, before it is done
    uint32_t saved;     // the round of the last checkpoint
    uint32_t workers_lost;
    int stop_signal;       // that ends the run before its time; 0: none
    RoundReport report;    // of the last round
    RoundReport evaluated; // of the last evaluated round
    double cold_start_seconds;
    int64_t worker_bytes; // of the largest worker, when all rounds were done
} Run;

// Options -------------------------------------------------------------------------------------------------------------

// One node alone writes files and prints; it is the first.
static bool is_first(const Run *run) {
    return run->nodes.rank == 0;
}

static Status complete_options(Run *run, Error *err) {
    Options *options = &run->options;
    options->nodes = (int)run->nodes.size;
    if (options->resume[0]) TRY(run_read_saved_options(options, &run->past, err));
    log_init((LogLevel)options->log_level, LOG_RANK_PARENT);
    TRY(run_device_check(options, err));
    return options_resolve(options, err);
}

static Status read_options(Run *run, Error *err) {
    Options *options = &run->options;
    options_defaults(options);
    TRY(options_parse(options, run->argc, run->argv, err));
    TRY(nodes_init(&run->nodes, err));
    if (run->nodes.size > 1) log_name_node((int)run->nodes.rank);
    Status status = is_first(run) ? complete_options(run, err) : STATUS_OK;
    TRY(together_options(options, &run->nodes, status, err));
    if (!is_first(run)) log_init((LogLevel)options->log_level, LOG_RANK_PARENT);
    if (!is_first(run)) options->quiet = true;
    run->nodes.silence_seconds = options->hang_seconds;
    return STATUS_OK;
}

// Set-up --------------------------------------------------------------------------------------------------------------

static const char *run_label(const Options *options) {
    for (size_t i = 0; i < zoo_entry_count; i++)
        if (strcmp(options->model, zoo_entries[i].name) == 0) return options->model;
    return "custom";
}

static Status open_folder(Run *run, Error *err) {
    const Options *options = &run->options;
    run->folder = (RunFolder){.lock_fd = -1, .checkpoints_fd = -1};
    if (!is_first(run)) {
        snprintf(run->folder.path, sizeof run->folder.path, "%.4000s", options->out); // for messages
        return STATUS_OK;
    }
    if (options->resume[0]) return run_folder_open(&run->folder, options->resume, err);
    return run_folder_create(&run->folder, options->out, run_label(options), err);
}

// Rounds --------------------------------------------------------------------------------------------------------------

static Status write_checkpoint(Run *run, Error *err) {
    TRY(run_checkpoint_write(&run->folder, &run->memory, &run->spec, &run->about, &run->record, run->rounds_done, err));
    run->saved = run->rounds_done;
    kept_rows_saved(&run->rounds.kept, run->rounds_done);
    return STATUS_OK;
}

static bool is_due(int every, uint32_t round, uint32_t last) {
    return round == last || (every > 0 && round % (uint32_t)every == 0);
}

static Status save_round(Run *run, Error *err) {
    uint64_t begin = trace_begin(run->rounds.trace);
    TRY(write_checkpoint(run, err));
    trace_end(run->rounds.trace, TRACE_CHECKPOINT, begin, run->rounds_done, run->rounds_done);
    return STATUS_OK;
}

// The global model on every client's own samples, and what becomes of it when the client trains it further.
static Status evaluate_clients(Run *run, uint32_t round, Error *err) {
    const struct {
        EvaluationTask task;
        const char *model;
        bool wanted;
    } kinds[] = {{EVALUATE_CLIENT, "global", true},
                 {EVALUATE_PERSONAL, "personal", run->options.recipe.parts[PART_PERSONAL].row != PERSONAL_NONE},
                 {EVALUATE_FINE_TUNED, "fine-tuned", run->options.finetune_epochs > 0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].wanted) continue;
        TRY(rounds_evaluate_clients(&run->rounds, round, kinds[i].task, err));
        if (is_first(run)) TRY(report_client_evaluation(&run->metrics, &run->memory, round, kinds[i].model, err));
    }
    return STATUS_OK;
}

static void note_goals(Run *run, const RoundReport *report) {
    Control *control = run->memory.control;
    const Goals *goals = &control->goals;
    if (goals_note(&control->goals, report, &control->totals))
        progress_say(&run->progress, "round %u reaches the target of %g%%\n", report->round, 100 * goals->target);
    if (run->options.patience > 0 && goals->tests_since_best >= (uint32_t)run->options.patience)
        progress_say(&run->progress, "no test has been better since round %u: patience ends\n", goals->best_round);
}

static Status run_round(Run *run, Error *err) {
    const Options *options = &run->options;
    RoundReport *report = &run->report;
    uint32_t round = run->rounds_done + 1, last = (uint32_t)options->rounds;
    bool evaluate = is_due(options->eval_every, round, last);
    uint64_t begin = trace_begin(run->rounds.trace);
    TRY(rounds_draw(&run->rounds, round, err));
    progress_begin(&run->progress, round, rounds_samples(&run->rounds, evaluate));
    Status status = rounds_train(&run->rounds, round, report, err);
    TRY(dataset_segment_check(&run->memory.data_segment, err)); // first: workers may have died of it
    TRY(status);
    run->published = round;
    if (is_first(run)) TRY(report_clients(&run->metrics, &run->memory, round, err));
    if (evaluate) {
        TRY(rounds_evaluate(&run->rounds, round, report, err));
        run->evaluated = *report;
    }
    if (run->options.eval_clients_every > 0 && is_due(options->eval_clients_every, round, last))
        TRY(evaluate_clients(run, round, err));
    TRY(rounds_conclude(&run->rounds, report, err));
    run->stop_signal = report->stop_signal;
    run->workers_lost += report->workers_lost;
    progress_end(&run->progress, report, evaluate);
    if (evaluate) note_goals(run, report);
    if (is_first(run))
        TRY(report_round(&run->metrics, &run->memory, report, evaluate, run_device_name(&run->device), err));
    run->rounds_done = round;
    bool ends = run->stop_signal || goals_end(&run->memory.control->goals, options);
    if (is_first(run) && (is_due(options->checkpoint_every, round, last) || ends)) TRY(save_round(run, err));
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

static bool is_finished(const Run *run) {
    return run->rounds_done >= (uint32_t)run->options.rounds || goals_end(&run->memory.control->goals, &run->options);
}

static Status run_rounds(Run *run, Error *err) {
    run->published = run->saved = run->rounds_done;
    RoundReport before = {0};
    TRY(rounds_conclude(&run->rounds, &before, err));
    run->stop_signal = before.stop_signal;
    while (!is_finished(run) && !run->stop_signal) {
        TRY(run_round(run, err));
        if (run->cold_start_seconds == 0) note_cold_start(run);
    }
    return STATUS_OK;
}

// A card that fails takes nothing along that was published: the shared memory holds the model of the last round.
static void save_what_is_there(Run *run) {
    Error err;
    if (!run->device.on_card || run->published == run->saved) return;
    run->rounds_done = run->published;
    if (write_checkpoint(run, &err) == STATUS_OK)
        log_warning("round %u is saved; continue with: sounder train --resume %s", run->saved, run->folder.path);
    else
        log_warning("round %u cannot be saved: %s", run->published, err.message);
}

// A finished run that is resumed without more rounds has nothing left to do. Without its model it was killed at the
// very end, and that is made up for.
static bool has_result(const Run *run) {
    return is_finished(run) && run_folder_has(&run->folder, "model.safetensors");
}

// Ends ----------------------------------------------------------------------------------------------------------------

static void print_device(Run *run) {
    char device[512];
    run_device_describe(device, sizeof device, &run->device, &run->options, run->memory.config->card.models_per_launch);
    if (*device) progress_say(&run->progress, "device: %s\n", device);
}

static void print_ending(Run *run, const char *sha256, double seconds) {
    uint32_t rounds = run->rounds_done;
    const RoundReport *last = &run->evaluated;
    if (last->test_count > 0)
        progress_say(&run->progress, "%.2f%% after %u round%s, %.2f s\n", 100.0 * last->test_hits / last->test_count,
                     rounds, plural(rounds), seconds);
    progress_say(&run->progress, "model: %s/model.safetensors  sha256 %.12s...\n", run->folder.path, sha256);
    progress_say(&run->progress, "go on: sounder train --resume %s --rounds %u\n", run->folder.path, 2 * rounds);
}

static Status write_model(Run *run, Error *err) {
    char sha256[65];
    const Folder folder = run_folder_at(&run->folder);
    FilePart file = {run->memory.weights_segment.memory, run->memory.weights_segment.bytes};
    TRY(run_folder_check(&run->folder, err));
    TRY(durable_write(&folder, "model.safetensors", &file, 1, err));
    sha256_hex(sha256, &file, 1);
    RunSummary summary = {.rounds = run->rounds_done,
                          .seconds = clock_seconds_since(run->start_nanoseconds),
                          .cold_start_seconds = run->cold_start_seconds,
                          .workers_lost = run->workers_lost,
                          .last = &run->evaluated,
                          .model_sha256 = sha256,
                          .worker_bytes = run->worker_bytes,
                          .device = run_device_name(&run->device)};
    TRY(report_summary(&run->metrics, &run->memory, &summary, err));
    print_ending(run, sha256, summary.seconds);
    return STATUS_OK;
}

// A signal has ended the run before its time: the exit code says which.
static void note_signal(const Run *run, bool at_once, int *exit_code) {
    int signal = at_once ? run->rounds.phases.supervisor.last_signal : run->stop_signal;
    *exit_code = 128 + signal;
    char done[48] = "at once";
    if (!is_first(run)) return;
    if (!at_once) snprintf(done, sizeof done, "after round %u", run->rounds_done);
    if (is_finished(run) || run->rounds_done == 0)
        log_warning("stopped by signal %d %s, %s", signal, done,
                    run->rounds_done ? "the last" : "before the first round was done");
    else
        log_warning("stopped by signal %d %s; continue with: sounder train --resume %s", signal, done,
                    run->folder.path);
}

static void note_line(void *run, const json_t *line) {
    tensorboard_note(&((Run *)run)->tensorboard, line);
}

static void close_metrics(Run *run) {
    metrics_close(&run->metrics);
    tensorboard_end(&run->tensorboard);
}

// What stands in the folder from the start. It is written when the workers stand ready, so that a run that cannot start
// leaves nothing that would have to be resumed.
static Status begin_files(Run *run, Error *err) {
    if (!is_first(run)) return STATUS_OK;
    const Folder folder = run_folder_at(&run->folder);
    TRY(run_config_write(&run->folder, &run->options, err));
    TRY(run->options.resume[0] ? metrics_reopen(&run->metrics, &folder, run->rounds_done, err)
                               : metrics_create(&run->metrics, &folder, err));
    run->record.rounds_done = run->rounds_done;
    if (run->memory.schedule.count > 0) TRY(run_schedule_write(&folder, &run->memory.schedule, err));
    Status status = run_record_write(&run->metrics, &run->record, &run->options, run->argc, run->argv, err);
    if (status == STATUS_OK) status = run_folder_link_live(&run->folder, run->memory.weights_segment.fd, run->memory.control_segment.fd, err);
    if (status != STATUS_OK) metrics_close(&run->metrics);
    if (status != STATUS_OK) return status;
    tensorboard_begin(&run->tensorboard, &folder, &run->options, run->rounds_done);
    run->metrics.on_line = note_line;
    run->metrics.context = run;
    return STATUS_OK;
}

// The trace comes first: where it cannot be written, no run begins.
static Status begin(Run *run, Error *err) {
    Status status = trace_file_open(&run->trace, run->options.trace, &run->memory, &run->nodes, err);
    if (status == STATUS_OK) status = begin_files(run, err);
    status = nodes_agree(&run->nodes, status, err);
    if (status != STATUS_OK) trace_file_close(&run->trace, NULL);
    return status;
}

// On the real clock it is known now what came when.
static Status write_arrivals(const Run *run, Error *err) {
    const Folder folder = run_folder_at(&run->folder);
    if (!run->memory.config->real_clock) return STATUS_OK;
    return run_schedule_write(&folder, &run->rounds.clock.log, err);
}

static Status run_with_workers(Run *run, Error *err) {
    TRY(begin(run, err));
    print_device(run);
    Status status = run_rounds(run, err);
    if (status == STATUS_OK) status = write_arrivals(run, err);
    Status closed = trace_file_close(&run->trace, status == STATUS_OK ? err : NULL);
    if (status == STATUS_OK) status = closed;
    if (!is_first(run)) return status;
    run->worker_bytes = report_worker_bytes(&run->rounds.phases.supervisor);
    if (status != STATUS_OK) save_what_is_there(run);
    run_folder_unlink_live(&run->folder);
    if (status != STATUS_OK) close_metrics(run);
    return status;
}

// Everything that happens while the workers live.
static Status train(Run *run, int *exit_code, Error *err) {
    RoundsConfig config = {.phases = {.memory = &run->memory,
                                      .worker_arguments = worker_arguments,
                                      .on_worker_death = (WorkerDeath)run->options.on_worker_death,
                                      .hang_seconds = run->options.hang_seconds,
                                      .on_tick = progress_tick,
                                      .context = &run->progress},
                           .math = run->device.on_card ? parent_on_card() : &parent_on_cpu,
                           .clients_per_round = (uint32_t)run->options.clients_per_round,
                           .rounds_done = run->rounds_done,
                           .nodes = &run->nodes};
    progress_watch(&run->progress, &run->rounds);
    Status status = rounds_init(&run->rounds, &config, err);
    bool started = status == STATUS_OK;
    status = nodes_agree(&run->nodes, status, err);
    if (status == STATUS_OK) status = run_with_workers(run, err);
    bool at_once = status == STATUS_CANCELLED; // a second signal
    if (at_once || (status == STATUS_OK && run->stop_signal)) note_signal(run, at_once, exit_code);
    if (started) rounds_free(&run->rounds);
    return status;
}

static Status restore(Run *run, Error *err) {
    if (!run->options.resume[0] || !is_first(run)) return STATUS_OK;
    TRY(run_record_check(&run->past, &run->record, run->folder.path, err));
    progress_step_begin(&run->progress, "reading the checkpoint");
    Status status = run_checkpoint_restore(&run->memory, &run->rounds_done, &run->spec, &run->folder, &run->record,
                                           &run->past, err);
    progress_step_end(&run->progress);
    TRY(status);
    if (run->rounds_done <= (uint32_t)run->options.rounds) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--rounds %d: the run in %s has done %u round%s already", run->options.rounds,
                run->folder.path, run->rounds_done, plural(run->rounds_done));
}

static Status run_in_folder(Run *run, int *exit_code, Error *err) {
    TRY(nodes_agree(&run->nodes, restore(run, err), err));
    if (is_first(run)) goals_begin(&run->memory.control->goals, &run->options);
    bool done = run->options.resume[0] && is_first(run) && has_result(run);
    TRY(together_start(&run->memory, &run->rounds_done, &done, &run->nodes, err));
    if (done) {
        bool early = run->rounds_done < (uint32_t)run->options.rounds;
        progress_say(&run->progress, "the run in %s has done its %u round%s; more with %s\n", run->folder.path,
                     run->rounds_done, plural(run->rounds_done),
                     early ? "another --patience or --target-accuracy" : "--rounds");
        return STATUS_OK;
    }
    TRY(train(run, exit_code, err));
    if (!is_first(run)) return STATUS_OK;
    Status status = is_finished(run) ? write_model(run, err) : STATUS_OK;
    close_metrics(run);
    return status;
}

// What only this node can find wrong, before anything is created on disk.
static Status prepare(Run *run, Error *err) {
    progress_step_begin(&run->progress, "reading the data set");
    const bool is_ready = ready_data_serves(run->ready, run->options.data, run->options.seed);
    Status status = run_load_data(&run->memory, &run->source, is_ready ? run->ready : NULL, &run->options, err);
    progress_step_end(&run->progress);
    TRY(status);
    const Dataset *data = &run->memory.data;
    status = run_import_model(&run->options, data, err);
    if (status == STATUS_OK) status = run_read_model(&run->spec, run->about.text, &run->options, data, err);
    if (status == STATUS_OK) status = goals_check(&run->options, data, err);
    const bool folder = run->source.folder[0] && !run->source.named;
    run->data_hash = is_ready ? run->ready->hash : run_hash_data(data);
    model_about_data(&run->about, data, folder ? data->name : run->options.data, run->data_hash, run->options.seed);
    if (status != STATUS_OK) run_memory_free(&run->memory);
    return status;
}

static Status create_memory(Run *run, Error *err) {
    progress_step_begin(&run->progress, "setting up the memory of the run");
    Status status = run_create_memory(&run->memory, &run->options, &run->spec, &run->about, &run->device, &run->folder,
                                      &run->nodes, err);
    progress_step_end(&run->progress);
    return status;
}

// What the run computes with, which all nodes must have: the card, or the instruction set and what multiplies for wide
// layers. That OpenBLAS is missing shows here, before any worker starts.
static Status find_arithmetic(Run *run, char *name, size_t bytes, Error *err) {
    const Kernels *kernels = kernels_best();
    if (!run->device.on_card) TRY(net_blas_name(run->blas, &run->spec, kernels, err));
    const uint32_t clients = (uint32_t)run->options.clients, wanted = (uint32_t)run->options.clients_per_round;
    if (!*run->blas)
        TRY(combine_blas_name(run->blas, &run->options.recipe, &run->options.attack_rule,
                              cohort_trains(&run->options.world, clients, wanted), run->spec.parameter_count, err));
    snprintf(name, bytes, "%s%s%s", run->device.on_card ? run->device.card.name : kernels->name, *run->blas ? ", " : "",
             run->blas);
    return STATUS_OK;
}

// How many workers there are may depend on the device; all nodes go by the first.
static Status settle_workers(Run *run, Error *err) {
    Options *options = &run->options;
    Status status = STATUS_OK;
    if (run->device.on_card)
        status = run_resolve_on_card(&run->memory, options, run_device_side_by_side(&run->device), err);
    TRY(nodes_agree(&run->nodes, status, err));
    TRY(nodes_broadcast(&run->nodes, &options->workers, sizeof options->workers, err));
    return nodes_agree(&run->nodes, run_device_check_workers(&run->device, options->workers, err), err);
}

// The folder comes before the device, whose service may have to be started there, and the device before the memory,
// whose size it decides.
static Status run_on_device(Run *run, int *exit_code, Error *err) {
    Status status = run_device_open(&run->device, &run->options, is_first(run) ? run->folder.path : NULL, err);
    bool open = status == STATUS_OK;
    char arithmetic[TOGETHER_NAME_BYTES] = "";
    if (open) status = find_arithmetic(run, arithmetic, sizeof arithmetic, err);
    TRY_GOTO(close, together_check(&run->memory, arithmetic, &run->nodes, status, err));
    TRY_GOTO(close, settle_workers(run, err));
    const char *name = run->device.on_card ? run->device.card.name : kernels_best()->name;
    if (is_first(run)) run_record_fill(&run->record, &run->options, &run->memory, run->data_hash, name, run->blas);
    Heading heading = {&run->options, run_label(&run->options), &run->spec, &run->memory.data, name,
                       run->blas,     run->folder.path};
    progress_heading(&run->progress, &heading);
    TRY_GOTO(close, nodes_agree(&run->nodes, create_memory(run, err), err));
    status = run_in_folder(run, exit_code, err);
close:
    if (open) run_device_close(&run->device);
    return status;
}

static Status run_all(Run *run, int *exit_code, Error *err) {
    Status prepared = prepare(run, err), status = nodes_agree(&run->nodes, prepared, err);
    if (prepared != STATUS_OK) return status;
    if (status != STATUS_OK) goto free_memory;
    status = open_folder(run, err);
    bool open = status == STATUS_OK;
    TRY_GOTO(close_folder, nodes_agree(&run->nodes, status, err));
    status = run_on_device(run, exit_code, err);
    // Last, when nobody waits for anything any more; not after a signal, which wants a quick end.
    if (status == STATUS_OK && *exit_code == 0) dataset_segment_keep(&run->memory.data_segment, &run->source);
close_folder:
    // A new run that has failed in its first round leaves its folder free for another try. One that was stopped goes on.
    if (open && is_first(run) && status != STATUS_OK && status != STATUS_CANCELLED && run->rounds_done == 0 &&
        !run->options.resume[0])
        run_folder_discard(&run->folder);
    if (open) run_folder_close(&run->folder);
free_memory:
    run_memory_free(&run->memory);
    return status;
}

Status train_with(int argc, char **argv, const ReadyData *ready, int *exit_code, Error *err) {
    uint64_t start_nanoseconds = clock_nanoseconds();
    Run *run = calloc(1, sizeof *run);
    if (!run) return fail(err, STATUS_OS, "no memory");
    run->start_nanoseconds = start_nanoseconds;
    run->argc = argc;
    run->argv = argv;
    run->ready = ready;
    // A lost stdout must not end a run (progress.h), nor a file that ran into the limit of its size: both say so.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    Status status;
    *exit_code = 0;
    run->nodes.size = 1;
    TRY_GOTO(end, read_options(run, err));
    progress_init(&run->progress, &run->options, &run->nodes);
    status = run_all(run, exit_code, err);
end:
    nodes_free(&run->nodes, status == STATUS_OK);
    free(run);
    // A second signal is no failure, it has an exit code of its own.
    return status == STATUS_CANCELLED ? STATUS_OK : status;
}

Status command_train(int argc, char **argv, int *exit_code, Error *err) {
    return train_with(argc, argv, NULL, exit_code, err);
}
