#include "run_trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/options/options.h"
#include "app/train/run_folder.h"

static Status check_owner(const char *path, const char *folder, Error *err) {
    struct stat about;
    if (stat(path, &about) != 0) return fail_errno(err, STATUS_NOINPUT, "%.500s cannot be read", path);
    if (about.st_uid == geteuid()) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%.500s belongs to another user (uid %u), and the run in %.500s names a program that would be started; "
                "read its config.yaml, and give a copy of your own",
                path, (unsigned)about.st_uid, folder);
}

static void say_start(const char *program, const char *command, const char *folder) {
    char line[OPTION_TEXT_BYTES + RUN_PATH_BYTES];
    snprintf(line, sizeof line, "sounder: starts the %s of %.500s: %s", program, folder, command);
    disarm_text(line);
    fprintf(stderr, "%s\n", line);
}

Status run_trust_programs(const char *folder, bool aggregates, Error *err) {
    char config[RUN_PATH_BYTES];
    Options *saved = malloc(sizeof *saved);
    if (!saved) return fail(err, STATUS_OS, "no memory for the options of a run");
    options_defaults(saved);
    Status status = options_read_run(saved, folder, err);
    const bool trains = saved->trainer[0];
    aggregates &= saved->aggregator[0] != '\0';
    snprintf(config, sizeof config, "%.4000s/config.yaml", folder);
    if (status == STATUS_OK && (trains || aggregates)) status = check_owner(folder, folder, err);
    if (status == STATUS_OK && (trains || aggregates)) status = check_owner(config, folder, err);
    if (status == STATUS_OK && trains) say_start("trainer", saved->trainer, folder);
    if (status == STATUS_OK && aggregates) say_start("aggregator", saved->aggregator, folder);
    free(saved);
    return status;
}
