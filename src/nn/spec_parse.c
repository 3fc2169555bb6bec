// Part of spec.h: reads a net's text.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "nn/layers/layer.h"

static const size_t max_parameters = INT_MAX;

// The number of the layer among those of its module: "norm3.weight" belongs to the third layer with the module "norm",
// whatever the kinds of such layers.
static int ordinal_of(const Spec *spec, const Layer *layer) {
    const char *module = layer_type(layer)->module;
    int ordinal = 1;
    for (const Layer *before = spec->layers; before < layer; before++)
        ordinal += layer_has_parameters(before) && strcmp(layer_type(before)->module, module) == 0;
    return ordinal;
}

// Fills in a tensor of the parameter array from the layer's own description, with its full name. A stretch of 0 stands
// for 1, so that most layers need not write it.
static void add_tensor(Spec *spec, const char *module, int ordinal, const LayerTensor *of) {
    ParameterTensor *tensor = &spec->tensors[spec->tensor_count++];
    *tensor = (ParameterTensor){.rank = of->rank,
                                .first = spec->parameter_count,
                                .count = layer_tensor_floats(of),
                                .fan_in = of->fan_in,
                                .stretch = of->stretch == 0 ? 1 : of->stretch,
                                .start = of->start,
                                .normal = of->normal,
                                .follows = of->follows};
    snprintf(tensor->name, sizeof tensor->name, "%s%d.%s", module, ordinal, of->name);
    for (int i = 0; i < of->rank; i++)
        tensor->shape[i] = of->shape[i];
    spec->parameter_count += tensor->count;
}

// Places the layer's parameters, named as PyTorch modules usually are: conv1, conv2, ..., fc1, fc2, ..., norm1, ...
static Status add_parameters(Spec *spec, Layer *layer, const LayerText *of, Error *err) {
    const LayerType *type = layer_type(layer);
    if (!type->tensors) return STATUS_OK;
    if (layer_parameters(layer) > max_parameters - spec->parameter_count)
        return fail(err, STATUS_USAGE, LAYER_FORMAT "the net would have more than %zu parameters; make it smaller",
                    LAYER_ARGS(of), max_parameters);
    LayerTensor tensors[LAYER_MOST_TENSORS];
    const int count = type->tensors(tensors, layer), ordinal = ordinal_of(spec, layer);
    layer->weight = spec->parameter_count;
    for (int t = 0; t < count; t++)
        add_tensor(spec, type->module, ordinal, &tensors[t]);
    layer->bias = layer->weight + layer_tensor_floats(&tensors[0]);
    return STATUS_OK;
}

// Each layer but the last must be read by another one, so that no layer is computed in vain.
static Status check_readers(const Spec *spec, Error *err) {
    const SpecReaders readers = spec_readers(spec);
    for (int l = 0; l + 1 < spec->layer_count; l++)
        if (readers.count[l] == 0)
            return fail(
                err, STATUS_USAGE,
                "no layer takes what layer %d gives; give it a name (\"as NAME\") and take that by \"add NAME\", "
                "\"concat NAME\" or \"from NAME\", or leave it out",
                l + 1);
    return STATUS_OK;
}

// Reads one layer: its source gives its input's shape, its words give the rest. Names count from the next layer on.
static Status read_one(Spec *spec, LayerText *of, Error *err) {
    Layer *layer = &spec->layers[spec->layer_count++];
    *layer = (Layer){.other = SPEC_INPUT};
    TRY(layer_text_source(&layer->source, of, err));
    layer->in = layer->source == SPEC_INPUT ? spec->input : spec->layers[layer->source].out;
    TRY(layer_read(layer, of, err));
    TRY(layer_text_name(of, err));
    return add_parameters(spec, layer, of, err);
}

enum { MAX_CLASSES = 65535 }; // two bytes of a label

// The largest image keeps every product of sizes within an int; 65,535 classes fit the two bytes of a label.
static Status check_input(Shape input, int classes, Error *err) {
    if (input.channels < 1 || input.rows < 1 || input.columns < 1 || layer_is_too_large(input, (Sides){0, 0}))
        return fail(err, STATUS_USAGE,
                    "a net cannot read samples of %d channels, %d rows and %d columns; use a data set "
                    "whose samples have 1 to %d values",
                    input.channels, input.rows, input.columns, LAYER_MOST_VALUES);
    if (classes < 1 || classes > MAX_CLASSES)
        return fail(err, STATUS_USAGE, "%d classes; give 1 to %d", classes, MAX_CLASSES);
    return STATUS_OK;
}

// Parses layer by layer, as a layer's shapes follow from those before it. An error that has no sketch yet gets one that
// underlines the whole layer.
Status spec_parse(Spec *spec, const char *text, Shape input, int classes, Error *err) {
    TRY(check_input(input, classes, err));
    if (strlen(text) >= SPEC_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "the net's text has %zu characters; at most %d are read", strlen(text),
                    SPEC_TEXT_BYTES - 1);
    *spec = (Spec){.input = input, .classes = classes, .whole_batch = SPEC_WHOLE_BATCH};
    LayerText of = {.whole = text, .spec = spec};
    for (const char *rest = text; rest;) {
        if (spec->layer_count == SPEC_MAX_LAYERS)
            return fail(err, STATUS_USAGE, "the net has more than %d layers; leave some out", SPEC_MAX_LAYERS);
        Status status = layer_text_next(&of, &rest, err);
        if (status == STATUS_OK) status = read_one(spec, &of, err);
        if (status == STATUS_OK) continue;
        if (err && !err->sketch[0]) layer_text_sketch(&of, NULL, err);
        return status;
    }
    TRY(check_readers(spec, err));
    const Shape shape = spec->layers[spec->layer_count - 1].out;
    if (shape.channels == classes && shape.rows == 1 && shape.columns == 1) return STATUS_OK;
    char part[96] = "";
    if (shape.channels > classes && shape.rows == 1 && shape.columns == 1) // the data may be a part of a larger set
        snprintf(part, sizeof part, ", or say that there are %d by classes=%d in --data (help data)", shape.channels,
                 shape.channels);
    fail(err, STATUS_USAGE,
         LAYER_FORMAT "the last layer gives %d x %d x %d values, but there %s %d class%s; end with \"linear %d\"%s",
         LAYER_ARGS(&of), shape.channels, shape.rows, shape.columns, classes == 1 ? "is" : "are", classes,
         classes == 1 ? "" : "es", classes, part);
    return layer_text_sketch(&of, NULL, err);
}
