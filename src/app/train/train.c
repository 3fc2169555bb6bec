// `sounder train`, the parent of a run, from options to the final model: start reading at command_train.
#include "app/train/train.h"
#include "app/train/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "app/command.h"
#include "app/options/option_table.h"
#include "app/train/own_samples.h"
#include "app/train/run_goals.h"
#include "base/clock.h"
#include "base/log.h"
#include "datasets/doubts.h"
#include "datasets/settings.h"
#include "fedavg/trainer/check.h"
#include "fedavg/trainer/files.h"
#include "nn/kernels.h"

// Options -------------------------------------------------------------------------------------------------------------

static Status complete_options(Run *run, Error *err) {
    Options *options = &run->options;
    options->nodes = (int)run->nodes.size;
    if (options->resume[0]) TRY(run_read_saved_options(options, &run->past, err));
    log_init((LogLevel)options->log_level, LOG_RANK_PARENT);
    TRY(run_device_check(options, err));
    TRY(own_samples_find(options, err));
    return options_resolve(options, err);
}

static Status read_options(Run *run, int cores, Error *err) {
    Options *options = &run->options;
    options_defaults(options);
    options->cores = cores;
    TRY(options_parse(options, run->call.argc, run->call.argv, err));
    if (run->call.told) TRY(option_set(options, option_find("plan"), "true", "--", err));
    TRY(nodes_init(&run->nodes, err));
    if (run->nodes.size > 1) log_name_node((int)run->nodes.rank);
    Status status = train_is_first(run) ? complete_options(run, err) : STATUS_OK;
    TRY(together_options(options, &run->nodes, status, err));
    if (!train_is_first(run)) log_init((LogLevel)options->log_level, LOG_RANK_PARENT);
    if (!train_is_first(run)) options->quiet = true;
    run->nodes.silence_seconds = options->hang_seconds;
    return STATUS_OK;
}

// Set-up --------------------------------------------------------------------------------------------------------------

static const char *run_label(char label[OPTION_LABEL_BYTES], const Options *options) {
    const char *net = options_net(label, options);
    for (size_t i = 0; i < zoo_entry_count && !options->trainer[0]; i++)
        if (strcmp(net, zoo_entries[i].name) == 0) return net;
    return options->trainer[0] ? net : "custom";
}

static Status open_folder(Run *run, Error *err) {
    const Options *options = &run->options;
    run->folder = (RunFolder){.lock_fd = -1, .checkpoints_fd = -1};
    if (!train_writes(run)) {
        snprintf(run->folder.path, sizeof run->folder.path, "%.4000s", options->out); // for messages
        return STATUS_OK;
    }
    if (options->resume[0]) return run_folder_open(&run->folder, options->resume, err);
    char label[OPTION_LABEL_BYTES];
    return run_folder_create(&run->folder, options->out, run_label(label, options), err);
}

// Frees the parts that a run has before its folder is opened.
static void free_parts(Run *run) {
    trainer_host_close(&run->trainers);
    run_memory_free(&run->memory);
    run_model_free(&run->model);
}

static Status read_net(Run *run, Error *err) {
    if (!run->options.trainer[0]) return run_read_model(&run->model, &run->options, &run->memory.data, err);
    prctl(PR_SET_CHILD_SUBREAPER, 1); // trainers of workers that died are this process's to reap (phases.c)
    progress_step_begin(&run->progress, "asking the trainer for its net");
    const Status status = run_read_trainer(&run->model, &run->options, &run->memory, &run->trainers, err);
    progress_step_end(&run->progress);
    return status;
}

// Whether the data set has a validation set is known only now, and with it what the figures are of.
static Status read_figures(Run *run, Error *err) {
    RunFigure named;
    const Dataset *data = &run->memory.data;
    TRY(target_read(&run->ends.target, &run->options, err));
    TRY(budget_read(&run->ends.budget, &run->options, err));
    if (run->options.patience_by[0]) TRY(patience_by_read(&named, &run->options, err));
    TRY(goals_check(&run->ends.target, &run->options, data, err));
    run->ends.figure = run_figure_of(&run->options, dataset_has_numbers(&data->items));
    run->results.tested = run->results.final = run->results.best_final = round_test_none(data);
    return STATUS_OK;
}

