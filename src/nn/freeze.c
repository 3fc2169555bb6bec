// Part of spec.h: marks the parameters that patterns freeze.
//
// A tensor that is frozen is neither moved nor sent. A layer is frozen if all of its tensors are: passes then skip its
// gradients, and no gradient flows further back than the first layer that learns.
#include "spec.h"

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

// Passes ask for every layer, so a net without frozen tensors answers at once.
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
    bool fits[SPEC_MAX_TENSORS] = {false};
    const TensorList list = spec_tensors(spec);
    TRY(tensors_fitting(fits, &list, patterns, err));
    for (int t = 0; t < spec->tensor_count; t++)
        if (fits[t]) spec->tensors[t].frozen = spec->freezes = true;
    if (freeze_layers(spec)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "every tensor of the net that learns would be frozen; leave one");
}
