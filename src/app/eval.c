// Part of commands.h: `sounder eval MODEL.safetensors|RUN [--data D] [--model M]` computes loss and accuracy of a saved
// model, in one process.
#include "app/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/client_model.h"
#include "app/eval_outcome.h"
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/train/data_model.h"
#include "app/train/model_file.h"
#include "app/train/predictions.h"
#include "app/train/run_device.h"
#include "app/train/run_folder.h"
#include "app/train/run_record.h"
#include "app/train/run_set_up.h"
#include "app/train/trainer_eval.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/settings.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/memory/dataset_segment.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "nn/net.h"
#include "nn/spec.h"

// The file's notes name the net; --model is for files from other programs.
static Status find_net(Spec *spec, const Safetensors *file, const char *path, const Options *options,
                       const Dataset *data, Error *err) {
    char text[SPEC_TEXT_BYTES], word[SHELL_WORD_BYTES];
    const char *note = safetensors_note(file, "sounder.model");
    bool given = options_given(options, "model");
    if (!note && !given) return fail(err, STATUS_USAGE, "%s does not say which net it is; name it with --model", path);
    if (note && strncmp(note, "trainer ", 8) == 0)
        return fail(err, STATUS_USAGE,
                    "%s was trained by a program, which alone knows the net; name it with --trainer %s", path,
                    shell_word(word, note + 8));
    zoo_expand(text, sizeof text, given ? options->model : note, data->classes);
    const char *input = safetensors_note(file, "sounder.input");
    const bool is_text = input && strchr(input, 'x') && data->items.vocabulary > 0;
    char shape[48];
    snprintf(shape, sizeof shape, "%dx%dx%d", data->shape.channels, data->shape.rows, data->shape.columns);
    if (input && strcmp(input, shape) != 0)
        return fail(err, STATUS_USAGE, "%s was trained on samples of %s, but those of --data %s are %s%s%.8s%s", path,
                    input, options->data, shape, is_text ? "; say length=" : "", is_text ? strrchr(input, 'x') + 1 : "",
                    is_text ? " in --data" : "");
    const char *classes = safetensors_note(file, "sounder.classes");
    snprintf(shape, sizeof shape, "%d", data->classes);
    if (classes && strcmp(classes, shape) != 0)
        return fail(err, STATUS_USAGE, "%s was trained for %.32s classes, but --data %s has %s", path, classes,
                    options->data, shape);
    return spec_parse(spec, text, data->shape, data->classes, err);
}

static Status read_model(Spec *spec, float **parameters, const Safetensors *file, const char *path,
                         const Options *options, const Dataset *data, Error *err) {
    TRY(find_net(spec, file, path, options, data, err));
    *parameters = aligned_alloc(64, (spec->parameter_count * sizeof **parameters + 63) / 64 * 64);
    if (!*parameters) return fail(err, STATUS_OS, "no memory for %zu parameters", spec->parameter_count);
    const TensorList list = spec_tensors(spec);
    const Status status = model_load_alone(*parameters, &list, file, path, err);
    if (status != STATUS_OK) free(*parameters);
    return status;
}

// The model file to evaluate, the data, and whether these must be the data it was trained on.
typedef struct Subject {
    char path[RUN_PATH_BYTES];    // path of the model's file
    bool is_own_data;             // the user named no other data
    bool is_noted_data;           // a note in the model's file names the data
    uint32_t round;               // last one of the run; 0 if a model's file was named
    Chosen attack;                // attack of the run; none if a model's file was named
    const DatasetSegment *memory; // segment that holds the data; borrowed
} Subject;