static Status note_data(Run *run, bool is_ready, Error *err) {
    const Dataset *data = &run->memory.data;
    const bool folder = run->data.source.folder[0] && !run->data.source.named;
    char named[OPTION_TEXT_BYTES];
    run->data.hash = is_ready ? run->call.ready->hash : run_hash_data(data);
    TRY(dataset_segment_check(&run->memory.data_segment, err));
    settings_replace(named, sizeof named, data->name, run->options.data);
    return model_about_data(&run->model.about, data, folder ? named : run->options.data, run->data.hash, &run->options,
                            err);
}

// Checks what only this node can find wrong, before anything is created on disk.
static Status prepare(Run *run, Error *err) {
    progress_step_begin(&run->progress, "reading the data set");
    // Texts may take the numbers of the model of --init.
    const DatasetItems *items = run->call.ready ? &run->call.ready->source.items : NULL;
    const bool is_ready = ready_data_serves(run->call.ready, run->options.data, run->options.seed) &&
                          !(run->options.init[0] && (items->vocabulary > 0 || items->fills > 0));
    Status status =
        run_load_data(&run->memory, &run->data.source, is_ready ? run->call.ready : NULL, &run->options, err);
    progress_step_end(&run->progress);
    TRY(status);
    if (!run->options.resume[0]) dataset_warn_of_doubts(&run->memory.data, &run->data.source);
    if (train_has_programs(run)) TRY_GOTO(fail, trainer_host_open(&run->trainers, err));
    TRY_GOTO(fail, read_net(run, err));
    TRY_GOTO(fail, read_figures(run, err));
    TRY_GOTO(fail, note_data(run, is_ready, err));
    return STATUS_OK;
fail:
    free_parts(run);
    return status;
}

static Status create_memory(Run *run, Error *err) {
    progress_step_begin(&run->progress, "setting up the memory of the run");
    const Status status =
        run_create_memory(&run->memory, &run->options, &run->model, &run->device, &run->folder, &run->nodes, err);
    progress_step_end(&run->progress);
    return status;
}

// A trainer that does not repeat may still be what the user wants: it is said and recorded.
static Status check_trainer(Run *run, Error *err) {
    TrainerCheck check;
    Error why;
    progress_step_begin(&run->progress, "checking the trainer");
    const Status status = trainer_check(&check, &run->memory, &why);
    progress_step_end(&run->progress);
    if (status != STATUS_OK) return fail(err, STATUS_UNAVAILABLE, "--check-trainer: %s", why.message);
    run->record.repeats = check.repeats ? TRAINER_REPEATS : TRAINER_REPEATS_NOT;
    if (check.repeats)
        progress_say(&run->progress, "the trainer repeats: after another client, after a test, in a fresh process\n");
    else
        log_warning("--check-trainer: %s", check.finding);
    return STATUS_OK;
}

static Status check_aggregator(Run *run, Error *err) {
    TrainerCheck check;
    Error why;
    progress_step_begin(&run->progress, "checking the aggregator");
    const Status status = aggregator_check(&check, &run->memory, &why);
    progress_step_end(&run->progress);
    if (status != STATUS_OK) return fail(err, STATUS_UNAVAILABLE, "--check-trainer: %s", why.message);
    if (check.repeats)
        progress_say(&run->progress, "the aggregator repeats: after another round, in a fresh process\n");
    else
        log_warning("--check-trainer: %s", check.finding);
    return STATUS_OK;
}

static Status check_programs(Run *run, Error *err) {
    if (run->options.trainer[0]) TRY(check_trainer(run, err));
    return run->options.aggregator[0] ? check_aggregator(run, err) : STATUS_OK;
}

static const char *arithmetic_name(const Run *run) {
    return run->device.on_gpu ? run->device.gpu.name : kernels_best()->name;
}

// Names the arithmetic, which all nodes must share: the GPU, or the instruction set and the library for wide layers. A
// missing OpenBLAS is reported here, before any worker starts.
static Status find_arithmetic(Run *run, char *name, size_t bytes, Error *err) {
    if (!run->device.on_gpu && run->model.net.count == 0)
        TRY(net_blas_name(run->device.blas, &run->model.spec, kernels_best(), err));
    const uint32_t clients = (uint32_t)run->options.clients, wanted = (uint32_t)run->options.clients_per_round;
    const Algorithm algorithm = algorithm_of(&run->options.recipe);
    if (!*run->device.blas)
        TRY(combine_blas_name(run->device.blas, &algorithm, &run->options.attack_rule,
                              cohort_trains(&run->options.world, clients, wanted), run->model.spec.parameter_count,
                              err));
    snprintf(name, bytes, "%s%s%s", arithmetic_name(run), *run->device.blas ? ", " : "", run->device.blas);
    return STATUS_OK;
}

