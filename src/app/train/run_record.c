#include "run_record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "app/options/run_target.h"
#include "app/train/run_identity.h"
#include "base/log.h"
#include "base/text.h"
#include "base/text_stream.h"
#include "fedavg/memory/fingerprint.h"
#include "nn/kernels.h"

static uint64_t hash_split(const DatasetSplit *split, const Dataset *data, uint64_t seed) {
    uint64_t hash = XXH3_64bits_withSeed(split->pixels, dataset_sample_bytes(data, split), seed);
    return XXH3_64bits_withSeed(split->labels, split->count * (size_t)data->items.label_bytes, hash);
}

uint64_t run_hash_data(const Dataset *data) {
    return hash_split(&data->test, data, hash_split(&data->train, data, 0));
}

uint64_t run_hash_partition(const RunMemory *memory) {
    return XXH3_64bits(memory->partition_segment.memory, memory->partition_segment.bytes);
}

// Files that the run has read are in memory; others are read for their hash. The run itself refuses an unreadable one.
static void fill_inputs(RunRecord *record, const Options *options, const RunMemory *memory) {
    static const RunInputKind files[] = {INPUT_PARTITION_FILE, INPUT_INIT};
    static const struct {
        RunInputKind kind;
        WorldFile file;
    } world[] = {{INPUT_CLIENT_TIME, WORLD_PACES},
                 {INPUT_AVAILABILITY, WORLD_PRESENCES},
                 {INPUT_CLIENT_WEIGHTS, WORLD_WEIGHTS},
                 {INPUT_RECORDING, WORLD_RECORDING}};
    char source[INPUT_SOURCE_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const RunInput *input = &run_inputs[files[i]];
        Error ignored;
        uint64_t hash;
        if (*run_input_source(source, input, options) && input->hash(&hash, options, NULL, &ignored) == STATUS_OK)
            write_hash(record->inputs[files[i]], hash);
    }
    for (size_t i = 0; i < sizeof world / sizeof *world; i++)
        if (*run_input_source(source, &run_inputs[world[i].kind], options))
            write_hash(record->inputs[world[i].kind], world_file_hash(&memory->world_files, world[i].file));
}

void run_record_fill(RunRecord *record, const Options *options, const RunMemory *memory, uint64_t data,
                     const char *device, const char *blas) {
    uint64_t partition = run_hash_partition(memory);
    *record =
        (RunRecord){.clients = options->clients,
                    .clients_per_round = options->clients_per_round,
                    .checkpoint_every = options->checkpoint_every,
                    .loss = dataset_has_rows(&memory->data.items) || options->loss == LOSS_BCE ? "binary cross-entropy"
                            : dataset_has_numbers(&memory->data.items)                         ? "mean square"
                            : options->trainer[0]                                              ? "trainer's"
                                                                                               : "cross-entropy",
                    .figure = run_figure_of(options, dataset_has_numbers(&memory->data.items))};
    snprintf(record->device, sizeof record->device, "%s", device);
    snprintf(record->blas, sizeof record->blas, "%s", blas);
    write_hash(record->inputs[INPUT_DATA], data);
    write_hash(record->inputs[INPUT_PARTITION], partition);
    fill_inputs(record, options, memory);
    const uint64_t read = data ^ partition ^ world_files_hash(&memory->world_files);
    write_hash(record->identity, run_hash_options(options, read));
}

void run_record_program(RunRecord *record, const TrainerProgram *program) {
    write_hash(record->inputs[INPUT_TRAINER], program->files);
    snprintf(record->inputs[INPUT_TRAINER_STAYS], INPUT_TOLD_BYTES, "%s", program->stays[0] ? program->stays : "none");
    snprintf(record->inputs[INPUT_TRAINER_VERSIONS], INPUT_TOLD_BYTES, "%s", program->versions);
    record->stays_tensors = program->stays_tensors;
    record->stays_floats = program->stays_floats;
}

static uint64_t read_hash(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? strtoull(text, NULL, 16) : 0;
}

