#include "run_inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/run_record.h"
#include "app/train/run_set_up.h"
#include "base/log.h"
#include "datasets/synthetic.h"
#include "datasets/synthetic/federation.h"
#include "fedavg/memory/file_hash.h"
#include "fedavg/memory/world_files.h"
#include "fedavg/trainer/describe.h"

void write_hash(char text[HASH_TEXT_BYTES], uint64_t hash) {
    snprintf(text, HASH_TEXT_BYTES, "%016" PRIx64, hash);
}

// Sources -------------------------------------------------------------------------------------------------------------

static const char *if_any(const char *text) {
    return *text ? text : NULL;
}

// Texts take the numbers of their tokens from the model of --init.
static const char *data_source(char *text, const Options *options) {
    if (synthetic_is_named(options->data) || federation_is_named(options->data)) return NULL;
    if (!options->init[0]) return options->data;
    snprintf(text, INPUT_SOURCE_BYTES, "%s and --init %s", options->data, options->init);
    return text;
}

static const char *after_file(const char *text) {
    return strncmp(text, "file:", 5) == 0 ? if_any(text + 5) : NULL;
}

static const char *partition_source(char *text, const Options *options) {
    (void)text;
    return after_file(options->partition);
}

static const char *init_source(char *text, const Options *options) {
    (void)text;
    return if_any(options->init);
}

static const char *trainer_source(char *text, const Options *options) {
    (void)text;
    return if_any(options->trainer);
}

static const char *aggregator_source(char *text, const Options *options) {
    (void)text;
    return if_any(options->aggregator);
}

static const char *client_time_source(char *text, const Options *options) {
    (void)text;
    return if_any(options->client_file);
}

static const char *availability_source(char *text, const Options *options) {
    (void)text;
    return if_any(options->availability_file);
}

static const char *client_weights_source(char *text, const Options *options) {
    (void)text;
    return after_file(options->client_weights);
}

static const char *recording_source(char *text, const Options *options) {
    (void)text;
    return options_replay(options);
}

// Contents ------------------------------------------------------------------------------------------------------------

// Leaves an unpacked copy, so that runs that follow map what this has read.
static Status hash_data(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    RunMemory *memory = calloc(1, sizeof *memory);
    Options *own = malloc(sizeof *own);
    DatasetSource source;
    Status status = memory && own ? STATUS_OK : fail(err, STATUS_OS, "no memory to compare the data set");
    if (status == STATUS_OK) {
        *own = *options;
        status = run_load_data(memory, &source, NULL, own, err);
    }
    if (status == STATUS_OK) {
        *hash = run_hash_data(&memory->data);
        status = dataset_segment_check(&memory->data_segment, err);
        if (status == STATUS_OK) dataset_segment_keep(&memory->data_segment, &source);
        run_memory_free(memory);
    }
    free(own);
    free(memory);
    return status;
}

static Status hash_partition_file(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return file_hash(hash, after_file(options->partition), err);
}

static Status hash_init(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return file_hash(hash, options->init, err);
}

static Status hash_program(uint64_t *hash, const char *option, const char *command, const char *folder,
                           const json_t *told, Error *err) {
    TrainerPlan plan = {.threads = 1};
    snprintf(plan.option, sizeof plan.option, "%s", option);
    snprintf(plan.command, sizeof plan.command, "%s", command);
    snprintf(plan.folder, sizeof plan.folder, "%s", folder);
    return trainer_hash_files(hash, &plan, told, err);
}

// Without the list of its files only the program itself could tell them.
static Status hash_trainer(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    const json_t *files = json_object_get(start, TRAINER_FILES_KEY);
    if (!json_is_array(files)) return fail(err, STATUS_UNAVAILABLE, "the record does not name its files");
    return hash_program(hash, "--trainer", options->trainer, options->trainer_folder, files, err);
}

static Status hash_aggregator(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return hash_program(hash, "--aggregator", options->aggregator, options->aggregator_folder, NULL, err);
}