// The number of workers may depend on the device; all nodes take the first node's.
static Status settle_workers(Run *run, Error *err) {
    Options *options = &run->options;
    Status status = STATUS_OK;
    if (run->device.on_gpu)
        status = run_resolve_on_gpu(&run->memory, options, run_device_side_by_side(&run->device), err);
    TRY(nodes_agree(&run->nodes, status, err));
    TRY(nodes_broadcast(&run->nodes, &options->workers, sizeof options->workers, err));
    return nodes_agree(&run->nodes, run_device_check_workers(&run->device, options->workers, err), err);
}

// A command that is none is refused when the program is started.
static void hash_aggregator(Run *run) {
    uint64_t hash;
    Error ignored;
    if (trainer_hash_files(&hash, &run->memory.config->aggregator, NULL, &ignored) == STATUS_OK)
        write_hash(run->record.inputs[INPUT_AGGREGATOR], hash);
}

static void note_hash_seed(Run *run) {
    const RunConfig *config = run->memory.config;
    const TrainerPlan *plan = config->trainer.command[0] ? &config->trainer : &config->aggregator;
    memcpy(run->record.hash_seed, plan->hash_seed, sizeof run->record.hash_seed);
}

// On a GPU the heading waits until the workers are ready: until then the run may still move to the CPU.
void train_say_heading(Run *run) {
    char label[OPTION_LABEL_BYTES], aggregator[OPTION_LABEL_BYTES];
    if (run->progress.has_heading || run->options.plan) return;
    options_program(aggregator, run->options.aggregator);
    const Heading heading = {.options = &run->options,
                             .model = run_label(label, &run->options),
                             .aggregator = aggregator,
                             .spec = &run->model.spec,
                             .data = &run->memory.data,
                             .partition = &run->memory.partition,
                             .computes_with = arithmetic_name(run),
                             .blas = run->device.blas,
                             .folder = run->folder.path};
    progress_heading(&run->progress, &heading);
}

Status train_agree_to_begin(Run *run, Status status, Error *err) {
    status = nodes_agree(&run->nodes, status, err);
    // The CPU would refuse wrong options and missing files as well.
    const bool may_be_the_gpus =
        status == STATUS_UNAVAILABLE || status == STATUS_OS || status == STATUS_TIMEOUT || status == STATUS_PEER_DIED;
    run->begins_again = may_be_the_gpus && run_device_give_up(&run->device, &run->options, err);
    return status;
}

// The folder is opened before the device, whose service may be started in it; the device before the memory, whose size
// depends on it.
static Status run_on_device(Run *run, int *exit_code, Error *err) {
    Status status = run_device_open(&run->device, &run->options, train_writes(run) ? run->folder.path : NULL, err);
    char arithmetic[TOGETHER_NAME_BYTES] = "";
    int late_signal;
    if (status == STATUS_OK) status = run_device_prove(&run->device, &run->options, err);
    if (status == STATUS_OK) status = find_arithmetic(run, arithmetic, sizeof arithmetic, err);
    TRY_GOTO(close, together_check(&run->memory, arithmetic, &run->model.net.program, &run->nodes, status, err));
    TRY_GOTO(close, settle_workers(run, err));
    if (train_is_first(run))
        run_record_fill(&run->record, &run->options, &run->memory, run->data.hash, arithmetic_name(run),
                        run->device.blas);
    if (run->options.trainer[0]) run_record_program(&run->record, &run->model.net.program);
    run->record.trainer_files = run->model.net.files;
    if (!run->device.on_gpu) train_say_heading(run);
    if (run->options.plan) status = train_plan_begin(run, err);
    if (status == STATUS_OK) status = create_memory(run, err);
    if (status == STATUS_OK && train_has_programs(run)) note_hash_seed(run);
    if (status == STATUS_OK && run->options.aggregator[0]) hash_aggregator(run);
    if (status == STATUS_OK && run->options.check_trainer && train_is_first(run)) status = check_programs(run, err);
    TRY_GOTO(close, train_agree_to_begin(run, status, err));
    status = train_in_folder(run, exit_code, err);
    if (run->options.plan && status == STATUS_OK && *exit_code == 0) status = train_plan_end(run, err);
close:
    late_signal = run_device_end(&run->device, status == STATUS_CANCELLED);
    return late_signal ? train_stop_late(run, late_signal, status, exit_code, err) : status;
}

