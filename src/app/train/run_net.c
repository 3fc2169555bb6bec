// Part of run_set_up.h: the net of layers that --model names, and whether options, data and net go together.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/options/option_traits.h"
#include "app/train/run_set_up.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/text.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "nn/kernels/activation.h"
#include "nn/layers/layer.h"

// A single word that is no model is a mistyped name rather than a layer list, unless it is a layer.
static Status check_model_name(const Options *options, Error *err) {
    const char *model = options->model;
    Error why;
    if (model_refuse_onnx(model, &why) != STATUS_OK) return options_refuse(options, "model", err, " %s", why.message);
    if (strpbrk(model, " ;")) return STATUS_OK;
    for (size_t i = 0; layer_form(i); i++)
        if (strcmp(model, layer_form(i)->word) == 0) return STATUS_OK;
    const char *ending = strrchr(model, '.');
    if (ending && (strcmp(ending, ".pt") == 0 || strcmp(ending, ".pth") == 0))
        return options_refuse(
            options, "model", err,
            " %.60s: is a file of PyTorch's; sounder.layers(net) in Python (tools/python) gives the layers of a "
            "module, and sounder.write_weights(\"net.safetensors\", net) its weights for --init",
            model);
    Suggestion suggestion = {.typed = model};
    char names[256] = "";
    for (size_t i = 0; i < zoo_entry_count; i++) {
        if (strcmp(model, zoo_entries[i].name) == 0) return STATUS_OK;
        suggestion_consider(&suggestion, zoo_entries[i].name);
        text_list(names, sizeof names, zoo_entries[i].name, strlen(zoo_entries[i].name));
    }
    return options_refuse(options, "model", err,
                          " %.60s: no such model%s%s%s; there are %s, or give a layer list (`sounder help models`)",
                          model, suggestion.best ? " (did you mean " : "", suggestion.best ? suggestion.best : "",
                          suggestion.best ? "?)" : "", names);
}

static Status check_crop(const Options *options, const Dataset *data, Error *err) {
    const uint32_t crop = options->training.augment.crop;
    const Shape shape = data->shape;
    if ((int)crop < shape.rows && (int)crop < shape.columns) return STATUS_OK;
    return options_refuse(options, "random-crop", err,
                          " %u: images of %dx%d pixels may be cut off completely; give less than either", crop,
                          shape.rows, shape.columns);
}

static Status check_false_labels(const Options *options, const Dataset *data, Error *err) {
    const double *number = options->attack_rule.number;
    const double side = number[BACKDOOR_SIZE];
    const bool marks = options->attack_rule.row == ATTACK_BACKDOOR;
    if (marks && (data->items.pixel_bytes != 1 || side > data->shape.rows || side > data->shape.columns))
        return options_refuse(options, "attack", err,
                              " %s: %s has no images on which a square of %g x %g pixels has room", options->attack,
                              data->name, side, side);
    for (int n = ATTACK_LABEL_FROM; n <= (marks ? BACKDOOR_TARGET : ATTACK_LABEL_EXCEPT); n++)
        if (number[n] >= data->classes) // false for NAN: not given
            return options_refuse(options, "attack", err, " %s: %s has labels from 0 to %d", options->attack,
                                  data->name, data->classes - 1);
    return STATUS_OK;
}

static double number_at(const DatasetSplit *samples, const Dataset *data, size_t place) {
    if (data->items.pixel_bytes == 1) return samples->pixels[place];
    return (double)dataset_number(samples->pixels, place);
}

// An embedding reads whole numbers below its vocabulary size.
static Status check_numbers(const Options *options, const Spec *spec, const Dataset *data, Error *err) {
    const DatasetSplit *const parts[] = {&data->train, &data->test};
    const size_t size = shape_size(data->shape);
    const int vocabulary = spec->layers[0].vocabulary;
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < parts[p]->count * size; i++) {
            const double number = number_at(parts[p], data, i);
            if (number >= 0 && number < vocabulary && number == floor(number)) continue;
            return options_refuse(options, "model", err,
                                  ": %s sample %zu of %s has the value %g, but an embedding of %d rows reads whole "
                                  "numbers from 0 to %d; give it more rows, or take another data set",
                                  p ? "test" : "training", i / size, data->name, number, vocabulary, vocabulary - 1);
        }
    return STATUS_OK;
}

// A batch norm needs the whole batch at once.
static Status check_whole_batches(const Options *options, Error *err) {
    if (options->training.batch_size <= SPEC_WHOLE_BATCH) return STATUS_OK;
    return options_refuse(options, "batch-size", err,
                          ": a batchnorm in --model computes a batch at once, of at most %d samples, not %u; lower "
                          "that, or normalise with groupnorm",
                          SPEC_WHOLE_BATCH, options->training.batch_size);
}

