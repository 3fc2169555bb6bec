// Part of run.h: a run from its first worker to its final model.
#include "app/train/train.h"
#include "app/train/train_steps.h"

#include <math.h>

#include "app/train/run_goals.h"
#include "app/train/run_noise_key.h"
#include "app/train/run_schedule.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/gpu/gpu.h"

static void note_cold_start(Run *run) {
    const Control *control = run->memory.control;
    uint64_t first = UINT64_MAX;
    for (uint32_t rank = 0; rank < control->config.workers; rank++) {
        uint64_t began = control->tallies[rank].first_sample_nanoseconds;
        if (began != 0 && began < first) first = began;
    }
    if (first != UINT64_MAX) run->summary.cold_start_seconds = (double)(first - run->start_nanoseconds) * 1e-9;
}

// Tests the last model if its round did not: an earlier process finished that round, or a signal ended the run on the
// real clock between two tests.
static Status test_last(Run *run, Error *err) {
    if (!train_is_finished(run) || train_has_ended(run)) return STATUS_OK;
    if (run->stop_signal && !train_is_in_real_time(run)) return STATUS_OK; // the next process tests it
    progress_begin(&run->progress, run->rounds_done, rounds_samples(&run->rounds, true));
    TRY(train_check_data(run, train_test_models(run, &run->tested, run->rounds_done, err), err));
    TRY(train_check_data(run, train_test_new_clients(run, &run->tested, run->rounds_done, true, err), err));
    run->tested_round = run->rounds_done;
    run->progress.round = 0; // none runs
    return STATUS_OK;
}

// first: rounds done before. With --noise-key system a warning would tell who was drawn.
static void warn_of_idle(const Run *run, uint32_t first) {
    const uint32_t rounds = run->rounds_done - first;
    if (run->has_trained || rounds == 0 || !train_is_first(run) || run->progress.hides_cohorts ||
        options_without_all(&run->options))
        return;
    if (rounds == 1)
        log_warning("no client arrived in round %u: the model has learned nothing in it", run->rounds_done);
    else
        log_warning("no client arrived in any of the %u rounds since round %u: the model has learned nothing in them",
                    rounds, first);
}

static Status run_rounds(Run *run, Error *err) {
    run->published = run->saved = run->rounds_done;
    const uint32_t first = run->rounds_done;
    RoundReport before = {0};
    TRY(rounds_conclude(&run->rounds, &before, err));
    run->stop_signal = before.stop_signal;
    TRY(train_note_best(run, run->rounds_done, err));
    while (!train_is_finished(run) && !run->stop_signal) {
        TRY(train_round(run, err));
        if (run->summary.cold_start_seconds == 0) note_cold_start(run);
    }
    warn_of_idle(run, first);
    return test_last(run, err);
}

// Saves the last published round after a GPU failed: its model is in the shared memory, which the GPU cannot damage.
static void save_what_is_there(Run *run) {
    Error err;
    char word[SHELL_WORD_BYTES];
    if (!run->device.on_gpu || run->published == run->saved) return;
    run->rounds_done = run->published;
    if (train_write_checkpoint(run, &err) == STATUS_OK)
        log_warning("round %u is saved; continue with: sounder train --resume %s", run->saved,
                    shell_path(word, run->folder.path));
    else
        log_warning("round %u cannot be saved: %s", run->published, err.message);
}

static void print_device(Run *run) {
    char device[512];
    run_device_describe(device, sizeof device, &run->device, &run->options, run->memory.config->gpu.models_per_launch);
    if (*device) progress_say(&run->progress, "device: %s\n", device);
    if (train_is_first(run)) run_device_warn(&run->device, &run->options);
}

static void note_line(void *run, const json_t *line) {
    tensorboard_note(&((Run *)run)->tensorboard, line);
}

static void close_metrics(Run *run) {
    metrics_close(&run->metrics);
    tensorboard_end(&run->tensorboard);
}

// The record of a private run keeps the clients' numbers.
static Status write_start(Run *run, Error *err) {
    ClientNames names = {0};
    if (!options_add_noise(&run->options)) TRY(client_names_find(&names, &run->memory, &run->options, err));
    const Status status =
        run_record_write(&run->metrics, &run->record, &run->options, &names, run->argc, run->argv, err);
    client_names_free(&names);
    return status;
}