static TrainerWitness read_witness(const json_t *start) {
    const json_t *told = json_object_get(start, "trainer_witness"), *loss = json_object_get(told, "loss");
    return (TrainerWitness){.told = json_is_object(told),
                            .first = read_hash(told, "first"),
                            .weights = read_hash(told, "weights"),
                            .files = read_hash(told, "files"),
                            .loss = json_is_number(loss) ? json_number_value(loss) : (double)NAN};
}

static void put_witness(JsonObject *line, const TrainerWitness *witness) {
    char first[HASH_TEXT_BYTES], weights[HASH_TEXT_BYTES];
    JsonObject told;
    if (!witness->told) return;
    write_hash(first, witness->first);
    write_hash(weights, witness->weights);
    json_begin(&told);
    put_text(&told, "first", first);
    put_text(&told, "weights", weights);
    write_hash(weights, witness->files);
    if (witness->files != 0) put_text(&told, "files", weights);
    put_real(&told, "loss", witness->loss);
    put_object(line, "trainer_witness", &told);
}

// A user may have edited the file, so any key may have any type.
static void read_text(char *text, size_t bytes, const json_t *start, const char *key) {
    const char *value = json_string_value(json_object_get(start, key));
    snprintf(text, bytes, "%s", value ? value : "");
}

void run_record_read_program(RunRecord *record, const json_t *start) {
    for (int i = 0; i < RUN_INPUTS; i++)
        if (strcmp(run_inputs[i].option, "trainer") == 0)
            read_text(record->inputs[i], INPUT_TOLD_BYTES, start, run_inputs[i].trait.name);
}

static int read_count(const json_t *start, const char *key) {
    json_int_t value = json_integer_value(json_object_get(start, key));
    return value > 0 && value <= 1000000 ? (int)value : 0;
}

Status run_record_read(RunRecord *past, const RunFolder *folder, Error *err) {
    const Folder place = run_folder_at(folder);
    MetricsPast told;
    *past = (RunRecord){0};
    TRY(metrics_past(&told, &place, err));
    const json_t *start = told.start;
    past->rounds_told = told.round;
    past->summed_up = (uint32_t)read_count(told.summary, "rounds");
    read_text(past->model, sizeof past->model, told.summary, "model_sha256");
    read_text(past->device, sizeof past->device, start, "device");
    read_text(past->blas, sizeof past->blas, start, "blas");
    for (int i = 0; i < RUN_INPUTS; i++)
        read_text(past->inputs[i], INPUT_TOLD_BYTES, start, run_inputs[i].trait.name);
    read_text(past->identity, sizeof past->identity, start, "run_xxh3");
    read_text(past->hash_seed, sizeof past->hash_seed, start, "hash_seed");
    past->witness = read_witness(start);
    read_text(past->trainer_folder, sizeof past->trainer_folder, start, "trainer_folder");
    read_text(past->aggregator_folder, sizeof past->aggregator_folder, start, "aggregator_folder");
    past->rounds_done = (uint32_t)read_count(start, "rounds_done");
    past->clients = read_count(start, "clients");
    past->clients_per_round = read_count(start, "clients_per_round");
    past->checkpoint_every = read_count(start, "checkpoint_every");
    metrics_past_free(&told);
    return STATUS_OK;
}

