#include "run_set_up.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "app/options/run_target.h"
#include "app/train/class_weights.h"
#include "app/train/data_model.h"
#include "app/train/model_file.h"
#include "app/train/run_folder.h"
#include "app/train/run_schedule.h"
#include "base/cores.h"
#include "datasets/settings.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/memory/state.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/combine/adapters.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/shard_sum.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/stepper.h"
#include "fedavg/worker/streaming.h"
#include "io/checkpoint.h"
#include "nn/contrast.h"
#include "nn/spec.h"

enum { SPINS_WHEN_CORES_SUFFICE = 4000 }; // polls of a barrier before sleeping, some 100 microseconds

// Replaces a folder or file in --data by its full path; settings after it stay.
static void resolve_place(Options *options) {
    char data[OPTION_TEXT_BYTES];
    if (settings_full(data, sizeof data, options->data)) option_set(options, option_find("data"), data, "", NULL);
}

static void complete(Options *saved, const RunRecord *past) {
    if (saved->clients == 0) saved->clients = past->clients;
    if (saved->clients_per_round == 0) saved->clients_per_round = past->clients_per_round;
}

Status run_read_saved_options(Options *options, RunRecord *past, Error *err) {
    Options saved;
    RunFolder folder;
    TRY(run_folder_open(&folder, options->resume, err)); // its error says if there is no run
    Status status = run_record_read(past, &folder, err);
    run_folder_close(&folder);
    TRY(status);
    options_defaults(&saved);
    TRY(options_read_run(&saved, options->resume, err));
    complete(&saved, past);
    snprintf(options->hash_seed, sizeof options->hash_seed, "%s", past->hash_seed);
    options->trainer_is_named = options_given(options, "trainer");
    if (!options->trainer_is_named)
        snprintf(options->trainer_folder, sizeof options->trainer_folder, "%.2000s", past->trainer_folder);
    options->aggregator_is_named = options_given(options, "aggregator");
    if (!options->aggregator_is_named)
        snprintf(options->aggregator_folder, sizeof options->aggregator_folder, "%.2000s", past->aggregator_folder);
    if (options_given(options, "data") && saved.data[0] == '/') resolve_place(options);
    return options_resume(options, &saved, err);
}

static Status read_partition(PartitionSpec *partition, const Options *options, Error *err) {
    const bool whole = options_algorithm(options).traits.has[TRAIT_SHARES_SAMPLES];
    *partition = (PartitionSpec){.whole = whole,
                                 .clients = (uint32_t)options->clients,
                                 .seed = options->seed,
                                 .client_test = whole ? 0 : options->client_test,
                                 .validation = options->validation};
    char form[OPTION_TEXT_BYTES];
    return partition_parse(&partition->form, options_partition(form, options), err);
}

static Status read_world_files(RunMemory *memory, const Options *options, Error *err) {
    world_files_free(&memory->world_files);
    TRY(world_files_read(&memory->world_files, options->client_file, options->availability_file,
                         options_replay(options), (uint32_t)options->clients, err));
    Error why;
    const Status status = world_files_read_weights(&memory->world_files, options->client_weights, &why);
    return options_blame(options, "client-weights", ": ", status, &why, err);
}

static Status take_validation(Options *options, const Dataset *data, Error *err) {
    options->validation_data = data->validation_count > 0 ? OWN_VALIDATION_THERE : OWN_VALIDATION_NONE;
    if (options->validation == 0 || data->validation_count == 0) return STATUS_OK;
    return options_refuse(options, "validation", err,
                          " %g: %.64s has a validation set of its own (x_validation, %u samples); leave one out",
                          options->validation, data->name, data->validation_count);
}

static bool open_last_checkpoint(Safetensors *file, const char *run) {
    char path[RUN_PATH_BYTES];
    Error ignored;
    uint32_t round;
    bool found = false;
    snprintf(path, sizeof path, "%.4000s/checkpoints", run);
    const Folder folder = {.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = path};
    if (folder.fd < 0) return false;
    const bool is_open = checkpoint_open_last(file, &found, &round, &folder, &ignored) == STATUS_OK && found;
    close(folder.fd);
    return is_open;
}

