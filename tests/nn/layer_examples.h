// A small net for each word of the grammar, made from the word's form: a new layer is tried without a line here.
//
//   for (size_t i = 0; layer_example(text, sizeof text, i, shape, classes); i++)
//       ...                                    // "" for a word that can only be a net's first layer
#ifndef SOUNDER_TESTS_NN_LAYER_EXAMPLES_H
#define SOUNDER_TESTS_NN_LAYER_EXAMPLES_H

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "nn/spec.h"

// Appends the words of the form that are not in brackets. For a number, whose name is in capitals, it writes one that
// most layers take.
static inline void append_example(char *text, size_t bytes, const char *form) {
    static const struct {
        const char *name, *example;
    } numbers[] = {{"S", "2"}, {"GROUPS", "2"}, {"HEADS", "1"}, {"RATE", "0.3"}, {"NAME", "first"}};
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", form);
    words[strcspn(words, "[")] = '\0';
    for (const char *word; (word = strsep(&rest, " "));) {
        const char *example = isupper((unsigned char)*word) ? "4" : word;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (strcmp(word, numbers[i].name) == 0) example = numbers[i].example;
        snprintf(text + strlen(text), bytes - strlen(text), "%s ", example);
    }
}

// Writes a net with word number `number` between a convolution and a linear layer; false after the last word. Layers of
// sequences take one channel; the others are tried on four.
static inline bool layer_example(char *text, size_t bytes, size_t number, Shape shape, int classes) {
    const LayerForm *form = layer_form(number);
    if (!form) return false;
    for (int channels = 4; channels > 0; channels -= 3) {
        Error err;
        Spec spec;
        snprintf(text, bytes, "conv %d 3 pad 1 as first; tanh; ", channels);
        append_example(text, bytes, form->form);
        snprintf(text + strlen(text), bytes - strlen(text), "; linear %d", classes);
        if (spec_parse(&spec, text, shape, classes, &err) == STATUS_OK) return true;
    }
    *text = '\0';
    return true;
}

#endif
