#include "app/again/export_program.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/python_module.h"
#include "app/train/federation_files.h"
#include "app/train/reopened_run.h"
#include "fedavg/trainer/process.h"
#include "io/metrics.h"

// The last start of the run tells the trainer that it ends with.
static Status note_trainer(void *context, json_t *line, Error *err) {
    TrainerPlan *plan = context;
    const char *command = json_string_value(json_object_get(line, "trainer"));
    (void)err;
    snprintf(plan->command, sizeof plan->command, "%s", command ? command : "");
    return STATUS_OK;
}

Status export_program(const char *run, const char *option, const char *folder, Error *err) {
    static const char *const types[] = {"start", NULL};
    TrainerPlan plan = {.option = "--trainer"};
    char module[64];
    wordexp_t words;
    TRY(metrics_visit_run(run, types, note_trainer, &plan, err));
    if (!plan.command[0])
        return fail(err, STATUS_USAGE,
                    "--%s: %.200s was trained by the engine, and its net is no Python program; name a run of sounder "
                    "train --trainer, or write the weights elsewhere (sounder help models)",
                    option, run);
    TRY(trainer_command_words(&words, &plan, err));
    const char *slash = strrchr(words.we_wordv[0], '/'), *name = slash ? slash + 1 : words.we_wordv[0];
    const bool is_python = strncmp(name, "python", strlen("python")) == 0;
    const char *const own[] = {run, folder};
    snprintf(module, sizeof module, "sounder.export_%s", option);
    const Status status = python_module(is_python ? words.we_wordv[0] : "python3", module,
                                        "it is the Python of the run's trainer, in which this has to run", own, 2, err);
    wordfree(&words);
    return status;
}

static Status write_federation(const char *run, const char *folder, Error *err) {
    char inside[RUN_PATH_BYTES];
    snprintf(inside, sizeof inside, "%.3000s/federation", folder);
    ReopenedRun *reopened = calloc(1, sizeof *reopened);
    if (!reopened) return fail(err, STATUS_OS, "no memory for the options of a run");
    Status status = reopened_run_open(reopened, run, run, "there is no app to write", err);
    const Options *options = &reopened->options;
    if (status == STATUS_OK && (!options->trainer[0] || !reopened->memory.data.train.pixels))
        status = fail(err, STATUS_USAGE,
                      "--flower: the samples of %.200s are its trainer's own, or it has no trainer; export a run of "
                      "sounder train --trainer with samples in --data",
                      run);
    if (status == STATUS_OK && (mkdir(folder, 0777) != 0 || mkdir(inside, 0777) != 0))
        status = fail_errno(err, STATUS_CANTCREATE, "--flower %.500s cannot be made; name a new folder", folder);
    if (status == STATUS_OK)
        status = federation_files_begin(options, &reopened->memory, reopened->about.text, (uint32_t)options->rounds,
                                        inside, err);
    if (status == STATUS_OK) status = federation_files_end(inside, err);
    reopened_run_close(reopened);
    free(reopened);
    return status;
}

Status export_flower(const char *run, const char *folder, Error *err) {
    TRY(write_federation(run, folder, err));
    return export_program(run, "flower", folder, err);
}
