// `sounder eval MODEL.safetensors [--data D] [--model M]`: loss and accuracy of a saved model, in this one process.
#include "app/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/run/model_file.h"
#include "app/options/options.h"
#include "app/run/run_device.h"
#include "base/clock.h"
#include "base/log.h"
#include "fedavg/card/card.h"
#include "fedavg/memory/dataset_segment.h"
#include "nn/net.h"
#include "nn/zoo.h"

// The file's own note says which net it is; --model is for files of other programs.
static Status find_net(Spec *spec, const Safetensors *file, const char *path, const Options *options,
                       const Dataset *data, Error *err) {
    char text[SPEC_TEXT_BYTES];
    const char *note = safetensors_note(file, "sounder.model");
    bool given = options_given(options, "model");
    if (!note && !given) return fail(err, STATUS_USAGE, "%s does not say which net it is; name it with --model", path);
    zoo_expand(text, sizeof text, given ? options->model : note, data->classes);
    const char *input = safetensors_note(file, "sounder.input");
    char shape[48];
    snprintf(shape, sizeof shape, "%dx%dx%d", data->shape.channels, data->shape.rows, data->shape.columns);
    if (input && strcmp(input, shape) != 0)
        return fail(err, STATUS_USAGE, "%s was trained on samples of %s, but those of --data %s are %s", path, input,
                    options->data, shape);
    return spec_parse(spec, text, data->shape, data->classes, err);
}

static Status evaluate_on_cpu(BatchResult *sum, const float *parameters, const Spec *spec, const Dataset *data,
                              Error *err) {
    Net net;
    TRY(net_init(&net, spec, kernels_best(), err));
    *sum = (BatchResult){0};
    uint32_t count = data->test.count;
    for (uint32_t first = 0; first < count; first += EVALUATION_CHUNK) {
        Batch batch = {.pixels = data->test.pixels,
                       .labels = data->test.labels,
                       .first = first,
                       .count = count - first < EVALUATION_CHUNK ? count - first : EVALUATION_CHUNK,
                       .scale = data->scale,
                       .shift = data->shift};
        BatchResult result;
        net_evaluate(&net, &result, parameters, &batch);
        sum->loss_sum += result.loss_sum;
        sum->hits += result.hits;
    }
    net_free(&net);
    return STATUS_OK;
}

static Status evaluate(const float *parameters, const Spec *spec, const Dataset *data, const Options *options,
                       const RunDevice *device, Error *err) {
    uint64_t start = clock_nanoseconds();
    BatchResult result;
    TRY(device->on_card ? card_evaluate(&result, parameters, spec, data, options->tf32, err)
                        : evaluate_on_cpu(&result, parameters, spec, data, err));
    uint32_t count = data->test.count;
    printf("test loss %.4f  accuracy %u/%u (%.2f%%)  %.2f s  %s\n", result.loss_sum / count, result.hits, count,
           100.0 * result.hits / count, clock_seconds_since(start), run_device_name(device));
    if (*device->why_not.message) log_info("evaluated on the CPU, for there is no card: %s", device->why_not.message);
    return STATUS_OK;
}

static Status evaluate_file(const Safetensors *file, const char *path, const Options *options, const Dataset *data,
                            Error *err) {
    Spec spec;
    TRY(find_net(&spec, file, path, options, data, err));
    float *parameters = aligned_alloc(64, (spec.parameter_count * sizeof(float) + 63) / 64 * 64);
    if (!parameters) return fail(err, STATUS_OS, "no memory for %zu parameters", spec.parameter_count);
    Error why;
    Status status = model_load(parameters, &spec, file, &why);
    if (status != STATUS_OK) fail(err, status, "%s: %s", path, why.message);
    RunDevice device;
    if (status == STATUS_OK) status = run_device_open(&device, options, NULL, err);
    if (status == STATUS_OK) {
        status = evaluate(parameters, &spec, data, options, &device, err);
        run_device_close(&device);
    }
    free(parameters);
    return status;
}

Status command_eval(int argc, char **argv, Error *err) {
    Options options;
    DatasetSource source;
    Safetensors file;
    const char *path;
    options_defaults(&options);
    TRY(options_parse_eval(&options, &path, argc, argv, err));
    log_init((LogLevel)options.log_level, LOG_RANK_PARENT);
    TRY(safetensors_open(&file, path, err));
    Status status;
    DatasetSegment memory;
    Dataset data;
    TRY_GOTO(close, dataset_find(&source, options.data, options.seed, err));
    TRY_GOTO(close, dataset_segment_load(&memory, &source, err));
    TRY_GOTO(free, dataset_view(&data, memory.segment.memory, memory.segment.bytes, err));
    TRY_GOTO(free, evaluate_file(&file, path, &options, &data, err));
    dataset_segment_keep(&memory, &source);
free:
    dataset_segment_free(&memory);
close:
    safetensors_close(&file);
    return status;
}
