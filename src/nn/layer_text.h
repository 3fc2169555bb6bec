// One layer of a net's text while the parser reads it: takes its words one after the other, and makes the error
// sentences about them.
#ifndef SOUNDER_NN_LAYER_TEXT_H
#define SOUNDER_NN_LAYER_TEXT_H

#include <stdbool.h>

#include "base/err.h"
#include "nn/spec.h"

enum { LAYER_MAX_WORDS = 24, LAYER_NAME_BYTES = 32 };

typedef struct LayerText {
    const char *whole; // text of the net; borrowed
    size_t at;         // offset of the layer in it
    int number;        // from 1
    char text[SPEC_TEXT_BYTES];
    char split[SPEC_TEXT_BYTES]; // the text again, cut into words
    char *words[LAYER_MAX_WORDS];
    int word_count, taken; // taken: words that have been read, the layer's own included
    const char *from, *as; // the names after these two words, or NULL
    const LayerForm *form;
    const Spec *spec;                              // the layers read so far
    char names[SPEC_MAX_LAYERS][LAYER_NAME_BYTES]; // names of their outputs; empty: none
} LayerText;

// The beginning of each sentence about a layer: its number and text.
#define LAYER_FORMAT   "layer %d (\"%s\"): "
#define LAYER_ARGS(of) (of)->number, (of)->text

// Reads the next layer of a net's text. *rest moves after its ';', or becomes NULL after the last layer. USAGE if the
// layer is empty.
Status layer_text_next(LayerText *of, const char **rest, Error *err);

// Adds a sketch to err after a failure that is about the layer (word: NULL), or about a word of `split`: its place in
// the net's text. Returns USAGE.
Status layer_text_sketch(const LayerText *of, const char *word, Error *err);

// Takes the next word as a whole number between low and high. name: its name in the form.
Status layer_text_whole(int *value, LayerText *of, const char *name, int low, int high, Error *err);

// Takes a whole number, or two of them as in 3x5: rows and columns.
Status layer_text_sides(Sides *value, LayerText *of, const char *name, int low, int high, Error *err);

// Takes the next word as a number from low to below `below`.
Status layer_text_number(float *value, LayerText *of, const char *name, float low, float below, Error *err);

// Takes "eps E", if that is next: Layer.epsilon.
Status layer_text_epsilon(Layer *layer, LayerText *of, Error *err);

// Takes the next word as the name of an earlier layer.
Status layer_text_layer(int *layer, LayerText *of, Error *err);

// The number of the layer that "from" names, or of the one before; and the name that "as" gives to this layer.
Status layer_text_source(int *source, const LayerText *of, Error *err);
Status layer_text_name(LayerText *of, Error *err);

// Takes the next word if it is `key`.
bool layer_text_key(LayerText *of, const char *key);

bool layer_text_has_more(const LayerText *of);

// USAGE if there are words that have not been taken.
Status layer_text_end(const LayerText *of, Error *err);

#endif