// Writes the files of a run's beginning. The workers are ready by then, so a run that cannot start leaves nothing to
// resume.
static Status begin_files(Run *run, Error *err) {
    if (!train_is_first(run)) return STATUS_OK;
    const Folder folder = run_folder_at(&run->folder);
    TRY(run_config_write(&run->folder, &run->options, err));
    if (run->memory.schedule.count > 0) TRY(run_schedule_write(&folder, &run->memory.schedule, err));
    TRY(run->options.resume[0] ? metrics_reopen(&run->metrics, &folder, run->rounds_done, err)
                               : metrics_create(&run->metrics, &folder, err));
    Status status = run_record_kept(&run->kept, &run->folder, run->rounds_done, err);
    run->summary.workers_lost = run->kept.workers_lost;
    run->record.rounds_done = run->rounds_done;
    run->record.figure = run->figure;
    run->record.tensors = run->memory.tensors.count;
    if (status == STATUS_OK) status = write_start(run, err);
    if (status == STATUS_OK)
        status =
            run_folder_link_live(&run->folder, run->memory.weights_segment.fd, run->memory.control_segment.fd, err);
    if (status != STATUS_OK) metrics_close(&run->metrics);
    TRY(status);
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
    if (!train_is_in_real_time(run)) return STATUS_OK;
    return run_schedule_write(&folder, &run->rounds.clock.log, err);
}

static Status run_with_workers(Run *run, Error *err) {
    TRY(begin(run, err));
    train_say_heading(run);
    print_device(run);
    if (train_is_in_real_time(run))
        progress_say(&run->progress, "clock: real; nothing can resume the run, but --init begins another with the "
                                     "model of its last checkpoint\n");
    Status status = run_rounds(run, err);
    if (status == STATUS_OK && train_has_ended(run)) status = train_test_at_end(run, err);
    if (status == STATUS_OK) status = nodes_busy(&run->nodes, err);
    if (status == STATUS_OK) status = write_arrivals(run, err);
    Status closed = trace_file_close(&run->trace, status == STATUS_OK ? err : NULL);
    if (status == STATUS_OK) status = closed;
    if (!train_is_first(run)) return status;
    run->summary.worker_bytes = worker_private_bytes(&run->rounds.phases.supervisor);
    run->summary.trainer_bytes = trainer_private_bytes(run->memory.control);
    run->summary.forks = atomic_load(&run->memory.control->forks) != 0;
    if (status != STATUS_OK) save_what_is_there(run);
    run_folder_unlink_live(&run->folder);
    if (status != STATUS_OK) close_metrics(run);
    return status;
}

static Status rehearse(Run *run, Error *err) {
    progress_step_begin(&run->progress, "rehearsing a turn of the trainer");
    const Status status = trainer_host_rehearse(&run->trainers, &run->memory, run->net.values, err);
    progress_step_end(&run->progress);
    TRY(status);
    if (!train_is_first(run)) return STATUS_OK;
    run->record.witness = run->trainers.nursery.witness;
    return run->options.resume[0] ? run_record_check_witness(&run->record, &run->past, &run->options, &run->memory, err)
                                  : STATUS_OK;
}

static void tick(void *context) {
    Run *run = context;
    if (clock_seconds_since(run->meter.read_nanoseconds) >= 1) energy_meter_read(&run->meter);
    progress_tick(&run->progress);
}

// A run that cannot be measured is a run nevertheless.
static void begin_meter(Run *run) {
    char why[ENERGY_WHY_BYTES];
    if (run->options.measure_energy && train_is_first(run) && !energy_meter_begin(&run->meter, why))
        log_warning("--measure-energy: nothing is measured: %s", why);
}