// Opens the model whose vocabulary the texts of a run have, or whose values fill the gaps of its table: its own, or the
// one that it begins from, whose file may be elsewhere, or another one, when the run is resumed. False if none can be
// read: what needs the weights says why.
static bool open_vocabulary(Safetensors *file, const Options *options) {
    char own[RUN_PATH_BYTES];
    Error ignored;
    if (!options->init[0]) return false;
    snprintf(own, sizeof own, "%.4000s/model.safetensors", options->resume);
    if (options->resume[0] &&
        (model_open(file, own, &ignored) == STATUS_OK || open_last_checkpoint(file, options->resume)))
        return true;
    return model_open(file, options->init, &ignored) == STATUS_OK;
}

static Status read_vocabulary(DatasetModel *model, const Options *options, Error *err) {
    Safetensors file;
    if (!open_vocabulary(&file, options)) return STATUS_OK;
    const Status status = data_model_read_own(model, &file, options->resume[0] ? options->resume : options->init, err);
    safetensors_close(&file);
    return status;
}

Status run_load_data(RunMemory *memory, DatasetSource *source, const ReadyData *ready, Options *options, Error *err) {
    DatasetModel model = {0};
    PartitionSpec partition;
    Status status = read_vocabulary(&model, options, err);
    const bool is_model = data_model_shapes(&model);
    if (status == STATUS_OK && ready)
        *source = ready->source;
    else if (status == STATUS_OK)
        status = dataset_find_for(source, options->data, options->seed, is_model ? &model : NULL, err);
    if (status == STATUS_DATA && options->init_partial &&
        is_model) // characters or columns that the model does not know
        status = dataset_find(source, options->data, options->seed, err);
    if (status == STATUS_OK && source->folder[0] && !source->named) resolve_place(options);
    if (status == STATUS_OK) status = read_partition(&partition, options, err);
    if (status == STATUS_OK) status = run_memory_load(memory, source, ready ? &ready->segment : NULL, &partition, err);
    source->model = NULL;
    data_model_free(&model);
    TRY(status);
    status = take_validation(options, &memory->data, err);
    if (status == STATUS_OK) status = read_world_files(memory, options, err);
    if (status != STATUS_OK) run_memory_free(memory);
    return status;
}

Status run_resolve_on_gpu(RunMemory *memory, Options *options, bool side_by_side, Error *err) {
    int clients = options->clients;
    options_resolve_on_gpu(options, side_by_side);
    if (options->clients == clients) return STATUS_OK;
    TRY(read_world_files(memory, options, err));
    PartitionSpec partition;
    TRY(read_partition(&partition, options, err));
    return run_memory_partition(memory, &partition, err);
}

// A config is too large for a stack of 2 MB to hold several.
static void fill_config(RunConfig *config, const Options *options, const Spec *spec, const Nodes *nodes) {
    const Algorithm algorithm = algorithm_of(&options->recipe);
    const bool in_real_time = algorithm.engine->buffers && options_clock_is_real(options);
    const RunFigure figure = run_figure_of(options, false);
    memset(config, 0, sizeof *config);
    config->spec = *spec;
    config->training = options->training;
    config->world = options->world;
    config->recipe = options->recipe;
    config->release = options->release;
    config->engine = in_real_time ? ENGINE_REAL_CLOCK : recipe_engine(&options->recipe);
    config->tests_clients =
        options->eval_clients_every > 0 || options->new_clients[0] || run_figure_tests_clients(&figure);
    config->weighs_classes = options->class_weights[0] != '\0';
    config->inspects_updates = options->inspect_updates || algorithm.combine->factor || algorithm.combine->bound;
    config->records = options->records_updates;
    config->finetune_epochs = (uint32_t)options->finetune_epochs;
    config->workers = (uint32_t)options->workers;
    config->clients = (uint32_t)options->clients;
    config->population = (uint32_t)options->population;
    config->arriving = (uint32_t)options->arriving;
    config->attack = options->attack_rule;
    config->view = options->view;
    config->cohort = cohort_trains(&options->world, (uint32_t)options->clients, (uint32_t)options->clients_per_round);
    config->log_level = (uint32_t)options->log_level;
    config->seed = options->seed;
    config->noise_key = options_noise_key(options);
    config->hides_cohorts = options_hide_cohorts(options);
    config->hides_batches = options_hide_batches(options);
    config->parameters = spec->parameter_count;
    config->begins_with_given = options->init[0] != 0 || options->trainer[0] != 0;
    config->node = nodes->rank;
    config->nodes = nodes->size;
}