static Status hash_world(uint64_t *hash, const Options *options, WorldFile which, Error *err) {
    WorldFiles files;
    TRY(world_files_read(&files, which == WORLD_PACES ? options->client_file : "",
                         which == WORLD_PRESENCES ? options->availability_file : "",
                         which == WORLD_RECORDING ? options_replay(options) : NULL, (uint32_t)options->clients, err));
    Status status = STATUS_OK;
    if (which == WORLD_WEIGHTS) status = world_files_read_weights(&files, options->client_weights, err);
    *hash = world_file_hash(&files, which);
    world_files_free(&files);
    return status;
}

static Status hash_client_time(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return hash_world(hash, options, WORLD_PACES, err);
}

static Status hash_availability(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return hash_world(hash, options, WORLD_PRESENCES, err);
}

static Status hash_client_weights(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return hash_world(hash, options, WORLD_WEIGHTS, err);
}

static Status hash_recording(uint64_t *hash, const Options *options, const json_t *start, Error *err) {
    (void)start;
    return hash_world(hash, options, WORLD_RECORDING, err);
}

// The table -----------------------------------------------------------------------------------------------------------

#define KEY(name_) .trait = {.name = name_, .type = OPTION_TEXT}

const RunInput run_inputs[RUN_INPUTS] = {
    [INPUT_DATA] = {KEY("data_xxh3"), .option = "data", .words = "data set", .source = data_source, .hash = hash_data},
    [INPUT_PARTITION] = {KEY("partition_xxh3"), .option = "partition", .words = "split of the data"},
    [INPUT_PARTITION_FILE] = {KEY("partition_file_xxh3"), .option = "partition", .words = "file of --partition",
                              .source = partition_source, .hash = hash_partition_file},
    [INPUT_INIT] = {KEY("init_xxh3"), .option = "init", .words = "model of --init", .source = init_source,
                    .hash = hash_init},
    [INPUT_TRAINER] = {KEY("trainer_xxh3"), .option = "trainer", .words = "files of its trainer", .is_plural = true,
                       .is_program = true, .source = trainer_source, .hash = hash_trainer},
    [INPUT_TRAINER_STAYS] = {KEY("trainer_stays"), .option = "trainer",
                             .words = "tensors of its trainer that do not travel", .is_plural = true,
                             .is_program = true, .source = trainer_source},
    [INPUT_TRAINER_VERSIONS] = {KEY("trainer_versions"), .option = "trainer",
                                .words = "versions of its trainer's libraries", .is_plural = true, .is_version = true,
                                .source = trainer_source},
    [INPUT_AGGREGATOR] = {KEY("aggregator_xxh3"), .option = "aggregator", .words = "files of its aggregator",
                          .is_plural = true, .is_program = true, .source = aggregator_source, .hash = hash_aggregator},
    [INPUT_CLIENT_TIME] = {KEY("client_time_xxh3"), .option = "client-time", .words = "file of --client-time",
                           .source = client_time_source, .hash = hash_client_time},
    [INPUT_AVAILABILITY] = {KEY("availability_xxh3"), .option = "sampling", .words = "file of --sampling available",
                            .source = availability_source, .hash = hash_availability},
    [INPUT_CLIENT_WEIGHTS] = {KEY("client_weights_xxh3"), .option = "client-weights",
                              .words = "file of --client-weights", .source = client_weights_source,
                              .hash = hash_client_weights},
    [INPUT_RECORDING] = {KEY("recording_xxh3"), .option = "clock", .words = "recorded schedule of --clock replay:FILE",
                         .source = recording_source, .hash = hash_recording},
};

const RunInput *run_input_of(const Option *trait) {
    for (int i = 0; i < RUN_INPUTS; i++)
        if (trait == &run_inputs[i].trait) return &run_inputs[i];
    return NULL;
}

const char *run_input_told(const json_t *start, const RunInput *input) {
    const char *hash = json_string_value(json_object_get(start, input->trait.name));
    return hash ? hash : "";
}

