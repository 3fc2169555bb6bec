// Part of spec.h: marks the parameters that patterns freeze.
//
// A tensor that is frozen is neither moved nor sent. A layer is frozen if all of its tensors are: passes then skip its
// gradients, and no gradient flows further back than the first layer that learns.
#include "spec.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES = 400 };

static void list_tensors(char *list, size_t bytes, const Spec *spec) {
    size_t used = 0;
    *list = '\0';
    for (int t = 0; t < spec->tensor_count && used < bytes; t++)
        used += (size_t)snprintf(list + used, bytes - used, "%s%s", t > 0 ? ", " : "", spec->tensors[t].name);
    if (used >= bytes) memcpy(list + bytes - 4, "...", 4);
}

// Freezes the tensors whose name fits one pattern. A pattern that fits none is most likely misspelt, so it is an error.
static Status freeze_those(Spec *spec, const char *pattern, Error *err) {
    bool fits = false;
    for (int t = 0; t < spec->tensor_count; t++)
        if (fnmatch(pattern, spec->tensors[t].name, 0) == 0) fits = spec->tensors[t].frozen = true;
    if (fits) return STATUS_OK;
    char names[NAMES_BYTES];
    list_tensors(names, sizeof names, spec);
    return fail(err, STATUS_USAGE, "\"%.60s\" fits none of the net's tensors; there are %s", pattern, names);
}

// Whether the tensor is one of the layer's. A layer's parameters are stored one after the other.
static bool is_in(const ParameterTensor *tensor, const Layer *layer) {
    return tensor->first >= layer->weight && tensor->first < layer->weight + layer_parameters(layer);
}

const Layer *spec_layer_of(const Spec *spec, const ParameterTensor *tensor) {
    const Layer *layer = spec->layers;
    while (!layer_has_parameters(layer) || !is_in(tensor, layer))
        layer++;
    return layer;
}

bool spec_freezes_of(const Spec *spec, const Layer *layer) {
    for (int t = 0; t < spec->tensor_count && spec->freezes; t++)
        if (spec->tensors[t].frozen && is_in(&spec->tensors[t], layer)) return true;
    return false;
}

bool spec_freezes_at(const Spec *spec, size_t first) {
    for (int t = 0; t < spec->tensor_count && spec->freezes; t++)
        if (spec->tensors[t].first == first) return spec->tensors[t].frozen;
    return false;
}

// Marks a layer as frozen if all its tensors are. Returns whether any parameter is left to learn; running statistics do
// not count, as batches move them, not gradients.
static bool freeze_layers(Spec *spec) {
    bool learns = false;
    for (int l = 0; l < spec->layer_count; l++) {
        Layer *layer = &spec->layers[l];
        layer->frozen = layer_has_parameters(layer);
        for (int t = 0; t < spec->tensor_count; t++) {
            const ParameterTensor *tensor = &spec->tensors[t];
            if (!is_in(tensor, layer)) continue;
            layer->frozen = layer->frozen && tensor->frozen;
            learns = learns || (!tensor->frozen && !tensor->follows);
        }
    }
    return learns;
}

// Tensors first, layers afterwards: several patterns together may freeze a layer.
Status spec_freeze(Spec *spec, const char *patterns, Error *err) {
    static const char between[] = ", \t\n";
    char words[SPEC_TEXT_BYTES], *rest;
    snprintf(words, sizeof words, "%s", patterns);
    for (char *word = strtok_r(words, between, &rest); word; word = strtok_r(NULL, between, &rest)) {
        TRY(freeze_those(spec, word, err));
        spec->freezes = true;
    }
    if (freeze_layers(spec)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "every tensor of the net that learns would be frozen; leave one");
}
