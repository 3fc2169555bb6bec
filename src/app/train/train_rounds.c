// Part of run.h: a run from its first worker to its final model.
#include "app/train/train.h"
#include "app/train/train_steps.h"

#include <math.h>

#include "app/train/run_goals.h"
#include "app/train/run_noise_key.h"
#include "app/train/watchers.h"
#include "base/log.h"
#include "fedavg/gpu/gpu.h"

// Tests the last model if its round did not: an earlier process finished that round, or a signal ended the run on the
// real clock between two tests.
static Status test_last(Run *run, Error *err) {
    if (!train_is_finished(run) || train_has_ended(run)) return STATUS_OK;
    if (run->ends.signal && !train_is_in_real_time(run)) return STATUS_OK; // the next process tests it
    progress_begin(&run->progress, run->rounds_done, rounds_samples(&run->rounds, true));
    TRY(train_check_data(run, train_test_models(run, &run->results.tested, run->rounds_done, err), err));
    TRY(train_check_data(run, train_test_new_clients(run, &run->results.tested, run->rounds_done, true, err), err));
    run->results.tested_round = run->rounds_done;
    run->progress.round = 0; // none runs
    return STATUS_OK;
}

static Status run_rounds(Run *run, Error *err) {
    RoundReport before = {0};
    TRY(rounds_conclude(&run->rounds, &before, err));
    run->ends.signal = before.stop_signal;
    while (!train_is_finished(run) && !run->ends.signal)
        TRY(train_round(run, err));
    return test_last(run, err);
}

static void print_device(Run *run) {
    char device[512];
    run_device_describe(device, sizeof device, &run->device, &run->options, run->memory.config->gpu.models_per_launch);
    if (*device) progress_say(&run->progress, "device: %s\n", device);
    if (train_is_first(run)) run_device_warn(&run->device, &run->options);
}

static Status run_with_workers(Run *run, Error *err) {
    TRY(nodes_busy(&run->nodes, err)); // filtering a long metrics.jsonl takes time when a run is resumed
    Status status = watchers_tell(run, MOMENT_START, &(Seen){.round = run->rounds_done}, err);
    TRY(nodes_agree(&run->nodes, status, err));
    train_say_heading(run);
    print_device(run);
    if (train_is_in_real_time(run))
        progress_say(&run->progress, "clock: real; nothing can resume the run, but --init begins another with the "
                                     "model of its last checkpoint\n");
    status = run_rounds(run, err);
    if (status == STATUS_OK && train_has_ended(run)) status = train_test_at_end(run, err);
    if (status == STATUS_OK) status = nodes_busy(&run->nodes, err);
    return watchers_stop(run, status, err);
}

static Status rehearse(Run *run, Error *err) {
    progress_step_begin(&run->progress, "rehearsing a turn of the trainer");
    const Status status = trainer_host_rehearse(&run->trainers, &run->memory, run->model.net.values, err);
    progress_step_end(&run->progress);
    TRY(status);
    if (!train_is_first(run)) return STATUS_OK;
    run->record.witness = run->trainers.nursery.witness;
    return run->options.resume[0] ? run_record_check_witness(&run->record, &run->past, &run->options, &run->memory, err)
                                  : STATUS_OK;
}

// Does everything that needs living workers.
static Status train(Run *run, int *exit_code, Error *err) {
    RoundsConfig config = {.phases = {.memory = &run->memory,
                                      .worker_arguments = worker_arguments,
                                      .on_worker_death = (WorkerDeath)run->options.on_worker_death,
                                      .hang_seconds = run->options.hang_seconds,
                                      .on_tick = watchers_tick,
                                      .context = run,
                                      .trainers = train_has_programs(run) ? &run->trainers : NULL},
                           .backend = run->device.on_gpu ? parent_on_gpu() : &parent_on_cpu,
                           .clients_per_round = (uint32_t)run->options.clients_per_round,
                           .rounds_done = run->rounds_done,
                           .nodes = &run->nodes};
    Status status = watchers_open(run, err);
    if (config.phases.trainers && status == STATUS_OK)
        status = trainer_host_add_workers(&run->trainers, (uint32_t)run->options.workers, err);
    if (config.phases.trainers && status == STATUS_OK) status = rehearse(run, err);
    if (status == STATUS_OK) status = rounds_init(&run->rounds, &config, err);
    bool started = status == STATUS_OK;
    run->rounds.wants_answers = run_figure_has(&run->ends.figure, FIGURE_OF_CLASSES) ||
                                run->memory.config->spec.label_rows; // whose round says more
    // A run that is to stop does not begin again on the CPU.
    if (!started && run->device.on_gpu && run->rounds.phases.supervisor.interrupts > 0)
        status = fail(err, STATUS_CANCELLED, "stopped by a signal before the workers were ready");
    status = train_agree_to_begin(run, status, err);
    if (status == STATUS_OK) status = run->options.plan ? train_plan_turn(run, err) : run_with_workers(run, err);
    bool at_once = status == STATUS_CANCELLED; // a second signal
    if (at_once || (status == STATUS_OK && run->ends.signal)) train_note_signal(run, at_once, exit_code);
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
    const Budget *budget = &run->ends.budget;
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
    if (run->options.trainer[0] && !run->ends.target.given)
        goals_settle(&run->memory.control->goals, &run->ends.figure);
    if (train_is_first(run)) goals_begin(&run->memory.control->goals, &run->ends.target, &run->ends.figure);
    run->ends.is_spent = budget_is_spent(&run->ends.budget, &run->memory.control->totals);
    bool done = run->options.resume[0] && train_is_first(run) && train_has_result(run);
    TRY(together_start(&run->memory, &run->rounds_done, &done, &run->nodes, err));
    run->ends.is_spent = budget_is_spent(&run->ends.budget, &run->memory.control->totals);
    if (done) {
        train_say_heading(run);
        if (train_is_first(run)) run_folder_unlink_live(&run->folder); // a process that died could not remove it
        progress_say(&run->progress, "the run in %s has done its %u round%s\n", run->folder.path, run->rounds_done,
                     plural(run->rounds_done));
        train_say_how_to_continue(run);
        return STATUS_OK;
    }
    status = train(run, exit_code, err);
    if (status == STATUS_OK && train_writes(run) && train_has_ended(run))
        status = watchers_tell(run, MOMENT_END, &(Seen){.round = run->rounds_done}, err);
    watchers_close(run);
    return status;
}
