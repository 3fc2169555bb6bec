// Part of watchers.h: model.safetensors, and with several models a file for each, at the end of a run.
#include <stdio.h>

#include "app/train/watchers.h"
#include "fedavg/memory/state.h"
#include "io/durable.h"

// Each of several models has a file with the head of the run's model.
static Status write_clusters(const Run *run, const Folder *folder, Error *err) {
    const RunConfig *config = run->memory.config;
    for (uint32_t m = 0; m < state_models(config); m++) {
        char name[sizeof CLUSTER_MODEL_NAME + 16];
        const FilePart parts[] = {{run->memory.weights_segment.memory, config->weights_offset},
                                  {state_model(&run->memory, m), config->parameters * sizeof(float)}};
        snprintf(name, sizeof name, CLUSTER_MODEL_NAME, m);
        TRY(durable_write(folder, name, parts, 2, err));
    }
    return STATUS_OK;
}

static Status end(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state, (void)seen;
    const Folder folder = run_folder_at(&run->folder);
    const RunConfig *config = run->memory.config;
    const FilePart file[] = {{run->memory.weights_segment.memory, config->weights_offset},
                             {state_tested_model(&run->memory), config->parameters * sizeof(float)}};
    TRY(run_folder_check(&run->folder, err));
    TRY(run_checkpoint_prune(&run->folder, run->rounds_done, err));
    TRY(durable_write(&folder, MODEL_NAME, file, 2, err));
    if (state_models(config) > 1) TRY(write_clusters(run, &folder, err));
    sha256_hex(run->results.sha256, file, 2);
    return STATUS_OK;
}

const Watcher model_watcher = {.at = {[MOMENT_END] = end}};