// Finds the model in a run's folder; data and seed come from its config.yaml.
static Status find_in_run(Subject *subject, Options *options, const char *folder, Error *err) {
    Options saved;
    char word[SHELL_WORD_BYTES];
    if (snprintf(subject->path, sizeof subject->path, "%s/model.safetensors", folder) >= RUN_PATH_BYTES)
        return fail(err, STATUS_USAGE, "the path of the run is too long: %.200s...", folder);
    options_defaults(&saved);
    TRY(options_read_run(&saved, folder, err));
    if (access(subject->path, F_OK) != 0)
        return fail(err, STATUS_NOINPUT,
                    "%.200s has no model.safetensors, which a run writes at its end; finish it with sounder train "
                    "--resume %s, or give one of its checkpoints",
                    folder, shell_path(word, folder));
    if (saved.attack[0]) TRY(attack_parse(&subject->attack, saved.attack, err));
    if (subject->is_own_data) snprintf(options->data, sizeof options->data, "%s", saved.data);
    if (!options_given(options, "seed")) options->seed = saved.seed;
    if (!options_given(options, "loss")) options->loss = saved.loss;
    const bool by_trainer = saved.trainer[0] || options->trainer[0];
    return by_trainer ? trainer_eval_options(options, &subject->round, &saved, folder, err) : STATUS_OK;
}

// The note has only the last part of a path: the data may also be in the model's folder.
static Status take_noted_data(Options *options, const Subject *subject, const char *data, Error *err) {
    char place[RUN_PATH_BYTES], beside[RUN_PATH_BYTES], text[OPTION_TEXT_BYTES];
    const char *slash = strrchr(subject->path, '/');
    const int folder = slash ? (int)(slash - subject->path) + 1 : 0;
    snprintf(place, sizeof place, "%.*s", (int)settings_place_bytes(data), data);
    const bool fits = snprintf(beside, sizeof beside, "%.*s%s", folder, subject->path, place) < RUN_PATH_BYTES;
    const bool is_beside = fits && access(place, F_OK) != 0 && access(beside, F_OK) == 0 &&
                           settings_replace(text, sizeof text, beside, data);
    return option_set(options, option_find("data"), is_beside ? text : data, "the model's sounder.", err);
}

// Takes data, loss and seed from the notes of a model's file.
static Status find_in_notes(Subject *subject, Options *options, const Safetensors *file, Error *err) {
    static const char *const names[] = {"loss", "seed"};
    const char *data = safetensors_note(file, "sounder.data");
    if (subject->is_own_data && !data)
        return fail(err, STATUS_USAGE, "%s does not say on which data it was trained; name them with --data",
                    subject->path);
    subject->is_noted_data = subject->is_own_data;
    if (subject->is_own_data) TRY(take_noted_data(options, subject, data, err));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[32];
        snprintf(key, sizeof key, "sounder.%s", names[i]);
        const char *note = safetensors_note(file, key);
        if (note && !options_given(options, names[i]))
            TRY(option_set(options, option_find(names[i]), note, "the model's sounder.", err));
    }
    return STATUS_OK;
}

static Status find_subject(Subject *subject, Safetensors *file, Options *options, const char *path, Error *err) {
    struct stat about;
    const bool is_run = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    subject->is_own_data = !options_given(options, "data");
    snprintf(subject->path, sizeof subject->path, "%s", path);
    if (is_run) TRY(find_in_run(subject, options, path, err));
    TRY(model_open(file, subject->path, err));
    Status status = is_run ? STATUS_OK : find_in_notes(subject, options, file, err);
    if (status != STATUS_OK) safetensors_close(file);
    return status;
}

static Status check_data(const Subject *subject, const Safetensors *file, const Options *options, const Dataset *data,
                         Error *err) {
    char hash[HASH_TEXT_BYTES];
    const char *note = safetensors_note(file, "sounder.data_xxh3");
    if (!subject->is_own_data || !note) return STATUS_OK;
    write_hash(hash, run_hash_data(data));
    if (strcmp(note, hash) == 0) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s was trained on other data than %s is now (XXH3 %.16s then, %s now); name what to evaluate it on "
                "with --data",
                subject->path, options->data, note, hash);
}