// Does everything that needs living workers.
static Status train(Run *run, int *exit_code, Error *err) {
    RoundsConfig config = {.phases = {.memory = &run->memory,
                                      .worker_arguments = worker_arguments,
                                      .on_worker_death = (WorkerDeath)run->options.on_worker_death,
                                      .hang_seconds = run->options.hang_seconds,
                                      .on_tick = tick,
                                      .context = run,
                                      .trainers = train_has_programs(run) ? &run->trainers : NULL},
                           .backend = run->device.on_gpu ? parent_on_gpu() : &parent_on_cpu,
                           .clients_per_round = (uint32_t)run->options.clients_per_round,
                           .rounds_done = run->rounds_done,
                           .nodes = &run->nodes};
    begin_meter(run);
    progress_watch(&run->progress, &run->rounds);
    Status status = STATUS_OK;
    if (config.phases.trainers) status = trainer_host_add_workers(&run->trainers, (uint32_t)run->options.workers, err);
    if (config.phases.trainers && status == STATUS_OK) status = rehearse(run, err);
    if (status == STATUS_OK) status = rounds_init(&run->rounds, &config, err);
    bool started = status == STATUS_OK;
    run->rounds.wants_answers =
        run_figure_has(&run->figure, FIGURE_OF_CLASSES) || run->memory.config->spec.label_rows; // whose round says more
    // A run that is to stop does not begin again on the CPU.
    if (!started && run->device.on_gpu && run->rounds.phases.supervisor.interrupts > 0)
        status = fail(err, STATUS_CANCELLED, "stopped by a signal before the workers were ready");
    status = train_agree_to_begin(run, status, err);
    if (status == STATUS_OK) status = run->options.plan ? train_plan_turn(run, err) : run_with_workers(run, err);
    bool at_once = status == STATUS_CANCELLED; // a second signal
    if (at_once || (status == STATUS_OK && run->stop_signal)) train_note_signal(run, at_once, exit_code);
    if (started) rounds_free(&run->rounds);
    return status;
}

static Status restore(Run *run, Error *err) {
    if (!run->options.resume[0] || !train_is_first(run)) return STATUS_OK;
    if (run_has_checkpoint(&run->folder)) run_record_keep_init(&run->record, &run->past);
    TRY(run_record_check(&run->past, &run->record, &run->options, run->folder.path, err));
    progress_step_begin(&run->progress, "reading the checkpoint");
    Status status =
        run_checkpoint_restore(&run->memory, &run->rounds_done, &run->folder, &run->record, &run->past, err);
    progress_step_end(&run->progress);
    TRY(status);
    if (run->rounds_done <= (uint32_t)run->options.rounds) return STATUS_OK;
    return options_refuse(&run->options, "rounds", err, " %d: the run in %s has done %u round%s already; give more",
                          run->options.rounds, run->folder.path, run->rounds_done, plural(run->rounds_done));
}

// Refuses joules that are never counted, and warns of seconds, which do not repeat.
static Status check_budget(const Run *run, Error *err) {
    const Budget *budget = &run->budget;
    if (!isnan(budget->most[BUDGET_JOULES]) && !run->memory.world_files.powers)
        return options_refuse(&run->options, "until", err,
                              " joules=%g: no client's watts are known; give them in the file of --client-time "
                              "file:FILE, or take bytes= or simulated-seconds=",
                              budget->most[BUDGET_JOULES]);
    if (!isnan(budget->most[BUDGET_SECONDS]) && train_is_first(run))
        log_warning("--until seconds=%g: how many rounds that is depends on the machine, so that the run does not "
                    "repeat; simulated-seconds=, bytes= and tokens= do",
                    budget->most[BUDGET_SECONDS]);
    return STATUS_OK;
}

Status train_in_folder(Run *run, int *exit_code, Error *err) {
    Status status = check_budget(run, err);
    if (status == STATUS_OK) status = restore(run, err);
    if (status == STATUS_OK && train_is_first(run) && run->rounds_done == 0)
        status = run_noise_key_begin(&run->memory, &run->options, &run->record, err);
    TRY(nodes_agree(&run->nodes, status, err));
    if (run->options.trainer[0] && !run->target.given) goals_settle(&run->memory.control->goals, &run->figure);
    if (train_is_first(run)) goals_begin(&run->memory.control->goals, &run->target, &run->figure);
    run->spent = budget_is_spent(&run->budget, &run->memory.control->totals);
    bool done = run->options.resume[0] && train_is_first(run) && train_has_result(run);
    TRY(together_start(&run->memory, &run->rounds_done, &done, &run->nodes, err));
    run->spent = budget_is_spent(&run->budget, &run->memory.control->totals);
    if (done) {
        train_say_heading(run);
        if (train_is_first(run)) run_folder_unlink_live(&run->folder); // a process that died could not remove it
        progress_say(&run->progress, "the run in %s has done its %u round%s\n", run->folder.path, run->rounds_done,
                     plural(run->rounds_done));
        train_say_how_to_continue(run);
        return STATUS_OK;
    }
    status = train(run, exit_code, err);
    if (status == STATUS_OK && train_writes(run)) {
        if (train_has_ended(run)) status = train_write_model(run, err);
        close_metrics(run);
    }
    energy_meter_end(&run->meter);
    return status;
}