Status run_check_fit(const Options *options, const Spec *spec, const Dataset *data, Error *err) {
    Traits traits;
    options_traits(&traits, options);
    traits.has[TRAIT_NO_IMAGES] = data->items.pixel_bytes != 1;
    traits.has[TRAIT_NO_SAMPLES] = !dataset_has_samples(&data->items);
    traits.has[TRAIT_TARGETS] = dataset_has_targets(&data->items);
    traits.has[TRAIT_TOKENS] = data->items.tokens > 0;
    traits.has[TRAIT_EMBEDS] = layer_has(&spec->layers[0], READS_NUMBERS);
    traits.has[TRAIT_WHOLE_BATCHES] = spec_needs_whole_batches(spec);
    TRY(options_check_traits(options, &traits, err));
    if (traits.has[TRAIT_EMBEDS]) TRY(check_numbers(options, spec, data, err));
    if (traits.has[TRAIT_WHOLE_BATCHES]) TRY(check_whole_batches(options, err));
    if (traits.has[TRAIT_CROPS]) TRY(check_crop(options, data, err));
    if (traits.has[TRAIT_ATTACKS_SAMPLES]) TRY(check_false_labels(options, data, err));
    Error why;
    if (view_check(&options->view, data->shape, (uint32_t)options->clients, &why) != STATUS_OK)
        return fail(err, STATUS_USAGE, "--%s", why.message);
    const Chosen *combine = &options->recipe.combine;
    if (!traits.has[TRAIT_TRUSTS] || combine->number[0] <= data->train.count) return STATUS_OK;
    return options_refuse(options, "algorithm", err, ": root=%g samples for the server, where %s has %u; lower that",
                          combine->number[0], data->name, data->train.count);
}

Status run_check_samples(const Dataset *data, Error *err) {
    if (dataset_has_samples(&data->items)) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "--data %s: labels without samples, for a trainer that has loaded them itself; add --trainer, or save "
                "x_train and x_test beside y_train and y_test",
                data->name);
}

// The default net is for images.
static Status check_default_model(const Options *options, const Dataset *data, Error *err) {
    const bool is_row = data->shape.channels * data->shape.rows == 1 && data->items.vocabulary == 0;
    if (options_given(options, "model") || !is_row) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "--model is %.60s unless you give another, a net for images, and a sample of %.64s has %d number%s: "
                "give --model \"linear 64; relu; linear classes\" (help models), or, for images that are stored in one "
                "row, their size in --data: shape=1x28x28 (help data)",
                options->model, data->name, data->shape.columns, data->shape.columns == 1 ? "" : "s");
}

// The loss has a sigmoid or a softmax of its own: a second one is another function, which trains slowly and badly.
static void doubt_last_layer(const Spec *spec, const char *model) {
    const Layer *last = &spec->layers[spec->layer_count - 1];
    const bool is_sigmoid = last->kind == LAYER_ACTIVATION && last->activation == ACTIVATION_SIGMOID;
    if (last->kind == LAYER_RELU)
        log_warning("%s: its last layer is relu, so that no class can get a negative score; leave that out", model);
    else if (is_sigmoid && (spec->label_rows || spec->one_vs_rest))
        log_warning("%s: its last layer is sigmoid, and so begins the loss, binary cross-entropy (PyTorch's "
                    "BCEWithLogitsLoss): leave that out, also if the net is one for BCELoss",
                    model);
    else if (is_sigmoid && !spec->squared_loss)
        log_warning("%s: its last layer is sigmoid, and the loss, cross-entropy, begins with a softmax (PyTorch's "
                    "CrossEntropyLoss): leave that out, and for BCELoss add --loss bce",
                    model);
}

Status run_read_model(RunModel *model, const Options *options, const Dataset *data, Error *err) {
    Spec *spec = &model->spec;
    char *text = model->about.text;
    char named[OPTION_NAMED_BYTES];
    Error why;
    TRY(run_check_samples(data, err));
    TRY(check_model_name(options, err));
    TRY(check_default_model(options, data, err));
    zoo_expand(text, SPEC_TEXT_BYTES, options->model, data->classes);
    Status status = spec_parse(spec, text, data->shape, data->classes, &why);
    TRY(options_blame(options, "model", ": ", status, &why, err));
    TRY(run_check_fit(options, spec, data, err));
    if (spec_needs_whole_batches(spec)) spec->whole_batch = (int)options->training.batch_size;
    if (options->freeze[0]) status = spec_freeze(spec, options->freeze, &why);
    TRY(options_blame(options, "freeze", ": ", status, &why, err));
    spec->augment = options->training.augment;
    if (options->attack_rule.row == ATTACK_BACKDOOR)
        spec->trigger = (uint32_t)options->attack_rule.number[BACKDOOR_SIZE];
    spec->smoothing = (float)options->training.label_smoothing;
    spec->float_input = data->items.pixel_bytes > 1 || options->view.noise.row != VIEW_NOISE_NONE;
    spec->squared_loss = dataset_has_numbers(&data->items);
    spec->label_rows = dataset_has_rows(&data->items);
    spec->one_vs_rest = options->loss == LOSS_BCE && !dataset_has_targets(&data->items);
    if (options->loss == LOSS_BCE && spec->squared_loss)
        return options_refuse(options, "loss", err, " bce: samples of %.64s have targets, no labels; leave it out",
                              options->data);
    doubt_last_layer(spec, options_named(named, options, "model"));
    return STATUS_OK;
}