// Texts are numbered by the model's vocabulary; tokens in arrays, and those of a model without one, cannot be checked.
static void doubt_numbers(const Subject *subject, const Safetensors *file, const Options *options, const Dataset *data,
                          const Spec *spec) {
    char hash[HASH_TEXT_BYTES];
    const char *note = safetensors_note(file, "sounder.data_xxh3");
    write_hash(hash, run_hash_data(data));
    const bool is_named = safetensors_note(file, "sounder.vocabulary") != NULL;
    if (spec->layers[0].vocabulary == 0 || (is_named && data->items.vocabulary > 0) || !note || strcmp(note, hash) == 0)
        return;
    log_warning(
        "--data %s: its characters, or tokens, must have the numbers that they had when %s was trained, or these "
        "figures mean nothing; %s not name them, so that this cannot be checked",
        options->data, subject->path, is_named ? "these data do" : "the model does");
}

static Batch test_batch(const Dataset *data, uint32_t first) {
    const uint32_t left = data->test.count - first;
    return (Batch){.pixels = data->test.pixels,
                   .labels = data->test.labels,
                   .first = first,
                   .count = left < EVALUATION_CHUNK ? left : EVALUATION_CHUNK,
                   .scale = data->scale,
                   .shift = data->shift};
}

static Status evaluate_on_cpu(BatchResult *sum, Answer *answers, float *logits, const float *parameters,
                              const Spec *spec, const Dataset *data, Error *err) {
    Net net;
    TRY(net_init(&net, spec, kernels_best(), err));
    *sum = (BatchResult){0};
    for (uint32_t first = 0; first < data->test.count; first += EVALUATION_CHUNK) {
        const Batch batch = test_batch(data, first);
        BatchResult result;
        net.answers = answers + first * spec_answers(spec);
        net_evaluate(&net, &result, parameters, &batch);
        sum->loss_sum += result.loss_sum;
        sum->hits += result.hits;
        if (logits) net_logits(&net, logits + (size_t)first * (size_t)spec->classes, parameters, &batch);
    }
    net_free(&net);
    return STATUS_OK;
}

static Status evaluate_on_gpu(BatchResult *sum, Answer *answers, float *logits, const float *parameters,
                              const Spec *spec, const Dataset *data, bool tf32, Error *err) {
    const uint32_t count = data->test.count;
    float *all = logits ? logits : malloc((size_t)count * (size_t)spec->classes * sizeof *all);
    if (!all) return fail(err, STATUS_OS, "no memory for the logits of %u samples", count);
    const Status status = gpu_evaluate(sum, all, parameters, spec, data, tf32, err);
    if (status == STATUS_OK) net_answers_of(answers, all, data->test.labels, count, spec);
    if (!logits) free(all);
    return status;
}

// answers (test samples); logits (test samples, classes): NULL if unused.
static Status compute(BatchResult *sum, Answer *answers, float *logits, const float *parameters, const Spec *spec,
                      const Dataset *data, const Options *options, RunDevice *device, Error *err) {
    if (device->on_gpu) {
        const Status status = evaluate_on_gpu(sum, answers, logits, parameters, spec, data, options->tf32, err);
        if (status == STATUS_OK || !run_device_give_up(device, options, err)) return status;
        run_device_close(device, false);
    }
    return evaluate_on_cpu(sum, answers, logits, parameters, spec, data, err);
}

static Status evaluate_backdoor(Outcome *outcome, const float *parameters, const Spec *spec, const Dataset *data,
                                const Chosen *attack, Error *err) {
    Net net;
    Spec marking = *spec;
    uint32_t others[EVALUATION_CHUNK];
    marking.trigger = (uint32_t)attack->number[BACKDOOR_SIZE];
    TRY(net_init(&net, &marking, kernels_best(), err));
    for (uint32_t first = 0; first < data->test.count; first += EVALUATION_CHUNK) {
        Batch batch = test_batch(data, first);
        BatchResult result;
        batch.count = batch.triggered = attack_others(others, data->test.labels, first, batch.count, attack);
        batch.indices = others;
        batch.trigger_label = (uint16_t)attack->number[BACKDOOR_TARGET];
        if (batch.count == 0) continue;
        net_evaluate(&net, &result, parameters, &batch);
        outcome->marked += batch.count;
        outcome->marked_hits += result.hits;
    }
    net_free(&net);
    return STATUS_OK;
}

