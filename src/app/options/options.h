// The options of `sounder train` and `sounder eval`: one table (option_table.c) provides the command-line parser, the
// YAML keys (equal to the option names), the help text, ranges, "did you mean", and the echo of the effective
// configuration.
//
//   Options options;
//   options_defaults(&options);
//   TRY(options_parse(&options, argc, argv, err));                 // an experiment file, then the command line
//   if (options.resume[0]) {
//       options_defaults(&saved);
//       TRY(options_read_yaml(&saved, "FOLDER/config.yaml", err));
//       TRY(options_resume(&options, &saved, err));                // sets options.out to FOLDER
//   }
//   TRY(options_resolve(&options, err));                           // defaults that depend on others; contradictions
//
// A refused option is STATUS_USAGE (exit 64) with one sentence that names option, value and remedy. Other errors: a
// file that cannot be opened (NOINPUT), read or written (IO).
// Options is plain data: it owns nothing and may be copied.
#ifndef SOUNDER_APP_OPTIONS_OPTIONS_H
#define SOUNDER_APP_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "fedavg/algorithm/algorithm.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/training.h"
#include "fedavg/rules/world/view_rules.h"
#include "fedavg/rules/world/world.h"

enum { OPTION_TEXT_BYTES = 2048, OPTION_NET_BYTES = SPEC_TEXT_BYTES, OPTION_MAX_COUNT = 96 };

typedef enum DeviceKind { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA } DeviceKind;
typedef enum MpsUse { MPS_AUTO, MPS_OFF, MPS_START } MpsUse;
typedef enum LossKind { LOSS_AUTO, LOSS_BCE } LossKind;
typedef enum DeathPolicy { DEATH_CONTINUE, DEATH_RESPAWN, DEATH_ABORT } DeathPolicy;

typedef enum TrainerStart { TRAINER_FORK, TRAINER_EACH } TrainerStart;

enum { OWN_VALIDATION_UNKNOWN, OWN_VALIDATION_NONE, OWN_VALIDATION_THERE }; // unknown until the data set is found

