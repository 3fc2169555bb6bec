// Part of layer.h: the table of layer types, and look-ups in it. Part of spec.h, too.
#include "layer.h"

// The rows are listed once, in spec.h: a kind that has no row does not link.
#define LAYER_ROW(kind, row) [kind] = &row,
const LayerType *const layer_types[] = {LAYER_TYPES(LAYER_ROW)};
enum { TYPE_COUNT = sizeof layer_types / sizeof *layer_types };

// Counts through the words of all types, which are neighbours in the help.
const LayerWord *layer_word(LayerKind *kind, size_t number) {
    for (int t = 0; t < TYPE_COUNT; t++) {
        const LayerWord *word = layer_types[t]->words, *end = word + LAYER_MOST_WORDS;
        *kind = (LayerKind)t;
        for (; word < end && word->form.word; word++)
            if (number-- == 0) return word;
    }
    return NULL;
}

const LayerForm *layer_form(size_t number) {
    LayerKind kind;
    const LayerWord *word = layer_word(&kind, number);
    return word ? &word->form : NULL;
}

bool layer_has_parameters(const Layer *layer) {
    return layer_type(layer)->tensors != NULL;
}

// Asks the row for its tensors and adds up their floats: the shapes are the only place that knows their number.
size_t layer_parameters(const Layer *layer) {
    LayerTensor tensors[LAYER_MOST_TENSORS];
    size_t floats = 0;
    for (int t = layer_has_parameters(layer) ? layer_type(layer)->tensors(tensors, layer) : 0; t > 0; t--)
        floats += layer_tensor_floats(&tensors[t - 1]);
    return floats;
}

double layer_products(const Layer *layer) {
    return layer_type(layer)->products ? layer_type(layer)->products(layer) : 0;
}

bool spec_has(const Spec *spec, unsigned traits) {
    for (int l = 0; l < spec->layer_count; l++)
        if (layer_has(&spec->layers[l], traits)) return true;
    return false;
}

// Such a net cannot take a batch in chunks, and Hogwild on a GPU refuses it.
bool spec_needs_whole_batches(const Spec *spec) {
    return spec_has(spec, OVER_BATCH);
}