// Whether the user wants to know the classes that the net confuses.
static bool wants_confusion(const Options *options) {
    return options->confusion || options->confusion_file[0];
}

// Whether the user wants the net's output for each sample.
static bool wants_answers(const Options *options) {
    return wants_confusion(options) || options->predictions[0];
}

static Status tell(Outcome *outcome, const Predictions *predictions, const Subject *subject, const Dataset *data,
                   const Options *options, const RunDevice *device, Error *err) {
    TRY(outcome_measure(outcome, data, err));
    TRY(dataset_segment_check(subject->memory, err));
    return outcome_tell(outcome, predictions, subject->path, data, options, device, err);
}

static Status evaluate(const float *parameters, const Spec *spec, const Subject *subject, const Dataset *data,
                       const Options *options, RunDevice *device, Error *err) {
    uint64_t start = clock_nanoseconds();
    Outcome outcome = {.judged = true};
    Predictions predictions = {0};
    if (wants_answers(options)) TRY(predictions_init(&predictions, data, spec->classes, wants_confusion(options), err));
    predictions.one_vs_rest = spec->one_vs_rest;
    outcome.answers = malloc(data->test.count * spec_answers(spec) * sizeof *outcome.answers);
    Status status = outcome.answers ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u answers", data->test.count);
    if (status == STATUS_OK)
        status =
            compute(&outcome.test, outcome.answers, predictions.logits, parameters, spec, data, options, device, err);
    if (status == STATUS_OK && subject->attack.row == ATTACK_BACKDOOR && !spec->float_input)
        status = evaluate_backdoor(&outcome, parameters, spec, data, &subject->attack, err);
    outcome.seconds = clock_seconds_since(start);
    if (status == STATUS_OK) status = tell(&outcome, &predictions, subject, data, options, device, err);
    predictions_free(&predictions);
    outcome_free(&outcome);
    TRY(status);
    const char *why_not = run_device_why_not(device, options);
    if (why_not) log_info("evaluated on the CPU, for %s", why_not);
    return STATUS_OK;
}

static Status evaluate_by_trainer(const Safetensors *file, const Subject *subject, const Options *options,
                                  const Dataset *data, Error *err) {
    const RunDevice device = {0};
    const uint64_t start = clock_nanoseconds();
    Predictions predictions = {0};
    if (dataset_has_rows(&data->items))
        return fail(err, STATUS_USAGE,
                    "--trainer: the samples of %.64s have several labels each, which a trainer is not given",
                    data->name);
    if (options->device == DEVICE_CUDA)
        return fail(err, STATUS_USAGE, "--device cuda: a trainer chooses its device itself; leave it out");
    if (subject->attack.row == ATTACK_BACKDOOR)
        log_warning("attack success is not computed with a trainer; attack_success in the run's metrics.jsonl has it");
    if (wants_answers(options)) TRY(predictions_init(&predictions, data, data->classes, wants_confusion(options), err));
    TrainerTest test = {.answers = predictions.logits};
    Status status = trainer_eval(&test, file, subject->path, options, subject->round, subject->memory, data, err);
    Outcome outcome = {
        .test = test.sum, .judged = test.unjudged == 0, .metrics = test.metrics, .seconds = clock_seconds_since(start)};
    if (status == STATUS_OK && predictions.logits) {
        outcome.answers = malloc(data->test.count * sizeof *outcome.answers);
        status = outcome.answers ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u answers", data->test.count);
    }
    if (status == STATUS_OK && outcome.answers)
        answers_of_logits(outcome.answers, predictions.logits, data->test.labels, data->test.count,
                          dataset_has_targets(&data->items) ? 0 : data->classes);
    if (status == STATUS_OK) status = tell(&outcome, &predictions, subject, data, options, &device, err);
    predictions_free(&predictions);
    outcome_free(&outcome);
    return status;
}

