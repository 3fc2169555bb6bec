#include "ready_data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/run_record.h"
#include "datasets/settings.h"

Status ready_data_load(ReadyData *ready, const char *data, uint64_t seed, Error *err) {
    Dataset view;
    char path[PATH_MAX];
    *ready = (ReadyData){0};
    DatasetSource *source = &ready->source;
    TRY(dataset_find(source, data, seed, err));
    TRY(dataset_segment_load(&ready->segment, source, err));
    Status status = dataset_segment_view(&view, &ready->segment, err);
    if (status == STATUS_OK) {
        ready->hash = run_hash_data(&view);
        status = dataset_segment_check(&ready->segment, err);
    }
    if (status != STATUS_OK) {
        dataset_segment_free(&ready->segment);
        return status;
    }
    dataset_segment_keep(&ready->segment, source);
    snprintf(ready->name, sizeof ready->name, "%s", data);
    if (source->folder[0] && !source->named && realpath(source->folder, path))
        settings_replace(ready->folder, sizeof ready->folder, path, data);
    return STATUS_OK;
}

bool ready_data_serves(const ReadyData *ready, const char *data, uint64_t seed) {
    if (!ready || !ready->name[0] || !data[0]) return false;
    if (strcmp(data, ready->name) != 0 && strcmp(data, ready->folder) != 0) return false;
    return ready->source.folder[0] || seed == ready->source.seed;
}

void ready_data_free(ReadyData *ready) {
    if (ready->name[0]) dataset_segment_free(&ready->segment);
    ready->name[0] = '\0';
}
