#include "reopened_run.h"

#include <stdio.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/train/run_noise_key.h"
#include "nn/kernels.h"

// Fills in the record. Other inputs than the run's give other bits by intention. The aggregator has no part in what is
// repeated.
static Status check_inputs(ReopenedRun *run, const char *name, Error *err) {
    RunRecord *now = &run->record;
    run_record_fill(now, &run->options, &run->memory, run_hash_data(&run->memory.data), kernels_best()->name, "");
    if (run->options.trainer[0]) run_record_program(now, &run->model.net.program);
    if (run_has_checkpoint(&run->folder)) run_record_keep_init(now, &run->past);
    TRY(run_record_same_inputs(&run->past, now, name, err));
    memcpy(now->inputs[INPUT_TRAINER], run->past.inputs[INPUT_TRAINER], INPUT_TOLD_BYTES);
    memcpy(now->inputs[INPUT_AGGREGATOR], run->past.inputs[INPUT_AGGREGATOR], INPUT_TOLD_BYTES);
    return STATUS_OK;
}

Status reopened_run_open(ReopenedRun *run, const char *folder, const char *name, const char *what, Error *err) {
    Options *options = &run->options;
    DatasetSource source;
    const RunDevice device = {0};
    Nodes nodes = {.size = 1};
    options_defaults(options);
    snprintf(options->resume, sizeof options->resume, "%s", folder);
    TRY(run_read_saved_options(options, &run->past, err));
    if (options_algorithm(options).engine->whole_cohort)
        return fail(err, STATUS_USAGE, "%.200s: no client of --algorithm %.60s trains on its own; %s", name,
                    options->algorithm, what);
    options->device = DEVICE_CPU;
    options->workers = 1;
    for (int i = 0; i < option_count; i++) // options of a GPU do not apply here
        if (!option_applies(options, &option_table[i])) options->given[i] = false;
    TRY(options_resolve(options, err));
    TRY(run_load_data(&run->memory, &source, NULL, options, err));
    run->has_data = true;
    TRY(options->trainer[0] ? run_read_trainer(&run->model, options, &run->memory, NULL, err)
                            : run_read_model(&run->model, options, &run->memory.data, err));
    TRY(run_folder_open(&run->folder, folder, err));
    TRY(check_inputs(run, name, err));
    TRY(run_create_memory(&run->memory, options, &run->model, &device, &run->folder, &nodes, err));
    return run_noise_key_begin(&run->memory, options, &run->record, err);
}

Status reopened_run_restore(ReopenedRun *run, uint32_t *round, Error *err) {
    *round = 0;
    return run_checkpoint_restore(&run->memory, round, &run->folder, &run->record, &run->past, err);
}

// A run's file of client state becomes as long again as it was found.
void reopened_run_close(ReopenedRun *run) {
    if (run->has_data && run->memory.client_state.mapping) client_state_file_leave(&run->memory.client_state);
    if (run->has_data) run_memory_free(&run->memory);
    run_model_free(&run->model);
    if (run->folder.path[0]) run_folder_close(&run->folder);
}
