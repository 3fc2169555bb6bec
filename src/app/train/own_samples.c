#include "own_samples.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "app/train/run_set_up.h"
#include "datasets/unpacked_cache.h"
#include "fedavg/trainer/samples.h"

static bool folder_of_samples(char *folder, size_t bytes) {
    char cache[DATASET_PATH_BYTES];
    return user_cache_folder(cache, sizeof cache) && snprintf(folder, bytes, "%s/samples", cache) < (int)bytes;
}

// Whether a resumed run had its labels in the cache, which may be deleted at any time.
static bool is_lost(const char *data) {
    char folder[DATASET_PATH_BYTES];
    const size_t length = folder_of_samples(folder, sizeof folder) ? strlen(folder) : 0;
    return length > 0 && strncmp(data, folder, length) == 0 && data[length] == '/' && access(data, F_OK) != 0;
}

bool own_samples_wanted(const Options *options) {
    if (!options->trainer[0]) return false;
    return options_given(options, "data") || options->resume[0] ? is_lost(options->data) : true;
}

Status own_samples_find(Options *options, Error *err) {
    char folder[DATASET_PATH_BYTES], path[OPTION_TEXT_BYTES];
    TrainerPlan plan;
    if (!own_samples_wanted(options)) return STATUS_OK;
    if (!folder_of_samples(folder, sizeof folder))
        return fail(err, STATUS_CANTCREATE,
                    "--trainer without --data: the labels of its samples would be kept in the user's cache folder, and "
                    "there is none; set HOME or XDG_CACHE_HOME, or name --data");
    TRY(run_plan_trainer(&plan, options, err));
    TRY(trainer_ask_samples(path, sizeof path, &plan, options->seed, folder, err));
    return path[0] ? option_set(options, option_find("data"), path, "--", err) : STATUS_OK;
}
