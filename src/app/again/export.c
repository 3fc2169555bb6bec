// Part of command.h: `sounder export RUN --federation FOLDER` writes a run's federation for other implementations. Its
// other forms are client_model.c and export_program.c.
//
// A run does not store what its clients hand in. The run is repeated from its options, with workers that leave a copy
// of each update for the parent; the repetition has the bits of the run by construction, and the model of each round is
// compared with the record of the run.
#include "app/again/client_model.h"
#include "app/again/export_program.h"
#include "app/command.h"
#include "app/train/train.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "app/options/option_traits.h"
#include "app/train/federation_files.h"
#include "app/train/run_noise_key.h"
#include "app/train/run_record.h"
#include "app/train/run_set_up.h"
#include "app/train/run_trust.h"
#include "base/log.h"
#include "fedavg/memory/fingerprint.h"
#include "fedavg/parent/rounds.h"
#include "io/metrics.h"
#include "io/npz.h"
#include "nn/kernels.h"
#include "shm/segment.h"

typedef struct ExportOptions {
    const char *run;                    // the run's folder; borrowed from argv
    int rounds;                         // the first rounds that are wanted; 0: all
    char federation[OPTION_TEXT_BYTES]; // the folder to write
    char client[OPTION_TEXT_BYTES];     // whose model is wanted, a name or a number; "": the federation is
    char out[OPTION_TEXT_BYTES];        // its file; "": in the run's folder
    char peft[OPTION_TEXT_BYTES];       // a folder for the adapter of the trainer's net
    char flower[OPTION_TEXT_BYTES];     // a folder for the run as a Flower app
} ExportOptions;

#define FIELD(member) .offset = offsetof(ExportOptions, member)

// clang-format off
static const Option rows[] = {
    {.name = "federation", .type = OPTION_TEXT, FIELD(federation), .placeholder = "FOLDER", .derived = "must be given",
     .help = "a new folder, which gets data, partition, and for each round the clients, their batches, what they handed in, "
             "and the weights"},
    {.name = "rounds", .type = OPTION_WHOLE, FIELD(rounds), .placeholder = "N", .derived = "all",
     .minimum = 1, .maximum = 1000000, .help = "only the first N rounds"},
    {.name = "client", .type = OPTION_TEXT, FIELD(client), .placeholder = "K|NAME", .derived = "the federation",
     .help = "write the model of client number K (from 0), or of the one called NAME, instead, after the last checkpoint: what stays with the client, joined "
             "with the global model (fedper, fedbn, lg-fedavg, ...), or its own whole model (ditto, pfedme, ...; the replica of easgd, the last model of moon)"},
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .placeholder = "FILE", .derived = "RUN/client-K.safetensors",
     .help = "file of the client's model"},
    {.name = "peft", .type = OPTION_TEXT, FIELD(peft), .placeholder = "FOLDER", .derived = "not written",
     .help = "write the adapter of a trainer's net (PEFT) into a new folder, as PeftModel.from_pretrained and --init read it"},
    {.name = "flower", .type = OPTION_TEXT, FIELD(flower), .placeholder = "FOLDER", .derived = "not written",
     .help = "write the run as a Flower app into a new folder: the trainer's own functions as its ClientApp, the equal strategy as its ServerApp"},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof *rows };

const OptionTable export_options = {.rows = rows, .count = ROWS, .command = "export"};

typedef struct Export {
    ExportOptions options;
    Options training;                // options of the run
    char (*models)[HASH_TEXT_BYTES]; // owned (rounds): fingerprints of the run's models, by round
    uint32_t rounds;
    bool on_gpu; // the run was
    RunMemory memory;
    bool loaded;  // the memory has at least the data
    float *begun; // owned (parameters): the model of the round before
} Export;

