#include "best_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/train/model_file.h"
#include "fedavg/memory/state.h"

Status best_model_note(BestModel *best, const RunMemory *memory, Error *err) {
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

Status best_model_save(BestModel *best, const Folder *folder, uint32_t best_round, uint32_t round, Error *err) {
    return best_round < round ? write_file(best, folder, err) : STATUS_OK;
}

// A file system without hard links gets a second copy. An earlier best model is the run's own file.
Status best_model_end(BestModel *best, const Folder *folder, uint32_t best_round, uint32_t rounds, Error *err) {
    if (best_round < rounds) return write_file(best, folder, err);
    unlinkat(folder->fd, BEST_MODEL_NAME, 0);
    if (linkat(folder->fd, MODEL_NAME, folder->fd, BEST_MODEL_NAME, 0) == 0) return STATUS_OK;
    return write_file(best, folder, err);
}

Status best_model_load(float *weights, bool *found, BestModel *best, const RunMemory *memory, const RunFolder *folder,
                       uint32_t rounds, Error *err) {
    char path[RUN_PATH_BYTES];
    Safetensors file;
    const Folder place = run_folder_at(folder);
    const uint32_t best_round = memory->control->goals.best_round;
    *found = false;
    if (best_round == 0 || best_round >= rounds) return STATUS_OK;
    TRY(write_file(best, &place, err));
    if (!run_folder_has(folder, BEST_MODEL_NAME)) return STATUS_OK;
    snprintf(path, sizeof path, "%s/" BEST_MODEL_NAME, folder->path);
    TRY(safetensors_open(&file, path, err));
    const Status status = model_load(weights, &memory->tensors, &file, path, err);
    safetensors_close(&file);
    *found = status == STATUS_OK;
    return status;
}

void best_model_free(BestModel *best) {
    free(best->file);
    *best = (BestModel){0};
}
