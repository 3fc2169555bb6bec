// Part of run_inputs.h: the table of inputs, and how each is read and hashed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/run_record.h"
#include "app/train/run_set_up.h"
#include "datasets/synthetic.h"
#include "datasets/synthetic/federation.h"
#include "fedavg/memory/file_hash.h"
#include "fedavg/memory/world_files.h"
#include "fedavg/trainer/files.h"

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