static Status parse(ExportOptions *options, int argc, char **argv, Error *err) {
    const char *seen[ROWS] = {NULL};
    *options = (ExportOptions){.run = NULL};
    for (int next = 0; next < argc;) {
        if (argv[next][0] != '-') {
            TRY(option_take_word(&options->run, argv[next++], "run", err));
            continue;
        }
        if (strncmp(argv[next], "--onnx", sizeof "--onnx" - 1) == 0)
            return fail(err, STATUS_USAGE,
                        "export: files of ONNX's are written from Python (tools/python): python3 -c 'import sounder; "
                        "sounder.export_onnx(\"net.onnx\", \"RUN/model.safetensors\")'");
        TRY(option_read_next(options, seen, &next, argc, argv, &export_options, err));
    }
    const bool of_client = options->client[0];
    if (of_client && (options->federation[0] || options->rounds > 0))
        return fail(err, STATUS_USAGE,
                    "--client %.60s writes a model, --federation what all clients did; leave one out", options->client);
    if (!of_client && options->out[0])
        return fail(err, STATUS_USAGE, "--out %.200s: only used with --client; add that or leave --out out",
                    options->out);
    const int kinds = (options->federation[0] != 0) + of_client + (options->peft[0] != 0) + (options->flower[0] != 0);
    if (kinds > 1 || (options->rounds > 0 && !options->federation[0]))
        return fail(err, STATUS_USAGE,
                    "--federation, --peft, --flower and --client each write something of their own, and --rounds is "
                    "used with --federation alone; give one of them");
    if (options->run && kinds == 1) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "sounder export: needs a run and a folder; write sounder export RUN --federation FOLDER, --peft FOLDER or "
        "--flower FOLDER, or sounder export RUN --client K");
}

// The run -------------------------------------------------------------------------------------------------------------

static Status note_line(void *context, json_t *line, Error *err) {
    Export *self = context;
    const json_int_t round = json_integer_value(json_object_get(line, "round"));
    if (round != (json_int_t)self->rounds + 1 || (self->options.rounds > 0 && round > self->options.rounds))
        return STATUS_OK;
    char(*models)[HASH_TEXT_BYTES] = realloc(self->models, (self->rounds + 1) * sizeof *models);
    if (!models) return fail(err, STATUS_OS, "no memory for the record of %u rounds", self->rounds + 1);
    self->models = models;
    const char *model = json_string_value(json_object_get(line, "model_xxh3"));
    const char *device = json_string_value(json_object_get(line, "device"));
    snprintf(self->models[self->rounds++], sizeof *models, "%s", model ? model : "");
    self->on_gpu |= device && strcmp(device, "cpu") != 0;
    return STATUS_OK;
}

static Status read_record(Export *self, Error *err) {
    static const char *const types[] = {"round", NULL};
    TRY(metrics_visit_run(self->options.run, types, note_line, self, err));
    if (self->rounds == 0)
        return fail(err, STATUS_NOINPUT,
                    "%.200s/metrics.jsonl tells of no round; give the folder of a run that has "
                    "trained",
                    self->options.run);
    if (self->options.rounds <= (int)self->rounds) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--rounds %d: the run in %.200s has done %u", self->options.rounds,
                self->options.run, self->rounds);
}

// Another implementation could not repeat these runs from the files: their clients train by more than their samples,
// their order, and the weights.
static const struct {
    Trait trait;
    const char *why;
} refusals[] = {
    {TRAIT_LOCKSTEP, "its clients hand in a gradient in every step, and train no model of their own"},
    {TRAIT_WRITES, "its workers write the weights as they train, so that there are no rounds, clients and updates"},
    {TRAIT_BUFFERS, "its clients begin from versions of different age; take a run in rounds, such as fedavg"},
    {TRAIT_TRAINER, "the program already is another implementation; export the same run without it"},
    {TRAIT_AGGREGATOR, "the program already is another implementation; export the same run without it"},
    {TRAIT_ATTACKS_UPDATES, "attackers hand in what no client trains; export the same run without it"},
    {TRAIT_ATTACKS_SAMPLES, "attackers train on samples that are not the data set's; export the same run without it"},
    {TRAIT_BLURS, "clients see other samples than the data set's; export the same run without it"},
    {TRAIT_DRIFTS_CLASSES, "clients see other samples than their own; export the same run without it"},
    {TRAIT_DRIFTS_PIXELS, "clients see other samples than the data set's; export the same run without it"},
    {TRAIT_DRIFTS_LABELS, "clients see other labels than the data set's; export the same run without it"},
    {TRAIT_CROPS, "images are cropped by random numbers that are Sounder's own; export the same run without it"},
    {TRAIT_FLIPS, "images are flipped by random numbers that are Sounder's own; export the same run without it"},
    {TRAIT_HIDES_SAMPLES,
     "each step has noise of random numbers that are Sounder's own; export the same run without it"},
    {TRAIT_WEIGHS_CLASSES, "samples count by weights that are not in the files; export the same run without it"},
    {TRAIT_CLUSTERS, "there is no one global model, but several"},
    {TRAIT_PERSONAL, "a part of the model stays with each client, and is not in what it hands in"},
};

