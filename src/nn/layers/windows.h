// The text of layers whose windows slide over an image: convolutions and poolings.
#ifndef SOUNDER_NN_LAYERS_WINDOWS_H
#define SOUNDER_NN_LAYERS_WINDOWS_H

#include "nn/layers/layer.h"

// A number, or a pair of them, that may follow a layer's first ones behind a word.
typedef struct LayerKey {
    const char *name;
    Sides *sides; // or
    int *whole;
    int low, high;
    bool seen;
} LayerKey;

// Reads those keys that are there, in any order, to the end of the layer's text.
Status layer_read_keys(LayerKey *keys, size_t count, LayerText *of, Error *err);

// Sets the shape that the windows leave; what: "kernel" or "window"; most: the padding with which each meets the image.
Status layer_slide(Layer *layer, const Window *window, Sides most, const LayerText *of, const char *what, Error *err);

static inline bool is_square(Sides sides) {
    return sides.rows == sides.columns;
}

#endif
