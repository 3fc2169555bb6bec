// The options of `sounder launch`, under torchrun's names, and the values derived from them.
//
//   LaunchOptions options;
//   TRY(launch_options_parse(&options, argc, argv, err));      // argv: what follows `sounder launch`
//   if (options.help) ...
//   TRY(launch_options_resolve(&options, err));                // ranks, streams and address are known from here on
//
// Options missing from the command line are taken from PET_<OPTION> in the environment, as in torchrun (PET_NNODES),
// and then from the default. torchrun's options that have no meaning here are refused with what to write instead.
//
// The options end at the first word that is none, or at "--": the rest is the program and its arguments. As torchrun
// does, names are taken with '-' or '_' between words. A refused option is STATUS_USAGE with one sentence.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_OPTIONS_H
#define SOUNDER_APP_LAUNCH_LAUNCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "app/options/option_table.h"
#include "base/err.h"

enum { LAUNCH_MAX_RANKS = 1024 };

// A set of a rank's two streams, numbered as torchrun's Std: 0 none, 1 stdout, 2 stderr, 3 both.
enum { STREAM_STDOUT = 1, STREAM_STDERR = 2 };

typedef struct LaunchOptions {
    char nproc_per_node[OPTION_TEXT_BYTES]; // "auto", "cpu", "gpu" or a number
    char nnodes_text[OPTION_TEXT_BYTES];    // "N", or as torchrun's ranges "N:N"
    int nnodes;                             // resolved
    int node_rank;                          // -1: not given, until resolved
    char master_addr[OPTION_TEXT_BYTES];    // "": not given, until resolved
    int master_port;                        // 0: not given; after resolve 0 means any free one (standalone)
    bool standalone;
    int max_restarts;
    double grace_seconds;
    double watch;                      // seconds without progress until a rank is named; 0: never
    double meet_seconds;               // that the launchers of several nodes wait for each other; 0: they do not meet
    char log_dir[OPTION_TEXT_BYTES];   // "": a folder of its own under $TMPDIR, if there is anything to log
    char redirects[OPTION_TEXT_BYTES]; // "3" for all ranks, or "0:1,2:3" by local rank
    char tee[OPTION_TEXT_BYTES];
    bool module, no_python;
    char role[OPTION_TEXT_BYTES];          // ROLE_NAME of the ranks
    char rdzv_endpoint[OPTION_TEXT_BYTES]; // "HOST:PORT" or "HOST": another way to write master_addr and master_port
    char rdzv_backend[OPTION_TEXT_BYTES];
    char rdzv_id[OPTION_TEXT_BYTES];            // name of the run; "": "none", or by chance if standalone
    char local_ranks_filter[OPTION_TEXT_BYTES]; // "0,2": ranks whose output reaches the console; "": all
    double monitor_interval;                    // seconds; torchrun's, nothing waits for it here
    char start_method[OPTION_TEXT_BYTES];       // torchrun's, nothing depends on it here
    bool help;                                  // --help or -h stood before the program
    char **program;                             // (program_count), borrowed from argv: program and its arguments
    int program_count;
    int ranks;                            // resolved: on this node
    uint8_t redirected[LAUNCH_MAX_RANKS]; // resolved: streams that go to files only, by local rank
    uint8_t teed[LAUNCH_MAX_RANKS];       // resolved: streams that go to files and to the console
    bool hidden[LAUNCH_MAX_RANKS];        // resolved: whose output --local-ranks-filter keeps from the console
} LaunchOptions;

Status launch_options_parse(LaunchOptions *options, int argc, char **argv, Error *err);

// Contradictions, the number of ranks, what is logged, the address. NOINPUT when the program is a Python file that
// cannot be read, UNAVAILABLE for --nproc-per-node gpu where no GPU is visible.
Status launch_options_resolve(LaunchOptions *options, Error *err);

// Whether anything is written into log files.
bool launch_options_log(const LaunchOptions *options);

// The rows, for the command line, help, the man page and completion.
extern const OptionTable launch_options;

// How many GPUs this process may use, counted without waking one up: no CUDA call, no context, no library.

// The device files nvidia0, nvidia1, ... in `folder` (/dev; a container sees those it was given), of which
// visible_devices (CUDA_VISIBLE_DEVICES; NULL: all) may allow fewer: as CUDA reads it, a comma-separated list that ends
// at the first -1 or the first number without a GPU. Names (GPU-..., MIG-...) count as one GPU each.
int gpus_visible(const char *visible_devices, const char *folder);

#endif
