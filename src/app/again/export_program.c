#include "app/again/export_program.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "app/python_module.h"
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