const char *run_input_source(char *text, const RunInput *input, const Options *options) {
    char room[INPUT_SOURCE_BYTES];
    const char *source = input->source ? input->source(room, options) : NULL;
    snprintf(text, INPUT_SOURCE_BYTES, "%s", source ? source : "");
    return text;
}

// Today ---------------------------------------------------------------------------------------------------------------

struct InputToday {
    const RunInput *input;
    char *source;                // owned
    char hash[INPUT_TOLD_BYTES]; // "": it cannot be read
};

// The files of a trainer are those that the run has recorded, so runs of one command may have different ones.
static bool is_of_one_run(const RunInput *input) {
    return input->is_program;
}

static void read_today(char text[INPUT_TOLD_BYTES], const RunInput *input, const char *source, const json_t *start,
                       const Options *options, const InputsToday *today) {
    uint64_t hash;
    Error why;
    text[0] = '\0';
    if (input->hash(&hash, options, start, &why) == STATUS_OK) {
        write_hash(text, hash);
        return;
    }
    for (size_t i = 0; i < today->count; i++)
        if (today->all[i].input == input && strcmp(today->all[i].source, source) == 0) return; // has been said
    log_warning("the %s %s not compared with what earlier runs began with: %s", input->words,
                input->is_plural ? "are" : "is", why.message);
}

// Keeps the hash; without memory it is taken again.
static void keep(InputsToday *today, const RunInput *input, const char *source, const char *hash) {
    struct InputToday *all = realloc(today->all, (today->count + 1) * sizeof *all);
    if (!all) return;
    today->all = all;
    struct InputToday *one = &all[today->count];
    *one = (struct InputToday){.input = input, .source = strdup(source)};
    snprintf(one->hash, sizeof one->hash, "%s", hash);
    today->count += one->source != NULL;
}

static void find_today(char hash[INPUT_TOLD_BYTES], const RunInput *input, const char *source, const json_t *start,
                       const Options *options, InputsToday *today) {
    for (size_t i = 0; i < today->count && !is_of_one_run(input); i++)
        if (today->all[i].input == input && strcmp(today->all[i].source, source) == 0) {
            memcpy(hash, today->all[i].hash, INPUT_TOLD_BYTES);
            return;
        }
    read_today(hash, input, source, start, options, today);
    if (!is_of_one_run(input) || !*hash) keep(today, input, source, hash);
}

bool run_inputs_changed(InputChange *change, const json_t *start, const Options *options, InputsToday *today) {
    for (int i = 0; i < RUN_INPUTS; i++) {
        const RunInput *input = &run_inputs[i];
        const char *then = run_input_told(start, input);
        if (i == INPUT_INIT && today->goes_on) continue;
        *change = (InputChange){.input = input};
        run_input_source(change->source, input, options);
        if (!*then || !change->source[0] || !input->hash) continue;
        find_today(change->now, input, change->source, start, options, today);
        snprintf(change->then, sizeof change->then, "%s", then);
        if (change->now[0] && strcmp(change->then, change->now) != 0) return true;
    }
    return false;
}

void inputs_today_free(InputsToday *today) {
    for (size_t i = 0; i < today->count; i++)
        free(today->all[i].source);
    free(today->all);
    *today = (InputsToday){0};
}

Status run_input_refuse(const InputChange *change, const char *where, const char *remedy, Status status, Error *err) {
    const RunInput *input = change->input;
    return fail(err, status,
                "%.300s: the %s %s not what the run began with (%.300s%sXXH3 %s then, %s now); give %s back%s", where,
                input->words, input->is_plural ? "are" : "is", change->source, change->source[0] ? ": " : "",
                change->then, change->now, input->is_plural ? "them" : "it", remedy);
}

Status run_input_judge(const InputChange *change, const char *name, const char *where, const char *remedy, Error *err) {
    if (!change->input->is_version) return run_input_refuse(change, where, remedy, STATUS_DATA, err);
    log_warning("%.200s: the %s are not what the run began with (%s then, %s now): results may differ in the last bits",
                name, change->input->words, change->then, change->now);
    return STATUS_OK;
}