static Status evaluate_file(const Safetensors *file, const Subject *subject, const Options *options,
                            const Dataset *data, Error *err) {
    Spec spec;
    RunDevice device = {0};
    float *parameters;
    if (options->trainer[0]) return evaluate_by_trainer(file, subject, options, data, err);
    TRY(run_check_samples(data, err));
    TRY(read_model(&spec, &parameters, file, subject->path, options, data, err));
    if (!subject->is_own_data) doubt_numbers(subject, file, options, data, &spec);
    spec.float_input = data->items.pixel_bytes > 1;
    spec.squared_loss = dataset_has_numbers(&data->items);
    spec.label_rows = dataset_has_rows(&data->items);
    spec.one_vs_rest = options->loss == LOSS_BCE && !dataset_has_targets(&data->items);
    Status status = run_device_open(&device, options, NULL, err);
    if (status == STATUS_OK) {
        status = evaluate(parameters, &spec, subject, data, options, &device, err);
        run_device_close(&device, false);
    }
    free(parameters);
    return status;
}

// Other data than the model's own enter the net as its training samples did. Own texts are numbered by it, too, for the
// run may have begun from a model that has more characters.
static Status find_data(DatasetSource *source, const DatasetModel *model, const Subject *subject,
                        const Options *options, Error *err) {
    const Status status = dataset_find_for(source, options->data, options->seed,
                                           subject->is_own_data && !model->are_tokens ? NULL : model, err);
    if (status != STATUS_NOINPUT || !subject->is_noted_data) return status;
    const Error why = *err;
    return fail(err, status, "%s was trained on %s, which is neither here nor beside it; name it with --data: %s",
                subject->path, options->data, why.message);
}

// The run names the data, and its workers' function makes the test.
static Status evaluate_client(const Options *options, const char *path, Error *err) {
    static const char *const with[] = {"client", "json", "log-level", NULL};
    for (int i = 0; i < option_count; i++) {
        bool goes = !options->given[i];
        for (size_t k = 0; with[k]; k++)
            goes |= strcmp(option_table[i].name, with[k]) == 0;
        if (!goes)
            return fail(
                err, STATUS_USAGE,
                "--client %d does not go with --%s: it is tested as the run tests it; sounder export RUN --client "
                "%d writes its model, which eval takes with all options",
                options->client, option_table[i].name, options->client);
    }
    ClientModel *model = calloc(1, sizeof *model);
    if (!model) return fail(err, STATUS_OS, "no memory for the options of a run");
    Status status = client_model_open(model, path, (uint32_t)options->client, err);
    if (status == STATUS_OK) status = client_model_tell(model, options->json, err);
    client_model_close(model);
    free(model);
    return status;
}

Status command_eval(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    Options options;
    DatasetSource source;
    DatasetModel model = {0};
    Safetensors file;
    DatasetSegment memory;
    Subject subject = {.memory = &memory};
    const char *path;
    options_defaults(&options);
    TRY(options_parse_eval(&options, &path, argc, argv, err));
    log_init((LogLevel)options.log_level, LOG_RANK_PARENT);
    if (options_given(&options, "client")) return evaluate_client(&options, path, err);
    TRY(find_subject(&subject, &file, &options, path, err));
    Status status;
    Dataset data;
    TRY_GOTO(close, subject.is_own_data ? data_model_read_vocabulary(&model, &file, subject.path, err)
                                        : data_model_read(&model, &file, subject.path, err));
    TRY_GOTO(close, find_data(&source, &model, &subject, &options, err));
    TRY_GOTO(close, dataset_segment_load(&memory, &source, err));
    TRY_GOTO(free, dataset_segment_view(&data, &memory, err));
    TRY_GOTO(free, check_data(&subject, &file, &options, &data, err));
    TRY_GOTO(free, evaluate_file(&file, &subject, &options, &data, err));
    dataset_segment_keep(&memory, &source);
free:
    dataset_segment_free(&memory);
close:
    data_model_free(&model);
    safetensors_close(&file);
    return status;
}