// Returns the most spans that a worker can record per round, with all jobs and no deaths: training and evaluation.
static uint32_t trace_capacity(const Options *options, const Spec *spec, const Dataset *data, uint32_t jobs) {
    enum { SPANS_BESIDE_JOBS = 32, SPANS_PER_STEP = 4, SPANS_PER_BUCKET = 3 };
    if (!options->trace[0]) return 0;
    uint32_t spans = 2 * jobs + SPANS_BESIDE_JOBS;
    if (!options_algorithm(options).engine->in_lockstep) return spans;
    Buckets buckets;
    buckets_cut(&buckets, spec);
    uint32_t slices = buckets.count * (SPANS_PER_BUCKET + (uint32_t)options->workers);
    uint32_t steps = (data->train.count / options->training.batch_size + 1) * options->training.local_epochs;
    return spans + steps * (SPANS_PER_STEP + slices);
}

// Plans one row for each client that can have a turn, and some to spare.
static void plan_client_state(RunConfig *config, const TensorList *tensors, const Options *options) {
    const Traits traits = run_algorithm(config).traits;
    const bool state = config->training.optimizer_state == OPTIMIZER_KEPT;
    SentWeights sent;
    sent_weights(&sent, tensors, &config->personal, NULL, 0);
    const uint64_t own = traits.has[TRAIT_KEEPS] || traits.has[TRAIT_CONTRASTS]
                             ? config->parameters
                             : personal_floats(&config->personal, config->parameters) + streaming_floats(config),
                   left = own + (state ? stepper_state_floats(config) : 0),
                   code = config->parameters + send_keeps(&config->recipe.code, &sent),
                   floats = left + (traits.has[TRAIT_FEEDS_BACK] ? code : 0);
    if (floats == 0) return;
    const uint32_t members = cohort_capacity(&config->world, config->clients, (uint32_t)options->clients_per_round);
    config->client_state =
        client_state_plan(client_state_rows_needed(config->clients, members, (uint32_t)options->rounds), floats);
    config->client_state.optimizer = own;
    config->client_state.left = left;
}

// Plans which client trains when: from a recording, or by simulation.
static Status plan_schedule(RunMemory *memory, RunConfig *config, const Options *options, Nodes *nodes, Error *err) {
    const char *file = options_replay(options);
    const uint32_t rounds = (uint32_t)options->rounds;
    if (!file || !run_algorithm(config).engine->buffers) return cohort_schedule(memory, config, rounds, nodes, err);
    schedule_free(&memory->schedule);
    TRY(run_schedule_read(&memory->schedule, file, config->clients, config->training.local_epochs, rounds, err));
    cohort_plan_pending(config, &memory->schedule);
    return STATUS_OK;
}

bool run_has_checkpoint(const RunFolder *folder) {
    bool found = false;
    const int fd =
        folder->checkpoints_fd >= 0 ? openat(folder->checkpoints_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *files = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *file; files && !found && (file = readdir(files));)
        found = strncmp(file->d_name, "round-", 6) == 0;
    if (files)
        closedir(files);
    else if (fd >= 0)
        close(fd);
    return found;
}

static Status begin_weights(RunMemory *memory, const Options *options, const RunModel *model, const RunFolder *folder,
                            Error *err) {
    const Spec *spec = &model->spec;
    if (model->net.count > 0)
        memcpy(memory->weights, model->net.values, model->net.parameters * sizeof *model->net.values);
    else
        spec_initialise(memory->weights, spec, options->seed);
    for (uint32_t m = 1; m < state_models(memory->config); m++) // from seeds that are not the next experiment's
        spec_initialise(state_model(memory, m), spec, options->seed ^ (uint64_t)m << 32);
    Error why;
    if (options->init[0] && state_models(memory->config) > 1)
        return fail(err, STATUS_USAGE,
                    "--init %s does not go with personal clusters: the models of %u clusters would be equal and stay "
                    "so; leave --init out",
                    options->init, state_models(memory->config));
    if (options->init[0] && !(options->resume[0] && run_has_checkpoint(folder))) {
        const Status status = model_begin_from(memory->weights, &memory->tensors, options->init, options->init_partial,
                                               &model->about, &why);
        TRY(options_blame(options, "init", ": ", status, &why, err));
    }
    if (memory->config->personal.second && memory->config->begins_with_given)
        memcpy(run_memory_vector(memory, state_vector(memory, STATE_INITIAL)), memory->weights,
               spec->parameter_count * sizeof(float));
    return STATUS_OK;
}

