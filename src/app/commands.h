// The commands of the `sounder` program, as main.c calls them. argv holds what follows the command's name.
// Each returns a Status and leaves one sentence in err; only main prints it and exits.
#ifndef SOUNDER_APP_COMMANDS_H
#define SOUNDER_APP_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

#include "app/run/ready_data.h"
#include "base/err.h"

// The parent of a run: `sounder train [EXPERIMENT.yaml] [--option value ...]`. *exit_code is what to exit with when the
// status is OK: 0, or 128 + n after signal n ended the run early (its round finished and its checkpoint written).
Status command_train(int argc, char **argv, int *exit_code, Error *err);

// The same in a process that a sweep has forked and that ends with the run. ready: what data it has loaded.
Status train_with(int argc, char **argv, const ReadyData *ready, int *exit_code, Error *err);

// A worker process, started by the parent and by nobody else; its arguments are the parent's business.
Status command_worker(int argc, char **argv, Error *err);

// Loss and accuracy of a saved model: `sounder eval MODEL.safetensors|RUN [--option value ...]`.
Status command_eval(int argc, char **argv, Error *err);

// Which data sets are where: `sounder data [PLACE ...] [--format FORM]`; and `sounder data get NAME`, which becomes the
// script that downloads one. argv is rearranged.
Status command_data(int argc, char **argv, Error *err);

// Where two runs part: `sounder diff RUN RUN`. *exit_code: 1 if they do.
Status command_diff(int argc, char **argv, int *exit_code, Error *err);

// Who gets which samples in a run with these options, as a picture and in numbers: `sounder partition [EXPERIMENT.yaml]
// [--option value ...] [--json] [--save FILE]`. argv is rearranged.
Status command_partition(int argc, char **argv, Error *err);

// Lists runs, compares them, averages: `sounder runs [FOLDER ...] [--by OPTION,...] [--format FORM]`. argv is
// rearranged.
Status command_runs(int argc, char **argv, Error *err);

// What Gaussian noise is worth in privacy, or which noise it takes: `sounder privacy --sampling-rate Q --rounds N
// --noise Z|--epsilon E`.
Status command_privacy(int argc, char **argv, Error *err);
void privacy_options_print_help(FILE *file);
void privacy_options_print_words(FILE *file);
void privacy_options_print_man(FILE *file);

// Writes a page about runs: `sounder report RUN ... [--out FILE] [--svg FOLDER]`. argv is rearranged.
Status command_report(int argc, char **argv, Error *err);

// Runs `sounder train` with every combination of values: `sounder sweep [EXPERIMENT.yaml] [--option value,value ...]`.
// *exit_code: that of the first run that failed, or 128 + n after signal n.
Status command_sweep(int argc, char **argv, int *exit_code, Error *err);

// Lists the recipes of published figures, or runs one and compares: `sounder reproduce [RECIPE] [--option value ...]`.
// *exit_code: as of a sweep.
Status command_reproduce(int argc, char **argv, int *exit_code, Error *err);

// How a run is doing, as it goes: `sounder top [RUN] [--once]`. argv is rearranged.
Status command_top(int argc, char **argv, Error *err);

// Trains one client of one round again: `sounder replay RUN --round R --client K [--out FILE]`. DATA when it does not
// come out as in the run. *exit_code as for train.
Status command_replay(int argc, char **argv, int *exit_code, Error *err);

// Starts the ranks of any program, as torchrun does: `sounder launch [--option value ...] [--] PROGRAM [ARGUMENT ...]`.
// *exit_code is what to exit with when the status is OK: 0, that of the rank that failed first, or 128 + n after signal
// n, its own or the launcher's.
Status command_launch(int argc, char **argv, int *exit_code, Error *err);

// `sounder help [TOPIC]` (`train -h`: the options in use, on one screen): help, the man page and the completion script,
// all on stdout. See help.c for the topics.
Status command_help(int argc, char **argv, Error *err);

// A worker's life: attach to the parent and its memory, then do what each phase orders until the parent is gone.

// The argv with which the parent starts workers: `sounder:wRANK worker RANK PARENT_PID` (see shm/supervisor.h).
extern char *const worker_arguments[];

#endif
