#include "reopened_run.h"

#include <stdio.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/train/run_noise_key.h"
#include "nn/kernels.h"

// Another program gives other bits by intention.
static Status read_trainer(ReopenedRun *run, const char *name, Error *err) {
    RunRecord now = {0};
    TRY(run_read_trainer(&run->spec, &run->net, run->about.text, &run->options, &run->memory, NULL, err));
    run_record_program(&now, &run->net.program);
    if (run->past.trainer[0] && strcmp(run->past.trainer, now.trainer) != 0)
        return fail(err, STATUS_DATA,
                    "%.200s: the files of its trainer are not what trained it (XXH3 %s then, %s now); give them back",
                    name, run->past.trainer, now.trainer);
    return run_check_stays(&run->past, &now, name, err);
}

// The programs are those of the run: its trainer has been compared, and its aggregator has no part in what is repeated.
static void fill_record(RunRecord *record, const ReopenedRun *run) {
    run_record_fill(record, &run->options, &run->memory, run_hash_data(&run->memory.data), kernels_best()->name, "");
    snprintf(record->trainer, sizeof record->trainer, "%s", run->past.trainer);
    snprintf(record->aggregator, sizeof record->aggregator, "%s", run->past.aggregator);
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
    TRY(options->trainer[0] ? read_trainer(run, name, err)
                            : run_read_model(&run->spec, run->about.text, options, &run->memory.data, err));
    TRY(run_folder_open(&run->folder, folder, err));
    const TrainerNet *net = options->trainer[0] ? &run->net : NULL;
    TRY(run_create_memory(&run->memory, options, &run->spec, net, &run->about, &device, &run->folder, &nodes, err));
    fill_record(&run->record, run);
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
    trainer_net_free(&run->net);
    model_about_free(&run->about);
    if (run->folder.path[0]) run_folder_close(&run->folder);
}