// Without the client that it names, mimic copies another one in each round. `sounder worth` compares runs with others
// --without that client.
static Status check_victim(const RunMemory *memory, const Options *options, Error *err) {
    const double number = options->attack_rule.row == ATTACK_MIMIC ? options->attack_rule.number[0] : NAN;
    const uint32_t victim = number < options->clients ? (uint32_t)number : 0;
    const char *why = NULL;
    if (run_memory_is_new(memory, victim)) why = "that client never trains (--new-clients)";
    if (memory->attackers[victim]) why = "that client attacks itself";
    if (number >= options->clients) why = "there is no such client";
    if (isnan(number) || !why) return STATUS_OK;
    return options_refuse(options, "attack", err, " mimic client=%.0f: %s; name another from 0 to %d", number, why,
                          options->clients - 1);
}

// Chooses the clients that attack, once for all rounds.
static Status choose_attackers(RunMemory *memory, const Options *options, Error *err) {
    if (options->attack_rule.row == ATTACK_NONE) return STATUS_OK;
    memory->attackers = own(&memory->owned, (size_t)options->clients, sizeof *memory->attackers);
    if (!memory->attackers) return fail(err, STATUS_OS, "no memory for a list of %d clients", options->clients);
    TRY(attack_choose(memory->attackers, options->attackers, (uint32_t)options->clients, options->seed, err));
    return check_victim(memory, options, err);
}

// The clients of --without, before a schedule is simulated in which they never arrive.
static Status choose_absent(RunMemory *memory, const Options *options, Error *err) {
    if (!options->without[0]) return STATUS_OK;
    memory->absent = own(&memory->owned, (size_t)options->clients, sizeof *memory->absent);
    if (!memory->absent) return fail(err, STATUS_OS, "no memory for a list of %d clients", options->clients);
    return options_choose_absent(memory->absent, options, err);
}

static Status choose_new_clients(RunMemory *memory, const Options *options, Error *err) {
    uint32_t count = 0;
    if (!options->new_clients[0]) return STATUS_OK;
    memory->new_clients = own(&memory->owned, (size_t)options->clients, sizeof *memory->new_clients);
    memory->population = own(&memory->owned, (size_t)options->population, sizeof *memory->population);
    if (!memory->new_clients || !memory->population)
        return fail(err, STATUS_OS, "no memory for a list of %d clients", options->clients);
    TRY(options_choose_new(memory->new_clients, options, err));
    for (uint32_t client = 0; client < (uint32_t)options->clients; client++)
        if (!run_memory_is_new(memory, client)) memory->population[count++] = client;
    return STATUS_OK;
}

// Finds the clients that are not drawn, and those that are and never arrive, and counts the samples of all others.
static Status choose_clients(RunMemory *memory, RunConfig *config, const Options *options, Error *err) {
    TRY(choose_absent(memory, options, err));
    TRY(choose_new_clients(memory, options, err));
    for (uint32_t client = 0, samples; client < config->clients; client++) {
        if (!run_memory_can_arrive(memory, client)) continue;
        partition_client(&memory->partition, client, &samples);
        config->arriving_samples += samples + (memory->partition.tests ? memory->partition.tests[client] : 0);
    }
    return STATUS_OK;
}

static Status check_adapters(const RunConfig *config, const TensorList *tensors, const Options *options, Error *err) {
    if (!run_algorithm(config).combine->adapters) return STATUS_OK;
    bool travels[TENSORS_MOST];
    AdapterPairs *pairs = calloc(1, sizeof *pairs);
    personal_travelling(travels, &config->personal, tensors);
    if (!pairs) return fail(err, STATUS_OS, "no memory for the pairs of adapters");
    Error why;
    const Status status = adapter_pairs(pairs, &options->recipe.combine, tensors, travels, &why);
    free(pairs);
    return options_blame(options, "algorithm", ": ", status, &why, err);
}

