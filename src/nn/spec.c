#include "spec.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "layer_forms.h"

static const size_t max_parameters = INT_MAX;

static void add_tensor(Spec *spec, const char *layer_word, int ordinal, const char *what, int rank,
                       const int64_t shape[4], int64_t fan_in) {
    ParameterTensor *tensor = &spec->tensors[spec->tensor_count++];
    *tensor = (ParameterTensor){.rank = rank, .first = spec->parameter_count, .count = 1, .fan_in = fan_in};
    snprintf(tensor->name, sizeof tensor->name, "%s%d.%s", layer_word, ordinal, what);
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        tensor->count *= (size_t)shape[i];
    }
    spec->parameter_count += tensor->count;
}

// Places the layer's weight and bias, named as PyTorch modules usually are: conv1, conv2, ..., fc1, fc2, ...
static Status add_parameters(Spec *spec, Layer *layer, int *convs, int *linears, const LayerText *of, Error *err) {
    bool conv = layer->kind == LAYER_CONV;
    if (!conv && layer->kind != LAYER_LINEAR) return STATUS_OK;
    int64_t outs = layer->out.channels;
    const bool plain = layer_is_plain(layer);
    const Sides side = plain ? (Sides){layer->kernel, layer->kernel} : layer->window.size;
    int64_t fan_in = conv ? (int64_t)conv_inputs(layer) : (int64_t)shape_size(layer->in);
    int64_t ins = conv ? fan_in / side.rows / side.columns : fan_in;
    if ((double)fan_in * (double)outs + (double)outs > (double)(max_parameters - spec->parameter_count))
        return fail(err, STATUS_USAGE, LAYER_FORMAT "the net would have more than %zu parameters; make it smaller",
                    LAYER_ARGS(of), max_parameters);
    const char *word = conv ? "conv" : "fc";
    int ordinal = conv ? ++*convs : ++*linears;
    layer->weight = spec->parameter_count;
    add_tensor(spec, word, ordinal, "weight", conv ? 4 : 2, (int64_t[4]){outs, ins, side.rows, side.columns}, fan_in);
    layer->bias = spec->parameter_count;
    add_tensor(spec, word, ordinal, "bias", 1, (int64_t[4]){outs}, fan_in);
    return STATUS_OK;
}

static Status check_input(Shape input, int classes, Error *err) {
    if (input.channels < 1 || input.rows < 1 || input.columns < 1 || layer_is_too_large(input, (Sides){0, 0}))
        return fail(err, STATUS_USAGE,
                    "a net cannot read samples of %d channels, %d rows and %d columns; use a data set "
                    "whose samples have 1 to %d values",
                    input.channels, input.rows, input.columns, LAYER_MOST_VALUES);
    if (classes < 1 || classes > 256)
        return fail(err, STATUS_USAGE, "%d classes; labels are bytes, so give 1 to 256", classes);
    return STATUS_OK;
}

Status spec_parse(Spec *spec, const char *text, Shape input, int classes, Error *err) {
    TRY(check_input(input, classes, err));
    if (strlen(text) >= SPEC_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "the net's text has %zu characters; at most %d are read", strlen(text),
                    SPEC_TEXT_BYTES - 1);
    *spec = (Spec){.input = input, .classes = classes};
    LayerText of = {.number = 0};
    int convs = 0, linears = 0;
    Shape shape = input;
    for (const char *rest = text; rest;) {
        if (spec->layer_count == SPEC_MAX_LAYERS)
            return fail(err, STATUS_USAGE, "the net has more than %d layers; leave some out", SPEC_MAX_LAYERS);
        TRY(layer_text_next(&of, &rest, err));
        Layer *layer = &spec->layers[spec->layer_count++];
        *layer = (Layer){.in = shape};
        TRY(layer_read(layer, &of, err));
        TRY(add_parameters(spec, layer, &convs, &linears, &of, err));
        shape = layer->out;
    }
    if (shape.channels != classes || shape.rows != 1 || shape.columns != 1)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "the last layer gives %d x %d x %d values, but there are %d classes; end with "
                                 "\"linear %d\"",
                    LAYER_ARGS(&of), shape.channels, shape.rows, shape.columns, classes, classes);
    return STATUS_OK;
}

void spec_initialise(float *parameters, const Spec *spec, uint64_t seed) {
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        float *values = parameters + tensor->first;
        float bound = (float)(1.0 / sqrt((double)tensor->fan_in));
        RngKey key = rng_key(seed, RNG_INIT, (uint32_t)t, 0, 0);
        RngBlock block = {{0}};
        for (size_t i = 0; i < tensor->count; i++) {
            if (i % 4 == 0) block = rng_block(key, (uint32_t)(i / 4), 0, 0, 0);
            values[i] = (2.0f * rng_float(block.word[i % 4]) - 1.0f) * bound;
        }
    }
}

double spec_training_flop(const Spec *spec) {
    double flop = 0;
    bool first = true;
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        if (layer->kind != LAYER_CONV && layer->kind != LAYER_LINEAR) continue;
        double outputs = (double)shape_size(layer->out);
        double inputs = (double)(layer->kind == LAYER_LINEAR ? shape_size(layer->in) : conv_inputs(layer));
        flop += 2.0 * outputs * inputs * (first ? 2 : 3); // forward, weight gradient and input gradient
        first = false;
    }
    return flop;
}

const char *spec_tensor_name(const Spec *spec, size_t parameter) {
    int tensor = 0;
    while (parameter >= spec->tensors[tensor].first + spec->tensors[tensor].count)
        tensor++;
    return spec->tensors[tensor].name;
}