typedef struct Options {
    char data[OPTION_TEXT_BYTES];    // fashion-mnist
    char model[OPTION_NET_BYTES];    // lenet
    char init[OPTION_TEXT_BYTES];    // "": random weights
    bool init_partial;               // false
    char trainer[OPTION_TEXT_BYTES]; // a program that trains; "": the engine does
    char trainer_option[OPTION_TEXT_BYTES];
    int trainer_threads; // 1
    int trainer_start;   // TrainerStart: fork
    bool check_trainer;
    // With --resume: whether the trainer is named again; the folder where the run began, and where relative paths of
    // the trainer's command begin ("": this process's).
    bool trainer_is_named, aggregator_is_named;
    char hash_seed[16]; // PYTHONHASHSEED of its programs, as the run's record has it; "": a new run
    char trainer_folder[OPTION_TEXT_BYTES];
    char freeze[OPTION_TEXT_BYTES];    // names and patterns of tensors; "": all learn
    char algorithm[OPTION_TEXT_BYTES]; // fedavg
    // A program that combines updates ("": the algorithm does), how many vectors it remembers, and, of a resumed run,
    // where its relative paths begin.
    char aggregator[OPTION_TEXT_BYTES];
    char aggregator_option[OPTION_TEXT_BYTES];
    int aggregator_keeps;
    char aggregator_folder[OPTION_TEXT_BYTES];
    Recipe recipe;                         // of algorithm; set by options_resolve
    ReleasePlan release;                   // of its sums; set by options_resolve
    int privacy_rounds;                    // rounds for which its epsilon must last; 0: all rounds
    int workers;                           // 1 to 256; 0 until options_resolve: all usable cores, on a GPU one
    int cores;                             // cores from which workers follow; 0: all usable ones. No option sets it
    bool records_updates;                  // of sounder export: what clients hand in is recorded. No option sets it
    bool workers_by_cores;                 // workers were not given, and equal those cores
    int clients;                           // 1 to 1,000,000; 0 until options_resolve: as many as workers
    bool clients_by_machine;               // clients were not given, and follow from the machine's cores or the nodes
    char new_clients[OPTION_TEXT_BYTES];   // clients that never train, a share or a list; "": none
    int population;                        // all other clients; set by options_resolve
    int arriving;                          // of them: those that --without leaves in; set by options_resolve
    int clients_per_round;                 // 1 to population; 0 until options_resolve: all
    char partition[OPTION_TEXT_BYTES];     // a form of datasets/partition.h: contiguous
    char class_weights[OPTION_TEXT_BYTES]; // balanced, or a list; "": each is 1
    int loss;                              // LossKind: auto, by the data's labels
    double client_test;                    // share of a client's samples that is held out; 0
    double validation;                     // share of the training samples on which rounds are tested; 0
    int validation_data;                   // OWN_VALIDATION_*: whether the data set has a validation set of its own
    double alpha;                          // dirichlet, > 0, unless the form has it; 0.5
    char clock[OPTION_TEXT_BYTES];         // of a buffered schedule: simulated, real, replay:FILE
    // Forms as typed; their numbers are in world, in training, and in two file names ("": none).
    char sampling[OPTION_TEXT_BYTES], stragglers[OPTION_TEXT_BYTES], client_time[OPTION_TEXT_BYTES];
    char lr_schedule[OPTION_TEXT_BYTES], dp_sgd[OPTION_TEXT_BYTES], cohort_schedule[OPTION_TEXT_BYTES];
    char failures[OPTION_TEXT_BYTES];
    char client_weights[OPTION_TEXT_BYTES]; // a list, or file:FILE; "": samples
    char client_file[OPTION_TEXT_BYTES], availability_file[OPTION_TEXT_BYTES];
    World world;                       // uniform sampling; clients neither drop out nor straggle, and take one second
    char attack[OPTION_TEXT_BYTES];    // what attackers do; "": none
    char attackers[OPTION_TEXT_BYTES]; // which clients attack
    char without[OPTION_TEXT_BYTES];   // clients that never arrive; "": all may
    Chosen attack_rule;                // of attack; set by options_resolve
    char client_noise[OPTION_TEXT_BYTES], drift[OPTION_TEXT_BYTES]; // change the clients' samples; "": unchanged
    ViewPlan view;                                                  // of both; set by options_resolve
    int rounds;                                                     // 3
    Training training;                                              // lr 0.01, momentum 0, 1 local epoch, batches of 64
    uint64_t seed;                                                  // 1
    int device;                                                     // DeviceKind: auto
    int gpu;                             // in CUDA's numbering, if given; else the one of the local rank, or the first
    int models_per_launch;               // clients in lockstep on the GPU; 0: as many as fit
    bool tf32;                           // false
    char noise_key[OPTION_TEXT_BYTES];   // "": from seed and run; "system"; or 64 hexadecimal digits
    int mps;                             // MpsUse: auto
    char out[OPTION_TEXT_BYTES];         // "": runs/<time>-<model>
    char resume[OPTION_TEXT_BYTES];      // "": a new run
    int checkpoint_every;                // rounds; 1; 0: only at the end
    int eval_every;                      // rounds; 1; 0: only after the last
    int eval_clients_every;              // rounds; 0: never
    bool inspect_updates;                // false
    bool measure_energy;                 // false
    int finetune_epochs;                 // 0: clients are tested with the global model only
    char target[OPTION_TEXT_BYTES];      // NAME=VALUE (run_target.h); "": none
    bool stop_at_target;                 // false
    char until[OPTION_TEXT_BYTES];       // NAME=VALUE ... (run_budget.h); "": no budget
    int patience;                        // tests; 0: no limit
    char patience_by[OPTION_TEXT_BYTES]; // figure that the run is about (run_target.h); "": it follows
    int on_worker_death;                 // DeathPolicy: continue
    double hang_seconds;                 // 60; 0: never
    bool plan;                           // false: a run; true: what it would take
    bool quiet;                          // false
    char trace[OPTION_TEXT_BYTES];       // "": no trace
    bool tensorboard;                    // true
    bool confusion, json;                // of sounder eval: false
    char client[OPTION_TEXT_BYTES];      // of sounder eval: whose model is tested, a name or a number; "": none
    char predictions[OPTION_TEXT_BYTES]; // of sounder eval; "": none
    char confusion_file[OPTION_TEXT_BYTES]; // of sounder eval; "": none
    int nodes;                              // machines that take part; set by mpirun or srun, not an option; 1
    int log_level;                          // LogLevel: warning ("error", "warning", "info", "debug")
    bool given[OPTION_MAX_COUNT];           // by table index: set in YAML or on the command line
    int lines[OPTION_MAX_COUNT];            // by table index: line of `file` that set it; 0: the command line, or unset
    bool file_used[OPTION_MAX_COUNT]; // by table index: set by `file`, and applicable with the file's other options
    char file[OPTION_TEXT_BYTES];     // the experiment file; "": none
} Options;