static Status run_all(Run *run, int *exit_code, Error *err) {
    Status prepared = prepare(run, err), status = nodes_agree(&run->nodes, prepared, err);
    if (prepared != STATUS_OK) return status;
    if (status != STATUS_OK) goto free_memory;
    status = open_folder(run, err);
    bool open = status == STATUS_OK;
    TRY_GOTO(close_folder, nodes_agree(&run->nodes, status, err));
    const Folder folder = run_folder_at(&run->folder);
    if (train_has_programs(run)) {
        run->folder.made_log = train_writes(run) && !run_folder_has(&run->folder, TRAINER_LOG_NAME);
        trainer_output_begin(&run->trainers.output, train_writes(run) ? &folder : NULL);
    }
    status = run_on_device(run, exit_code, err);
    if (status != STATUS_OK) run_explain_trainer(&run->trainers, err);
    // Comes last, when nothing waits for this process; skipped after a signal, which asks for a quick end.
    if (status == STATUS_OK && *exit_code == 0 && !run->options.plan)
        dataset_segment_keep(&run->memory.data_segment, &run->data.source);
close_folder:
    // A new run that failed in its first round leaves its folder free for another try. A run that was stopped can be
    // resumed.
    if (open && train_writes(run) && status != STATUS_OK && status != STATUS_CANCELLED && run->rounds_done == 0 &&
        !run->options.resume[0])
        run_folder_discard(&run->folder, run->trainers.failed);
    if (open) run_folder_close(&run->folder);
free_memory:
    free(run->results.recalls);
    free(run->results.f1);
    run_plan_free(&run->prospect.plan);
    free_parts(run);
    return status;
}

// Begins again from the options, because the number of workers and with it more may depend on the device. A data set
// that was loaded before went with the first try.
static Status run_where_it_can(Run *run, int *exit_code, Error *err) {
    Run *begun = malloc(sizeof *begun);
    if (!begun) return fail(err, STATUS_OS, "no memory");
    *begun = *run;
    Status status = run_all(run, exit_code, err);
    if (run->begins_again) {
        begun->device = run->device;
        begun->nodes = run->nodes;
        begun->call.ready = NULL;
        *run = *begun;
        status = run_all(run, exit_code, err);
    }
    free(begun);
    return status;
}

// told: gets what the run would take, in place of the run; NULL: it runs.
static Status train_or_tell(int argc, char **argv, const ReadyData *ready, int cores, Outlook *told, int *exit_code,
                            Error *err) {
    uint64_t start_nanoseconds = clock_nanoseconds();
    Run *run = calloc(1, sizeof *run);
    if (!run) return fail(err, STATUS_OS, "no memory");
    run->call = (RunCall){argc, argv, ready, told, start_nanoseconds};
    // A closed stdout must not end a run (progress.h), nor must a file at its size limit: both report errors.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    Status status;
    *exit_code = 0;
    run->nodes.size = 1;
    TRY_GOTO(end, read_options(run, cores, err));
    progress_init(&run->progress, &run->options, &run->nodes);
    status = run_where_it_can(run, exit_code, err);
end:
    nodes_free(&run->nodes, status == STATUS_OK);
    free(run);
    // A second signal is no failure: it has an exit code of its own.
    return status == STATUS_CANCELLED ? STATUS_OK : status;
}

Status train_with(int argc, char **argv, const ReadyData *ready, int cores, int *exit_code, Error *err) {
    return train_or_tell(argc, argv, ready, cores, NULL, exit_code, err);
}

Status train_outlook(Outlook *outlook, int argc, char **argv, const ReadyData *ready, int cores, Error *err) {
    int exit_code;
    TRY(train_or_tell(argc, argv, ready, cores, outlook, &exit_code, err));
    return exit_code == 0 ? STATUS_OK : fail(err, STATUS_CANCELLED, "stopped by a signal");
}

Status command_train(int argc, char **argv, int *exit_code, Error *err) {
    return train_with(argc, argv, NULL, 0, exit_code, err);
}
