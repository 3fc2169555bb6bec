#include "run_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/run/model_file.h"
#include "base/log.h"
#include "io/checkpoint.h"

static const char *velocity_name(char name[SAFETENSORS_NAME_BYTES], uint32_t index) {
    snprintf(name, SAFETENSORS_NAME_BYTES, "sounder.velocity.%u", index);
    return name;
}

// path: of the caller's, for as long as the folder is used.
static Folder checkpoints_at(char path[RUN_PATH_BYTES], const RunFolder *folder) {
    snprintf(path, RUN_PATH_BYTES, "%s/checkpoints", folder->path);
    return (Folder){.fd = folder->checkpoints_fd, .path = path};
}

Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const Spec *spec, const RunFolder *folder,
                              Error *err) {
    char path[RUN_PATH_BYTES];
    Safetensors file;
    bool found;
    const Folder checkpoints = checkpoints_at(path, folder);
    TRY(checkpoint_open_last(&file, &found, rounds_done, &checkpoints, err));
    if (!found) { // killed before the first checkpoint: the first round comes out the same
        log_info("%s has no checkpoint yet; starting from the first round", folder->path);
        return STATUS_OK;
    }
    Status status = model_load(memory->weights, spec, &file, err);
    const RunConfig *config = memory->config;
    uint32_t first, end;
    run_lasting_slots(&first, &end, config);
    for (uint32_t slot = first; slot < end && status == STATUS_OK; slot++) {
        char name[SAFETENSORS_NAME_BYTES];
        status = checkpoint_load(run_memory_floats(memory, slot), config->parameters, &file,
                                 velocity_name(name, slot - first), err);
    }
    safetensors_close(&file);
    return status;
}

Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const char *text,
                            uint32_t round, Error *err) {
    const RunConfig *config = memory->config;
    uint32_t first, end;
    run_lasting_slots(&first, &end, config);
    size_t count = (size_t)spec->tensor_count + (end - first);
    NamedTensor *tensors = calloc(count, sizeof *tensors);
    if (!tensors) return fail(err, STATUS_OS, "no memory for a checkpoint of %zu tensors", count);
    model_tensors(tensors, spec, memory->weights);
    for (uint32_t slot = first; slot < end; slot++) {
        NamedTensor *tensor = &tensors[(size_t)spec->tensor_count + slot - first];
        *tensor =
            (NamedTensor){.rank = 1, .shape = {(int64_t)config->parameters}, .values = run_memory_floats(memory, slot)};
        velocity_name(tensor->name, slot - first);
    }
    ModelNotes notes;
    char path[RUN_PATH_BYTES];
    model_notes(&notes, spec, text);
    const Folder checkpoints = checkpoints_at(path, folder);
    Status status = checkpoint_write(&checkpoints, round, tensors, count, notes.notes, MODEL_NOTES, err);
    free(tensors);
    // A folder that is elsewhere has the checkpoint; one that is gone is the reason why it cannot be written.
    TRY(run_folder_check(folder, err));
    return status;
}
