// Part of command.h: `sounder eval MODEL.safetensors|RUN [--data D] [--model M]` computes loss and accuracy of a saved
// model, in one process.
#include "app/command.h"

#include <stdlib.h>
#include <string.h>

#include "app/again/client_model.h"
#include "app/again/eval_outcome.h"
#include "app/again/eval_subject.h"
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/train/data_model.h"
#include "app/train/predictions.h"
#include "app/train/run_device.h"
#include "app/train/run_set_up.h"
#include "app/train/trainer_eval.h"
#include "base/clock.h"
#include "base/log.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/memory/dataset_segment.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "nn/net.h"

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
    uint32_t others[EVALUATION_CHUNK];
    Spec *marking = malloc(sizeof *marking);
    if (!marking) return fail(err, STATUS_OS, "no memory for a net");
    *marking = *spec;
    marking->trigger = (uint32_t)attack->number[BACKDOOR_SIZE];
    const Status status = net_init(&net, marking, kernels_best(), err);
    for (uint32_t first = 0; first < data->test.count && status == STATUS_OK; first += EVALUATION_CHUNK) {
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
    if (status == STATUS_OK) net_free(&net);
    free(marking);
    return status;
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
    Outcome outcome = {.samples = data->test.count, .judged = true};
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
    Status status = trainer_eval(&test, file, subject->path, options, &subject->past, subject->memory, data, err);
    Outcome outcome = {.test = test.sum,
                       .samples = test.samples,
                       .judged = test.unjudged == 0,
                       .metrics = test.metrics,
                       .seconds = clock_seconds_since(start)};
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
    RunDevice device = {0};
    float *parameters = NULL;
    if (options->trainer[0]) return evaluate_by_trainer(file, subject, options, data, err);
    TRY(run_check_samples(data, err));
    Spec *spec = malloc(sizeof *spec); // too large for a small stack
    if (!spec) return fail(err, STATUS_OS, "no memory for a net");
    Status status = subject_read_model(spec, &parameters, subject, file, options, data, err);
    if (status != STATUS_OK) free(spec);
    TRY(status);
    spec->float_input = data->items.pixel_bytes > 1;
    spec->squared_loss = dataset_has_numbers(&data->items);
    spec->label_rows = dataset_has_rows(&data->items);
    spec->one_vs_rest = options->loss == LOSS_BCE && !dataset_has_targets(&data->items);
    status = run_device_open(&device, options, NULL, err);
    if (status == STATUS_OK) {
        status = evaluate(parameters, spec, subject, data, options, &device, err);
        run_device_close(&device, false);
    }
    free(parameters);
    free(spec);
    return status;
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
                "--client %.60s does not go with --%s: it is tested as the run tests it; sounder export RUN --client "
                "%.60s writes its model, which eval takes with all options",
                options->client, option_table[i].name, options->client);
    }
    ClientModel *model = calloc(1, sizeof *model);
    if (!model) return fail(err, STATUS_OS, "no memory for the options of a run");
    Status status = client_model_open(model, path, options->client, err);
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
    TRY(subject_find(&subject, &file, &options, path, err));
    Status status;
    Dataset data;
    TRY_GOTO(close, subject.is_own_data ? data_model_read_own(&model, &file, subject.path, err)
                                        : data_model_read(&model, &file, subject.path, err));
    TRY_GOTO(close, subject_find_data(&source, &model, &subject, &options, err));
    TRY_GOTO(close, dataset_segment_load(&memory, &source, err));
    TRY_GOTO(free, dataset_segment_view(&data, &memory, err));
    TRY_GOTO(free, subject_check_data(&subject, &file, &options, &data, err));
    TRY_GOTO(free, evaluate_file(&file, &subject, &options, &data, err));
    dataset_segment_keep(&memory, &source);
free:
    dataset_segment_free(&memory);
close:
    data_model_free(&model);
    safetensors_close(&file);
    return status;
}