// Before the data are read: a run of a program's net has no --model that would fit them.
static Status check_options(const Export *self, Error *err) {
    const Options *options = &self->training;
    Traits traits;
    if (options_noise_key(options) == NOISE_KEY_SYSTEM)
        return fail(err, STATUS_USAGE,
                    "%.200s has no federation to export, because of --noise-key system: its noise does not repeat, and "
                    "the files would tell who was drawn; export the same run without it",
                    self->options.run);
    options_traits(&traits, options);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const Trait trait = refusals[i].trait;
        char rule[TRAIT_RULE_BYTES];
        const char *option = trait_option(trait);
        if (!traits.has[trait]) continue;
        if (option)
            return fail(err, STATUS_USAGE, "%.200s has no federation to export, because of --%s: %s", self->options.run,
                        option, refusals[i].why);
        return fail(err, STATUS_USAGE, "%.200s has no federation to export, because of %s of --algorithm %.60s: %s",
                    self->options.run, trait_rule(rule, trait, &options->recipe), options->algorithm, refusals[i].why);
    }
    return STATUS_OK;
}

static Status check_net(const Export *self, const Spec *spec, Error *err) {
    if (spec->one_vs_rest || spec->label_rows)
        return fail(err, STATUS_USAGE,
                    "%.200s has no federation to export, because of %s: its files know cross-entropy of one label per "
                    "sample alone",
                    self->options.run, spec->label_rows ? "samples with several labels each" : "--loss bce");
    for (int i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].rate > 0 && spec->layers[i].kind == LAYER_DROPOUT)
            return fail(err, STATUS_USAGE,
                        "%.200s has no federation to export, because of dropout in --model: it "
                        "drops by random numbers that are Sounder's own; export a run without it",
                        self->options.run);
    return STATUS_OK;
}

static Status set_up(Export *self, char net[SPEC_TEXT_BYTES], Error *err) {
    Options *options = &self->training;
    RunRecord past, now;
    DatasetSource source;
    RunModel model = {0};
    const RunDevice device = {0};
    const RunFolder folder = {.lock_fd = -1, .checkpoints_fd = -1}; // clients' states are in memory
    Nodes nodes = {.size = 1};
    options_defaults(options);
    snprintf(options->resume, sizeof options->resume, "%.2000s", self->options.run);
    TRY(run_read_saved_options(options, &past, err));
    options->device = DEVICE_CPU;
    options->workers = 0;
    options->rounds = options->rounds > (int)self->rounds ? options->rounds : (int)self->rounds;
    options->records_updates = true;
    for (int i = 0; i < option_count; i++) // options of a GPU do not apply here
        if (!option_applies(options, &option_table[i])) options->given[i] = false;
    TRY(options_resolve(options, err));
    TRY(check_options(self, err));
    TRY(run_load_data(&self->memory, &source, NULL, options, err));
    self->loaded = true;
    run_record_fill(&now, options, &self->memory, run_hash_data(&self->memory.data), kernels_best()->name, "");
    TRY(run_record_same_inputs(&past, &now, self->options.run, err));
    TRY(run_read_model(&model, options, &self->memory.data, err));
    TRY(check_net(self, &model.spec, err));
    snprintf(net, SPEC_TEXT_BYTES, "%s", model.about.text);
    TRY(run_create_memory(&self->memory, options, &model, &device, &folder, &nodes, err));
    TRY(run_noise_key_begin(&self->memory, options, &now, err));
    self->begun = malloc(self->memory.config->parameters * sizeof *self->begun);
    return self->begun ? STATUS_OK : fail(err, STATUS_OS, "no memory for a model");
}

