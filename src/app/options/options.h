// The options of `sounder train` and `sounder eval`: one table (option_table.c) gives the command-line parser, the YAML
// keys (same names), the help text, ranges, "did you mean", and the echo of the effective configuration.
//
//   Options options;
//   options_defaults(&options);
//   TRY(options_parse(&options, argc, argv, err));                 // an experiment file, and the command line over it
//   if (options.resume[0]) {
//       options_defaults(&saved);
//       TRY(options_read_yaml(&saved, "FOLDER/config.yaml", err));
//       TRY(options_resume(&options, &saved, err));                // options.out is FOLDER from here on
//   }
//   TRY(options_resolve(&options, err));                           // defaults that depend on others; contradictions
//
// A refused option is STATUS_USAGE (exit 64) with one sentence naming option, value and remedy. The other failures: a
// file that cannot be opened (NOINPUT), read or written (IO).
// Options is plain data: it owns nothing and may be copied.
#ifndef SOUNDER_APP_OPTIONS_OPTIONS_H
#define SOUNDER_APP_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "fedavg/algorithm/algorithm.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/training.h"
#include "fedavg/rules/world/view_rules.h"
#include "fedavg/rules/world/world.h"

enum { OPTION_TEXT_BYTES = 2048, OPTION_MAX_COUNT = 96 };

typedef enum DeviceKind { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA } DeviceKind;
typedef enum MpsUse { MPS_AUTO, MPS_OFF, MPS_START } MpsUse;
typedef enum DeathPolicy { DEATH_CONTINUE, DEATH_RESPAWN, DEATH_ABORT } DeathPolicy;

typedef struct Options {
    char data[OPTION_TEXT_BYTES];      // fashion-mnist
    char model[OPTION_TEXT_BYTES];     // lenet
    char init[OPTION_TEXT_BYTES];      // "": weights are drawn
    char freeze[OPTION_TEXT_BYTES];    // names and patterns of tensors; "": all learn
    char algorithm[OPTION_TEXT_BYTES]; // fedavg
    Recipe recipe;                     // of algorithm; by options_resolve
    ReleasePlan release;               // of its sums; by options_resolve
    int privacy_rounds;                // over which its epsilon is spent; 0: as many as rounds
    int workers;                       // 1 to 256; until options_resolve 0: as many as usable cores, on a GPU one
    bool workers_by_cores;             // workers were not given, and are as many as usable cores
    int clients;                       // 1 to 1,000,000; until options_resolve 0: as many as workers
    bool clients_by_machine; // clients were not given, and are as many as the machine's cores or the nodes make
    int clients_per_round;   // 1 to clients; until options_resolve 0: all
    char partition[OPTION_TEXT_BYTES]; // a form of datasets/partition.h: contiguous
    double client_test;                // share of a client's samples that are held out; 0
    double alpha;                      // dirichlet, > 0, if the form does not say it; 0.5
    char clock[OPTION_TEXT_BYTES];     // of a buffered schedule: simulated, real, replay:FILE
    // Forms as they were typed, and what they say: in world, in training.schedule, and two files ("": none).
    char sampling[OPTION_TEXT_BYTES], stragglers[OPTION_TEXT_BYTES], client_time[OPTION_TEXT_BYTES];
    char lr_schedule[OPTION_TEXT_BYTES];
    char client_file[OPTION_TEXT_BYTES], availability_file[OPTION_TEXT_BYTES];
    World world;                       // uniform sampling, no client drops out, straggles or takes other than a second
    char attack[OPTION_TEXT_BYTES];    // what bad clients do; "": none
    char attackers[OPTION_TEXT_BYTES]; // which they are
    Chosen attack_rule;                // of attack; by options_resolve
    char client_noise[OPTION_TEXT_BYTES], drift[OPTION_TEXT_BYTES]; // how clients see their samples; "": as they are
    ViewPlan view;                                                  // of both; by options_resolve
    int rounds;                                                     // 3
    Training training;                                              // lr 0.01, momentum 0, 1 local epoch, batches of 64
    uint64_t seed;                                                  // 1
    int device;                                                     // DeviceKind: auto
    int gpu;                        // as CUDA numbers them; only if given, else the one LOCAL_RANK names, or the first
    int models_per_launch;          // clients in lockstep on the GPU; 0: as many as fit
    bool tf32;                      // false
    int mps;                        // MpsUse: auto
    char out[OPTION_TEXT_BYTES];    // "": runs/<time>-<model>
    char resume[OPTION_TEXT_BYTES]; // "": a new run
    int checkpoint_every;           // rounds; 1; 0: only at the end
    int eval_every;                 // rounds; 1; 0: only after the last
    int eval_clients_every;         // rounds; 0: never
    bool inspect_updates;           // false
    int finetune_epochs;            // 0: clients are evaluated with the global model alone
    double target_accuracy;         // part of the test samples; 0: none
    bool stop_at_target;            // false
    int patience;                   // evaluations; 0: without end
    int on_worker_death;            // DeathPolicy: continue
    double hang_seconds;            // 60; 0: never
    bool quiet;                     // false
    char trace[OPTION_TEXT_BYTES];  // "": no trace
    bool tensorboard;               // true
    bool confusion, json;           // of sounder eval: false
    char predictions[OPTION_TEXT_BYTES]; // likewise; "": none
    int nodes;                           // machines that take part, no option: mpirun and srun say it; 1
    int log_level;                       // LogLevel: warning ("error", "warning", "info", "debug")
    bool given[OPTION_MAX_COUNT];        // by table index: set by YAML or command line
    int lines[OPTION_MAX_COUNT];      // by table index: the line of `file` that set it; 0: the command line, or nothing
    bool file_used[OPTION_MAX_COUNT]; // by table index: set by `file`, where it also made it apply
    char file[OPTION_TEXT_BYTES];     // the experiment file; "": none
} Options;

