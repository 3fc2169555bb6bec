#include "app/again/export_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/options/options.h"
#include "app/python_module.h"
#include "app/train/federation_files.h"
#include "app/train/reopened_run.h"
#include "fedavg/trainer/process.h"

Status export_program(const char *run, const char *option, const char *folder, Error *err) {
    TrainerPlan plan = {.option = "--trainer"};
    char module[64];
    wordexp_t words;
    Options *saved = malloc(sizeof *saved);
    if (!saved) return fail(err, STATUS_OS, "no memory for the options of a run");
    options_defaults(saved);
    Status status = options_read_run(saved, run, err);
    snprintf(plan.command, sizeof plan.command, "%s", saved->trainer);
    free(saved);
    if (status == STATUS_OK && !plan.command[0])
        status = fail(err, STATUS_USAGE,
                      "--%s: %.200s was trained by the engine, and its net is no Python program; name a run of sounder "
                      "train --trainer, or write the weights elsewhere (sounder help models)",
                      option, run);
    if (status == STATUS_OK) status = trainer_command_words(&words, &plan, err);
    TRY(status);
    const char *slash = strrchr(words.we_wordv[0], '/'), *name = slash ? slash + 1 : words.we_wordv[0];
    const bool is_python = strncmp(name, "python", strlen("python")) == 0;
    const char *const own[] = {run, folder};
    snprintf(module, sizeof module, "sounder.export_%s", option);
    status = python_module(is_python ? words.we_wordv[0] : "python3", module,
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
        status = federation_files_begin(options, &reopened->memory, reopened->model.about.text,
                                        (uint32_t)options->rounds, inside, err);
    if (status == STATUS_OK) status = federation_files_end(inside, err);
    reopened_run_close(reopened);
    free(reopened);
    return status;
}

Status export_flower(const char *run, const char *folder, Error *err) {
    TRY(write_federation(run, folder, err));
    return export_program(run, "flower", folder, err);
}