void options_defaults(Options *options);

// Reads --algorithm. With --trainer a name's optimizer is left out. USAGE as recipe_parse.
Status options_recipe(Recipe *recipe, const Options *options, Error *err);

// Returns the rules of the algorithm, or those of fedavg if options_resolve will refuse the text.
Algorithm options_algorithm(const Options *options);

// argv holds what follows `sounder train`: at most one EXPERIMENT.yaml (read first, at any place; "-": standard
// input) and pairs --option value or --option=value (a bool takes no value, or =true/=false). An option that
// occurs twice is refused. In names '_' is as good as '-', here and in YAML.
Status options_parse(Options *options, int argc, char **argv, Error *err);

// For `sounder eval`: exactly one file, *model_file (borrowed from argv), and the options of the table that eval takes.
// Needs no options_resolve.
Status options_parse_eval(Options *options, const char **model_file, int argc, char **argv, Error *err);

// How a sentence names an option, with the place where it was set: "--alpha", or "experiment.yaml:7: alpha".
// text: (OPTION_NAMED_BYTES) of the caller's, which is returned.
enum { OPTION_NAMED_BYTES = 640 };
const char *options_named(char *text, const Options *options, const char *name);

// USAGE with what the option is called, followed by the text (printf style): "--drop-out" and " 1: no client arrives".
Status options_refuse(const Options *options, const char *name, Error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Passes STATUS_OK on. Otherwise fails with the status, and with what the option is called, `gap`, and the sentence of
// why, whose sketch it keeps.
Status options_blame(const Options *options, const char *name, const char *gap, Status status, const Error *why,
                     Error *err);

// Writes what a program of the user's is called, the first word after the program that is no option, or the program, to
// the caller's label (OPTION_LABEL_BYTES), and returns it. options_net returns that of --trainer, or --model.
enum { OPTION_LABEL_BYTES = 64 };
const char *options_program(char *label, const char *command);
const char *options_net(char *label, const Options *options);

// Whether YAML or the command line set the option; name: as in the table ("local-epochs").
bool options_given(const Options *options, const char *name);

// One flat mapping of option names to scalars, at most 64 KiB of UTF-8. Refused with file and line: lists and mappings
// as values, anchors, aliases, tags, a key that occurs twice, a second document. An empty file sets nothing. A
// byte order mark is skipped, true and false may be written in all of YAML's ways, and a block (`model: >`) is one
// line.
Status options_read_yaml(Options *options, const char *path, Error *err);

// Reads an experiment file: as options_read_yaml, but an option may have a list of values ([1, 2], or a line for each),
// which is for sounder sweep. The option is then not given and keeps its line in options->lines, and `take` is called
// for each value; NULL: the values are only read. where: "FILE:LINE: ".
struct Option;
typedef Status OptionValueTaker(void *to, const struct Option *option, const char *value, const char *where,
                                Error *err);
Status options_read_experiment(Options *options, OptionValueTaker *take, void *to, const char *path, Error *err);

// Reads the options of the run in a folder from its config.yaml. NOINPUT says if there is no run; DATA, as
// metrics_check_format does, if the run has another format.
Status options_read_run(Options *options, const char *folder, Error *err);

// Needs options->nodes. Derives workers (of each node), clients and clients_per_round, and refuses contradictions
// (options_resolve.c, each with its sentence). An option of the file that has no effect only because of the command
// line is dropped, and --resume wins over the file's `out`; both are logged at level info. Logs at level info when
// workers will be idle, so call log_init first.
Status options_resolve(Options *options, Error *err);

// --alpha without --partition asks for the partition that it is a number of.
void options_adopt_form(Options *options);

// Parts of options_resolve: the texts of attack, noise and drift; the optimizer state that clients keep; a momentum
// without effect (all USAGE).
Status options_read_world(Options *options, Error *err);
void options_keep_state(Options *options);
Status options_check_momentum(const Options *options, Error *err);

// Check the plan of a run's rounds when it begins (options_longer.c; options: resolved). USAGE for a learning rate or a
// budget that ends before the last round, for --resume with too few rounds, for a target that is none, and for goals
// that no test can reach.
Status options_check_rounds(const Options *options, int rounds, Error *err);
Status options_check_resumed(const Options *options, int rounds, Error *err);
Status options_check_goals(const Options *options, Error *err);
Status options_check_plan(const Options *options, Error *err); // what --plan does not go with

// Returns the FILE of --clock replay:FILE; NULL: nothing is replayed.
const char *options_replay(const Options *options);
bool options_clock_is_real(const Options *options);

// Where the key of the run's noise is from: NOISE_KEY_NONE if it has no noise and no masks.
NoiseKeyKind options_noise_key(const Options *options);

// Whether the run adds noise that hides clients, samples, or single updates. Its rounds then tell an epsilon.
bool options_add_noise(const Options *options);

// Whether the record must not say who was drawn, or which samples: an epsilon takes that for secret.
bool options_hide_cohorts(const Options *options);
bool options_hide_batches(const Options *options);

// Whether the rounds are tested on a validation set, and the test set is for the end.
static inline bool options_validate(const Options *options) {
    return options->validation > 0 || options->validation_data == OWN_VALIDATION_THERE;
}
Status options_resolve_buffered(Options *options, Error *err); // clients that train at a time, and updates per step
Status options_resolve_rules(Options *options, Error *err);

// Sets population, the number of clients that are not new, and how many of them can arrive. USAGE if none can, unless
// --without all says so.
Status options_count_population(Options *options, Error *err);

// Set chosen and absent (clients, zeroed) to 1 for the clients of --new-clients and of --without, which are given.
Status options_choose_new(uint8_t *chosen, const Options *options, Error *err);
Status options_choose_absent(uint8_t *absent, const Options *options, Error *err);

// No client trains: the coalition of no clients, from which a Shapley value begins.
#define WITHOUT_ALL "all"
static inline bool options_without_all(const Options *options) {
    return strcmp(options->without, WITHOUT_ALL) == 0;
}

// Call it after options_resolve for a run on a GPU. If workers were not given, one keeps the GPU busy, or two to four
// if they work side by side (MPS). Clients are unchanged, except with hogwild, whose clients are the workers.
void options_resolve_on_gpu(Options *options, bool side_by_side);

// For --resume: `saved` is the config.yaml of the run, `given` the user's options now. Takes everything from saved
// except options that the user gave and that may change without making another run (Option.may_change). USAGE if
// another option was given and differs. options->out becomes the folder of --resume, wherever it was moved.
Status options_resume(Options *options, const Options *saved, Error *err);

// Writes out values that are not given and follow from --rounds, as those of `rounds`: the end of a cosine, and
// --privacy-rounds where that applies. A run whose --rounds change keeps them.
void options_pin_rounds(Options *options, int rounds);

// Removes these values again where they equal --rounds. Runs of one plan then have equal options, whether or not a
// process was resumed or began with fewer rounds (--search halving).
void options_unpin_rounds(Options *options);

// Writes the partition with the number from --alpha, "dirichlet alpha=0.5", to the caller's text (OPTION_TEXT_BYTES),
// and returns it.
const char *options_partition(char *text, const Options *options);

// Writes the configuration as YAML from which options_read_yaml and options_resolve derive equal values on any machine;
// only workers, which change no bit, follow from its cores. A value that was derived from others (clients-per-round:
// all clients) is written as a comment, so that it is derived again when they change. Left out are options about this
// process alone (resume, out, trace, quiet, log-level), options without effect (alpha without --partition dirichlet),
// and empty ones.
Status options_write_yaml(const Options *options, FILE *file, Error *err);

// The values that an experiment has of an option; count 0: none.
typedef struct OptionValues {
    char *const *values; // borrowed, (count)
    size_t count;
} OptionValues;

// Writes an experiment file from which options_read_experiment reads these values. heading: its first lines, each with
// its # and its end. all: (option_count), by table index.
Status options_write_experiment(FILE *file, const char *heading, const OptionValues *all, Error *err);

// Prints the options for `sounder help train` from the table: each with its meaning, range or choices, and default.
void options_print_help(FILE *file);
// Prints the most used options, for `sounder train -h`.
void options_print_common_help(FILE *file);
// Prints the options of `sounder eval`.
void options_print_eval_help(FILE *file);
// Prints the OPTIONS section of the manual page (troff).
void options_print_man(FILE *file);

// The options of `sounder replay`, with rows as in the table of train, but a record of their own.

typedef struct ReplayOptions {
    const char *run;             // the run's folder; borrowed from argv
    int round;                   // 1, 2, ...
    int client;                  // 0, 1, ...
    char out[OPTION_TEXT_BYTES]; // "": none
} ReplayOptions;

// argv holds the words after `sounder replay`. USAGE unless run, round and client are given.
Status replay_options_parse(ReplayOptions *options, int argc, char **argv, Error *err);

#endif