void options_defaults(Options *options);

// The rules of the algorithm; those of fedavg for a text that options_resolve will refuse.
Algorithm options_algorithm(const Options *options);

// argv holds what follows `sounder train`: at most one EXPERIMENT.yaml (read first, wherever it stands; "-": standard
// input) and pairs --option value or --option=value (a bool takes no value, or =true/=false). An option that
// comes twice is refused. In names '_' is as good as '-', here and in YAML.
Status options_parse(Options *options, int argc, char **argv, Error *err);

// For `sounder eval`: exactly one file, *model_file (borrowed from argv), and the options of the table that eval takes.
// Needs no options_resolve.
Status options_parse_eval(Options *options, const char **model_file, int argc, char **argv, Error *err);

// How a sentence names an option, with the place where it was set: "--alpha", or "experiment.yaml:7: alpha".
// text: (OPTION_NAMED_BYTES) of the caller's, which is returned.
enum { OPTION_NAMED_BYTES = 640 };
const char *options_named(char *text, const Options *options, const char *name);

// Whether YAML or the command line set the option; name: as in the table ("local-epochs").
bool options_given(const Options *options, const char *name);

// One flat mapping of option names to scalars, at most 64 KiB of UTF-8. Refused with file and line: lists and mappings
// as values, anchors, aliases, tags, a key that stands there twice, a second document. An empty file sets nothing. A
// byte order mark is skipped, true and false may be written in all of YAML's ways, and a block (`model: >`) is one
// line.
Status options_read_yaml(Options *options, const char *path, Error *err);

// Those of the run in a folder, from its config.yaml. NOINPUT where there is no run, with a sentence that says so.
Status options_read_run(Options *options, const char *folder, Error *err);

// options->nodes is set by now. Fills in workers (of each node), clients, clients_per_round; refuses contradictions
// (options_resolve.c, each with its sentence). An option of the file that only the command line has made useless is
// dropped, and --resume wins over the file's `out`; both are said at level info. Says at level info when workers will
// idle, so log_init comes first.
Status options_resolve(Options *options, Error *err);

// --alpha without --partition asks for the partition that it is a number of.
void options_adopt_form(Options *options);

// Parts of options_resolve: the texts of attack, noise and drift; what the optimizer keeps from round to round; a
// momentum without effect (all USAGE).
Status options_read_world(Options *options, Error *err);
void options_keep_state(Options *options);
Status options_check_momentum(const Options *options, Error *err);

// Check what a run settles for its rounds when it begins (options_longer.c; options: resolved). USAGE with the
// sentence: a learning rate or a budget that ends before so many rounds; --resume for so many rounds; goals that no
// test can reach.
Status options_check_rounds(const Options *options, int rounds, Error *err);
Status options_check_resumed(const Options *options, int rounds, Error *err);
Status options_check_goals(const Options *options, Error *err);

// The FILE of --clock replay:FILE; NULL: nothing is replayed.
const char *options_replay(const Options *options);
bool options_clock_is_real(const Options *options);
Status options_resolve_buffered(Options *options, Error *err); // how many train at a time, and make a step
Status options_resolve_rules(Options *options, Error *err);

// After options_resolve, for a run on a GPU: if workers were not given, one keeps it busy; two to four where
// they work side by side (MPS). Clients stay as they are, but with hogwild, where they are workers.
void options_resolve_on_gpu(Options *options, bool side_by_side);

// For --resume: `saved` is the config.yaml of the run, `given` what the user asked for now. Takes everything from saved
// except the options that may change without making another run of it (workers, device, gpu, models_per_launch, mps,
// rounds, checkpoint_every, eval_every, on_worker_death, hang_seconds, quiet, log_level) where the user gave them;
// USAGE when another one was given and differs. options->out becomes the folder of --resume, wherever it was moved.
Status options_resume(Options *options, const Options *saved, Error *err);

// Where --lr-schedule is a cosine that does not say when it ends, makes it say so. False: it is none, or says it.
bool options_pin_cosine(Options *options, int rounds);

// The form of the partition with the number that an option of its own gives it: "dirichlet alpha=0.5".
// text: (OPTION_TEXT_BYTES) of the caller's, which is returned.
const char *options_partition(char *text, const Options *options);

// The configuration as YAML that options_read_yaml and options_resolve make the same values of, on any machine: but
// workers, which change no bit, follow from its cores. A value that was not given and followed from others
// (clients-per-round: all clients) stands there as a comment, so that it follows again when those change. Left out:
// options about this process alone (resume, out, trace, quiet, log-level), options that the others make irrelevant
// (alpha without --partition dirichlet), and what is still empty.
Status options_write_yaml(const Options *options, FILE *file, Error *err);

// The options in `sounder help train`, generated from the table: each with its meaning, range or choices, default.
void options_print_help(FILE *file);
// Those that most runs set, for `sounder train -h`.
void options_print_common_help(FILE *file);
// Those that `sounder eval` takes.
void options_print_eval_help(FILE *file);
// The OPTIONS section of the man page (troff).
void options_print_man(FILE *file);

// The options of `sounder replay`: rows as those of train, with a record of their own.

typedef struct ReplayOptions {
    const char *run;             // its folder; borrowed from argv
    int round;                   // 1, 2, ...
    int client;                  // 0, 1, ...
    char out[OPTION_TEXT_BYTES]; // "": none
} ReplayOptions;

// argv holds what follows `sounder replay`. USAGE unless run, round and client are there.
Status replay_options_parse(ReplayOptions *options, int argc, char **argv, Error *err);

#endif
