#include "best_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/train/model_file.h"
#include "app/train/watchers.h"
#include "fedavg/memory/state.h"

typedef struct BestModel {
    void *file; // owned (bytes): the contents of best.safetensors
    size_t bytes;
    bool is_unsaved;
} BestModel;

// Copies the tested model (state_tested_model) if its test is the best so far.
static Status note(Run *run, void *state, const Seen *seen, Error *err) {
    BestModel *best = state;
    const RunMemory *memory = &run->memory;
    const Goals *goals = &memory->control->goals;
    const uint32_t round = seen->round;
    if (round == 0 || goals->best_round != round) return STATUS_OK;
    const Segment *weights = &memory->weights_segment;
    const RunConfig *config = memory->config;
    if (!best->file) best->file = malloc(weights->bytes);
    if (!best->file) return fail(err, STATUS_OS, "no memory for a copy of the best model (%zu bytes)", weights->bytes);
    assert(best->bytes == 0 || best->bytes == weights->bytes);
    assert(config->weights_offset + config->parameters * sizeof(float) <= weights->bytes);
    best->bytes = weights->bytes;
    memcpy(best->file, weights->memory, weights->bytes); // with the head of the file
    memcpy((char *)best->file + config->weights_offset, state_tested_model(memory), config->parameters * sizeof(float));
    best->is_unsaved = true;
    return STATUS_OK;
}

static Status write_file(BestModel *best, const Folder *folder, Error *err) {
    const FilePart part = {best->file, best->bytes};
    assert(!best->is_unsaved || best->file);
    if (!best->is_unsaved) return STATUS_OK;
    TRY(durable_write(folder, BEST_MODEL_NAME, &part, 1, err));
    best->is_unsaved = false;
    return STATUS_OK;
}

// Before the checkpoint of a round: writes the file if the best model is not in that checkpoint.
static Status save(Run *run, void *state, const Seen *seen, Error *err) {
    const Folder folder = run_folder_at(&run->folder);
    return run->memory.control->goals.best_round < seen->round ? write_file(state, &folder, err) : STATUS_OK;
}

// A file system without hard links gets a second copy. An earlier best model is the run's own file.
static Status end(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen;
    const Folder folder = run_folder_at(&run->folder);
    if (run->memory.control->goals.best_round < run->rounds_done) return write_file(state, &folder, err);
    unlinkat(folder.fd, BEST_MODEL_NAME, 0);
    if (linkat(folder.fd, MODEL_NAME, folder.fd, BEST_MODEL_NAME, 0) == 0) return STATUS_OK;
    return write_file(state, &folder, err);
}

Status best_model_load(float *weights, bool *found, const Run *run, Error *err) {
    char path[RUN_PATH_BYTES];
    Safetensors file;
    const RunFolder *folder = &run->folder;
    const Folder place = run_folder_at(folder);
    const uint32_t best_round = run->memory.control->goals.best_round;
    *found = false;
    if (best_round == 0 || best_round >= run->rounds_done) return STATUS_OK;
    TRY(write_file(watcher_state(run, &best_model_watcher), &place, err));
    if (!run_folder_has(folder, BEST_MODEL_NAME)) return STATUS_OK;
    snprintf(path, sizeof path, "%s/" BEST_MODEL_NAME, folder->path);
    TRY(safetensors_open(&file, path, err));
    const Status status = model_load(weights, &run->memory.tensors, &file, path, err);
    safetensors_close(&file);
    *found = status == STATUS_OK;
    return status;
}

static void free_model(void *state) {
    free(((BestModel *)state)->file);
}

const Watcher best_model_watcher = {
    .bytes = sizeof(BestModel),
    .at = {[MOMENT_START] = note, [MOMENT_ROUND] = note, [MOMENT_CHECKPOINT] = save, [MOMENT_END] = end},
    .close = free_model};