// The folder ----------------------------------------------------------------------------------------------------------

// Whether an export writes files of this name.
static bool is_own(const char *name) {
    unsigned round;
    int end = 0;
    if (sscanf(name, "round-%6u.npz%n", &round, &end) == 1 && end > 0 && !name[end]) return true;
    return strcmp(name, "data.npz") == 0 || strcmp(name, "partition.npz") == 0 ||
           strcmp(name, FEDERATION_PARTIAL_NAME) == 0;
}

// Removes the files of an export that was killed, whose settings have another name than those of a whole one.
static Status check_empty(const char *path, Error *err) {
    DIR *folder = opendir(path);
    bool empty = true;
    if (!folder) return fail_errno(err, STATUS_CANTCREATE, "%.500s cannot be opened", path);
    const bool is_partial = faccessat(dirfd(folder), FEDERATION_PARTIAL_NAME, F_OK, 0) == 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const bool is_folder = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        const bool is_left = is_partial && is_own(entry->d_name);
        empty &= is_folder || (is_left && unlinkat(dirfd(folder), entry->d_name, 0) == 0);
    }
    closedir(folder);
    return empty ? STATUS_OK
                 : fail(err, STATUS_CANTCREATE, "--federation %.500s: has files already; name a new folder", path);
}

// Says what will be written before it is: the files grow with rounds, clients and weights.
static Status make_folder(const Export *self, Error *err) {
    const char *path = self->options.federation;
    struct statvfs disk;
    double largest;
    const double bytes = federation_files_bytes(&largest, &self->memory, self->rounds);
    const bool exists = mkdir(path, 0777) != 0 && errno == EEXIST;
    if (exists) TRY(check_empty(path, err));
    if (statvfs(path, &disk) != 0)
        return fail_errno(err, STATUS_CANTCREATE, "--federation %.500s cannot be made", path);
    const double available = (double)disk.f_bavail * (double)disk.f_frsize;
    Status status = STATUS_OK;
    if (largest > NPZ_MOST_BYTES)
        status = fail(err, STATUS_USAGE,
                      "--federation: a file of %.1f GB, where 4 GB are the most; export a run with "
                      "fewer --clients-per-round or a smaller --model",
                      largest / 1e9);
    else if (bytes > available)
        status = fail(err, STATUS_IO,
                      "--federation %.500s: %u rounds take up to %.1f MB, where %.1f MB are free; take "
                      "fewer --rounds or another folder",
                      path, self->rounds, bytes / 1e6, available / 1e6);
    if (status != STATUS_OK && !exists) rmdir(path);
    if (status == STATUS_OK)
        printf("%u round%s, at most %.0f bytes (%.1f MB)  ->  %s\n", self->rounds, self->rounds == 1 ? "" : "s", bytes,
               bytes / 1e6, path);
    fflush(stdout);
    return status;
}

// Rounds --------------------------------------------------------------------------------------------------------------

// A run on a GPU, or with another instruction set, has other last bits: then the files are those of the repetition.
static void compare(bool *told, const Export *self, uint32_t round) {
    char model[HASH_TEXT_BYTES];
    const char *noted = self->models[round - 1];
    write_hash(model, XXH3_64bits(self->memory.weights, self->memory.config->parameters * sizeof(float)));
    if (*told || !*noted || strcmp(noted, model) == 0) return;
    *told = true;
    log_warning(
        "round %u has other bits than in %.200s, which trained %s; the files hold the federation as %s computes "
        "it",
        round, self->options.run, self->on_gpu ? "on a GPU" : "with another version or processor",
        kernels_best()->name);
}