static double read_number(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static Status note_kept(void *context, json_t *line, Error *err) {
    (void)err;
    RunKept *kept = context;
    const json_int_t round = json_integer_value(json_object_get(line, "round"));
    if (round <= kept->last) return STATUS_OK; // no run wrote a round twice
    kept->rounds++;
    kept->last = (uint32_t)round;
    kept->tested_round = json_is_number(json_object_get(line, "eval_seconds")) ? kept->last : 0;
    kept->seconds = read_number(line, "seconds_total");
    kept->joules = read_number(line, "measured_joules_total");
    kept->workers_lost += (uint32_t)read_count(line, "workers_lost");
    return STATUS_OK;
}

Status run_record_kept(RunKept *kept, const RunFolder *folder, uint32_t rounds_done, Error *err) {
    static const char *const types[] = {"round", NULL};
    const Folder place = run_folder_at(folder);
    *kept = (RunKept){0};
    TRY(metrics_visit(&place, types, note_kept, kept, err));
    if (kept->last != rounds_done) kept->seconds = kept->joules = NAN;
    if (kept->rounds < rounds_done)
        log_warning("%s/metrics.jsonl has only %u of the %u rounds that the checkpoint has: its end was lost, as in a "
                    "power failure; the model goes on from round %u, but tables and curves lack the others",
                    folder->path, kept->rounds, rounds_done, rounds_done);
    return STATUS_OK;
}

bool run_record_has_result(const RunRecord *past, const RunFolder *folder, uint32_t rounds) {
    const Folder place = run_folder_at(folder);
    return past->summed_up == rounds && file_has_sha256(&place, MODEL_NAME, past->model);
}

void run_record_keep_init(RunRecord *now, const RunRecord *past) {
    memcpy(now->inputs[INPUT_INIT], past->inputs[INPUT_INIT], INPUT_TOLD_BYTES);
}

// A record that was edited may lack it.
bool run_record_input_changed(InputChange *change, const RunRecord *past, const RunRecord *now, RunInputKind kind) {
    *change = (InputChange){.input = &run_inputs[kind]};
    memcpy(change->then, past->inputs[kind], INPUT_TOLD_BYTES);
    memcpy(change->now, now->inputs[kind], INPUT_TOLD_BYTES);
    return change->then[0] && change->now[0] && strcmp(change->then, change->now) != 0;
}

Status run_record_same_inputs(const RunRecord *past, const RunRecord *now, const char *name, Error *err) {
    InputChange change;
    for (int i = 0; i < RUN_INPUTS; i++)
        if (run_record_input_changed(&change, past, now, (RunInputKind)i))
            TRY(run_input_judge(&change, name, name, "", err));
    return STATUS_OK;
}

// A user who names the program again, for a correction that matters or one that does not, has said so.
static Status check_input(const InputChange *change, const Options *options, const char *folder, Error *err) {
    const bool is_trainer = strcmp(change->input->option, "trainer") == 0;
    const char *option = change->input->option;
    char where[RUN_PATH_BYTES + 16], remedy[SHELL_WORD_BYTES + 128], word[SHELL_WORD_BYTES];
    snprintf(where, sizeof where, "--resume %s", folder);
    if (!change->input->is_program)
        return run_input_judge(change, folder, where, ", or begin anew with another --out", err);
    if (is_trainer ? options->trainer_is_named : options->aggregator_is_named) {
        log_warning("%.200s continues with other %s, whose results may differ", folder, change->input->words);
        return STATUS_OK;
    }
    snprintf(remedy, sizeof remedy, ", or name the program again to continue with other bits: --%s %s", option,
             shell_word(word, is_trainer ? options->trainer : options->aggregator));
    return run_input_refuse(change, where, remedy, STATUS_DATA, err);
}

static void warn_of_device(const RunRecord *past, const RunRecord *now, const char *folder) {
    if (!past->device[0]) return;
    if (strcmp(past->device, now->device) == 0) {
        if (strcmp(past->blas, now->blas) != 0)
            log_warning("%s multiplied through %s and goes on with %s, whose results differ in the last bits; for the "
                        "same bits install that one, or set OPENBLAS_CORETYPE or SOUNDER_BLAS as before",
                        folder, past->blas[0] ? past->blas : "no OpenBLAS", now->blas[0] ? now->blas : "none");
        return;
    }
    const bool isa = kernels_is_name(past->device);
    log_warning("%s was computed with %s and goes on with %s, whose results differ in the last bits; for the same bits "
                "%s%s",
                folder, past->device, now->device, isa ? "set --device cpu and SOUNDER_ISA=" : "use --device cuda on ",
                past->device);
}

Status run_record_check(const RunRecord *past, const RunRecord *now, const Options *options, const char *folder,
                        Error *err) {
    InputChange change;
    for (int i = 0; i < RUN_INPUTS; i++)
        if (run_record_input_changed(&change, past, now, (RunInputKind)i))
            TRY(check_input(&change, options, folder, err));
    warn_of_device(past, now, folder);
    return STATUS_OK;
}

Status run_record_check_witness(RunRecord *now, const RunRecord *past, const Options *options, const RunMemory *memory,
                                Error *err) {
    Error why;
    const TrainerPlan *plan = &memory->config->trainer;
    const Status same = trainer_witness_judge(&past->witness, &now->witness, plan, options->trainer_is_named, &why);
    if (!now->witness.told) now->witness = past->witness;
    return same == STATUS_OK ? STATUS_OK : fail(err, same, "%s %.200s: %s", plan->option, plan->command, why.message);
}

static void put_arguments(JsonObject *line, int argc, char *const *argv) {
    JsonObject words;
    json_begin_array(&words);
    for (int i = 0; i < argc; i++)
        put_readable(&words, NULL, argv[i]);
    put_object(line, "argv", &words);
}

// A program of the user's. The folder is the one that relative paths in the command begin from; "": this process's.
static void put_program(JsonObject *line, const char *key, const char *command, const char *folder_key,
                        const char *folder) {
    char *own = folder[0] ? NULL : getcwd(NULL, 0);
    put_readable(line, key, command);
    if (own || folder[0]) put_readable(line, folder_key, own ? own : folder);
    free(own);
}

static void put_trainer(JsonObject *line, const Options *options, const RunRecord *record) {
    put_program(line, "trainer", options->trainer, "trainer_folder", options->trainer_folder);
    if (record->stays_tensors > 0) {
        put_whole(line, "trainer_stays_tensors", (int64_t)record->stays_tensors);
        put_whole(line, "trainer_stays_floats", (int64_t)record->stays_floats);
    }
    put_witness(line, &record->witness);
    if (record->trainer_files) put_value(line, TRAINER_FILES_KEY, json_deep_copy(record->trainer_files));
    if (record->repeats == TRAINER_UNCHECKED)
        put_null(line, "trainer_repeats");
    else
        put_flag(line, "trainer_repeats", record->repeats == TRAINER_REPEATS);
}

Status run_record_write(Metrics *metrics, const RunRecord *record, const Options *options, const ClientNames *names,
                        int argc, char *const *argv, Error *err) {
    char host[256] = "", figure[FIGURE_KEY_BYTES];
    JsonObject line;
    gethostname(host, sizeof host - 1);
    metrics_begin(&line, "start");
    put_whole(&line, "schema", METRICS_SCHEMA);
    put_text(&line, "sounder", SOUNDER_VERSION);
    put_readable(&line, "host", host);
    put_text(&line, "device", record->device);
    put_text(&line, "blas", record->blas);
    put_arguments(&line, argc, argv);
    for (int i = 0; i < RUN_INPUTS; i++)
        if (record->inputs[i][0]) put_text(&line, run_inputs[i].trait.name, record->inputs[i]);
    put_text(&line, "run_xxh3", record->identity);
    put_text(&line, "loss", record->loss);
    run_figure_key(figure, &record->figure);
    put_text(&line, "figure", figure);
    if (run_figure_is_metric(&record->figure)) put_flag(&line, "lower_is_better", record->figure.falls);
    put_whole(&line, "rounds_done", record->rounds_done);
    put_whole(&line, "nodes", options->nodes);
    if (options->trainer[0]) put_trainer(&line, options, record);
    if (options->trainer[0]) put_whole(&line, "tensors", record->tensors);
    if (record->hash_seed[0]) put_text(&line, "hash_seed", record->hash_seed);
    if (options->aggregator[0])
        put_program(&line, "aggregator", options->aggregator, "aggregator_folder", options->aggregator_folder);
    put_whole(&line, "workers", options->workers);
    put_whole(&line, "clients", record->clients);
    put_client_names(&line, names, 1);
    put_whole(&line, "clients_per_round", record->clients_per_round);
    put_whole(&line, "checkpoint_every", record->checkpoint_every);
    return metrics_append(metrics, &line, err);
}

Status run_config_write(const RunFolder *folder, const Options *options, Error *err) {
    TextStream stream;
    FILE *file = text_open(&stream);
    Status status = file ? options_write_yaml(options, file, err) : STATUS_OK;
    if (!text_close(&stream) && status == STATUS_OK) status = fail(err, STATUS_OS, "no memory for config.yaml");
    const Folder place = run_folder_at(folder);
    if (status == STATUS_OK)
        status = durable_write(&place, "config.yaml", &(FilePart){stream.text, stream.bytes}, 1, err);
    free(stream.text);
    return status;
}