Status run_plan_memory(RunPlan *plan, RunMemory *memory, const Options *options, const RunModel *model,
                       const RunDevice *device, Nodes *nodes, Error *err) {
    const Dataset *data = &memory->data;
    const Spec *spec = &model->spec;
    const TrainerNet *net = model->net.count > 0 ? &model->net : NULL;
    uint32_t clients_per_round = (uint32_t)options->clients_per_round;
    char *header;
    memset(plan, 0, sizeof *plan);
    plan->spins = options->workers <= cores_usable() ? SPINS_WHEN_CORES_SUFFICE : 0;
    RunConfig *config = &plan->config;
    fill_config(config, options, spec, nodes);
    memory->tensors = net ? trainer_net_tensors(net) : spec_tensors(spec);
    if (net) TRY(run_plan_trainer(&config->trainer, options, err));
    config->trainer.whole_test = net && net->whole_test;
    config->trainer.state_floats = net ? net->state_floats : 0;
    config->trainer.start_seconds = net ? trainer_start_limit(&config->trainer, net->start_seconds) : 0;
    if (net) config->trainer.program = net->program;
    TRY(run_plan_aggregator(config, options, err));
    const uint32_t validation = memory->partition.validation_count, tested = data->test.count;
    plan->job_capacity =
        rounds_job_capacity(config, data, clients_per_round, validation > tested ? validation : tested);
    Error part;
    Status planned =
        personal_plan(&config->personal, &options->recipe.personal, spec, &memory->tensors, &options->training, &part);
    TRY(options_blame(options, "algorithm", ": ", planned, &part, err));
    planned = fragments_plan(&config->fragments, walk_fragments(&options->recipe.schedule), &memory->tensors, &part);
    TRY(options_blame(options, "algorithm", ": ", planned, &part, err));
    TRY(check_adapters(config, &memory->tensors, options, err));
    if (run_algorithm(config).local->contrasts) planned = contrast_check(spec, &part);
    TRY(options_blame(options, "algorithm", ": local moon: ", planned, &part, err));
    engine_plan(config);
    TRY(choose_clients(memory, config, options, err));
    TRY(plan_schedule(memory, config, options, nodes, err));
    if (memory->schedule.most_jobs > plan->job_capacity) plan->job_capacity = memory->schedule.most_jobs;
    plan_client_state(config, &memory->tensors, options);
    if (device->on_gpu) {
        config->gpu.tf32 = options->tf32;
        planned =
            gpu_plan(config, &device->gpu, spec, data, clients_per_round, (uint32_t)options->models_per_launch, err);
        // The CPU may compute it.
        if (planned == STATUS_USAGE && options->device == DEVICE_AUTO) return STATUS_UNAVAILABLE;
        TRY(planned);
    }
    plan->trace_capacity = trace_capacity(options, spec, data, plan->job_capacity);
    TRY(model_header(&header, &plan->weights_header_bytes, spec, &memory->tensors, &model->about, err));
    plan->weights_header = header;
    return STATUS_OK;
}

void run_model_free(RunModel *model) {
    trainer_net_free(&model->net);
    model_about_free(&model->about);
}

void run_plan_free(RunPlan *plan) {
    free((char *)plan->weights_header);
    plan->weights_header = NULL;
}

Status run_create_memory(RunMemory *memory, const Options *options, const RunModel *model, const RunDevice *device,
                         const RunFolder *folder, Nodes *nodes, Error *err) {
    RunPlan *plan = malloc(sizeof *plan);
    if (!plan) return fail(err, STATUS_OS, "no memory for the plan of a run");
    Status status = run_plan_memory(plan, memory, options, model, device, nodes, err);
    if (status == STATUS_OK) {
        const Folder client_state_folder = run_folder_at(folder);
        if (folder->lock_fd >= 0) plan->client_state_folder = &client_state_folder;
        status = run_check_memory(plan, memory, options, folder, err);
        if (status == STATUS_OK) status = run_memory_create(memory, plan, err);
        run_plan_free(plan);
    }
    free(plan);
    TRY(status);
    TRY(choose_attackers(memory, options, err));
    if (memory->class_weights) TRY(class_weights_read(memory, options, err));
    return begin_weights(memory, options, model, folder, err);
}
