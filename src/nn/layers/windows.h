// Reads the text of layers whose windows slide over an image: convolutions and poolings.
#ifndef SOUNDER_NN_LAYERS_WINDOWS_H
#define SOUNDER_NN_LAYERS_WINDOWS_H

#include "nn/layers/layer.h"

// An option of a layer: a word, then a number or a pair of numbers, unless the word alone sets `flag`.
typedef struct LayerKey {
    const char *name;
    int low, high;
    Sides *sides; // the pair; NULL: one number, `whole`
    int *whole;
    bool *flag; // NULL: numbers follow
    bool seen;
} LayerKey;

// Reads the options that are present, in any order, to the end of the layer's text.
Status layer_read_keys(LayerKey *keys, size_t count, LayerText *of, Error *err);

// Sets the shape of the output. what: "kernel" or "window". most: the padding up to which each window meets the image.
Status layer_slide(Layer *layer, const Window *window, Sides most, const LayerText *of, const char *what, Error *err);

static inline bool is_square(Sides sides) {
    return sides.rows == sides.columns;
}

#endif