static Status train_round(Export *self, Rounds *rounds, uint32_t round, Error *err) {
    RunMemory *memory = &self->memory;
    const size_t bytes = memory->config->parameters * sizeof(float);
    RoundReport report;
    memcpy(self->begun, memory->weights, bytes);
    TRY(rounds_draw(rounds, round, err));
    const bool moved = memcmp(self->begun, memory->weights, bytes) != 0; // a server rule sends another vector
    memcpy(self->begun, memory->weights, bytes);
    TRY(rounds_train(rounds, round, &report, err));
    TRY(federation_files_round(memory, moved ? self->begun : NULL, &rounds->cohort, round, self->options.federation,
                               err));
    return rounds_conclude(rounds, &report, err);
}

static Status train_rounds(Export *self, Nodes *nodes, int *exit_code, Error *err) {
    RoundsConfig config = {.phases = {.memory = &self->memory,
                                      .worker_arguments = worker_arguments,
                                      .hang_seconds = self->training.hang_seconds},
                           .backend = &parent_on_cpu,
                           .clients_per_round = (uint32_t)self->training.clients_per_round,
                           .nodes = nodes};
    Rounds *rounds = calloc(1, sizeof *rounds);
    bool differs = false;
    if (!rounds) return fail(err, STATUS_OS, "no memory");
    Status status = rounds_init(rounds, &config, err);
    const bool started = status == STATUS_OK;
    for (uint32_t round = 1; status == STATUS_OK && round <= self->rounds; round++) {
        status = train_round(self, rounds, round, err);
        if (status == STATUS_OK) compare(&differs, self, round);
        if (supervisor_interrupts(&rounds->phases.supervisor) == 0) continue;
        *exit_code = 128 + rounds->phases.supervisor.last_signal;
        break;
    }
    if (status == STATUS_OK && *exit_code == 0) status = federation_files_end(self->options.federation, err);
    if (*exit_code) printf("stopped by a signal: the federation in %s is incomplete\n", self->options.federation);
    if (status == STATUS_OK && *exit_code == 0 && !differs)
        printf("the model of every round is the run's, to the bit\n");
    if (started) rounds_free(rounds);
    free(rounds);
    return status;
}

static Status export_federation(Export *self, int *exit_code, Error *err) {
    char net[SPEC_TEXT_BYTES];
    Nodes nodes = {.size = 1};
    TRY(read_record(self, err));
    TRY(set_up(self, net, err));
    TRY(make_folder(self, err));
    TRY(federation_files_begin(&self->training, &self->memory, net, self->rounds, self->options.federation, err));
    return train_rounds(self, &nodes, exit_code, err);
}

static Status export_client(const ExportOptions *options, Error *err) {
    ClientModel *model = calloc(1, sizeof *model);
    if (!model) return fail(err, STATUS_OS, "no memory for the options of a run");
    Status status = client_model_open(model, options->run, options->client, err);
    if (status == STATUS_OK) status = client_model_write(model, options->out, err);
    if (status == STATUS_OK) status = client_model_tell(model, false, err);
    client_model_close(model);
    free(model);
    return status;
}

static Status export_asked(Export *self, int *exit_code, Error *err) {
    const ExportOptions *options = &self->options;
    if (options->client[0]) return export_client(options, err);
    if (options->peft[0] || options->flower[0]) TRY(run_trust_programs(options->run, false, err));
    if (options->peft[0]) return export_program(options->run, "peft", options->peft, err);
    if (options->flower[0]) return export_flower(options->run, options->flower, err);
    return export_federation(self, exit_code, err);
}

Status command_export(int argc, char **argv, int *exit_code, Error *err) {
    Export *self = calloc(1, sizeof *self);
    if (!self) return fail(err, STATUS_OS, "no memory");
    Status status = parse(&self->options, argc, argv, err);
    if (status == STATUS_OK) status = export_asked(self, exit_code, err);
    if (self->loaded) run_memory_free(&self->memory);
    free(self->models);
    free(self->begun);
    free(self);
    return status == STATUS_CANCELLED ? STATUS_OK : status;
}
