// One layer of a net's text while it is read: words that are taken one after the other, and the sentences about them.
#ifndef SOUNDER_NN_LAYER_TEXT_H
#define SOUNDER_NN_LAYER_TEXT_H

#include <stdbool.h>

#include "base/err.h"
#include "nn/spec.h"

enum { LAYER_MAX_WORDS = 24 };

typedef struct LayerText {
    const char *whole; // text of the net; borrowed
    size_t at;         // where in it the layer begins
    int number;        // from 1
    char text[SPEC_TEXT_BYTES];
    char split[SPEC_TEXT_BYTES]; // the text again, cut into words
    char *words[LAYER_MAX_WORDS];
    int word_count, taken; // taken: words that have been read, the layer's own included
    const char *from, *as; // the names behind these words, or NULL
    const LayerForm *form;
    const Spec *spec;                               // as far as it has been read
    char names[SPEC_MAX_LAYERS][TENSOR_NAME_BYTES]; // of its layers' outputs; empty: none
} LayerText;

// The start of each sentence about a layer: its number and text.
#define LAYER_FORMAT   "layer %d (\"%s\"): "
#define LAYER_ARGS(of) (of)->number, (of)->text

// The next layer of a net's text; *rest moves behind its ';' or becomes NULL after the last. USAGE if there is nothing.
Status layer_text_next(LayerText *of, const char **rest, Error *err);

// After a failure that is about the layer, or about a word of `split` in it: where that stands in the net's text.
void layer_text_sketch(const LayerText *of, const char *word, Error *err);

// The sentence that says how the layer is written.
Status layer_text_wrong(const LayerText *of, Error *err);

// The next word as a whole number between low and high; name: as in the form.
Status layer_text_whole(int *value, LayerText *of, const char *name, int low, int high, Error *err);

// The same, or two of them: rows and columns, as in 3x5.
Status layer_text_sides(Sides *value, LayerText *of, const char *name, int low, int high, Error *err);

// The next word as a number from low to below `below`.
Status layer_text_number(float *value, LayerText *of, const char *name, float low, float below, Error *err);

// The next word as the name of a layer before.
Status layer_text_layer(int *layer, LayerText *of, Error *err);

// What "from" and "as" say of the layer of that number.
Status layer_text_source(int *source, const LayerText *of, int layer, Error *err);
Status layer_text_name(LayerText *of, int layer, Error *err);

// Takes the next word if it is `key`.
bool layer_text_key(LayerText *of, const char *key);

bool layer_text_has_more(const LayerText *of);

// USAGE if there are words that nobody has taken.
Status layer_text_end(const LayerText *of, Error *err);

#endif
