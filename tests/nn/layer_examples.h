// A small net for each word of the grammar, without its options and with each of them, made from the word's form: a new
// layer is tried without a line here.
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

// Appends option number `option` of the form that is a word alone, as "last" in "lstm UNITS [last]"; from 1 on, 0
// appends nothing. False: there are fewer. It passes over ceil: a maximum in a part of a window jumps between two
// places of an input, where differences say nothing; the comparison with PyTorch tries it.
static inline bool append_option(char *text, size_t bytes, const char *form, int option) {
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", form + strcspn(form, "["));
    for (char *word; option > 0 && (word = strsep(&rest, "[]|"));) {
        while (*word == ' ')
            word++;
        const size_t length = strcspn(word, " ");
        if (!islower((unsigned char)*word) || word[length + strspn(word + length, " ")] != '\0') continue;
        if (strncmp(word, "ceil", length) == 0 || --option > 0) continue;
        snprintf(text + strlen(text), bytes - strlen(text), "%.*s ", (int)length, word);
    }
    return option == 0;
}

// The form of example number `number`, and its option: each word comes first without options, then with each one. NULL
// after the last.
static inline const LayerForm *example_form(int *option, size_t number) {
    char unused[256] = "";
    size_t word = 0;
    for (*option = 0; number > 0 && layer_form(word); number--)
        if (!append_option(unused, sizeof unused, layer_form(word)->form, ++*option)) word++, *option = 0;
    return layer_form(word);
}

// Writes a net with example number `number` between a convolution and a linear layer; false after the last one. Layers
// of sequences take one channel; the others are tried on four.
static inline bool layer_example(char *text, size_t bytes, size_t number, Shape shape, int classes) {
    int option;
    const LayerForm *form = example_form(&option, number);
    if (!form) return false;
    for (int channels = 4; channels > 0; channels -= 3) {
        Error err;
        Spec spec;
        snprintf(text, bytes, "conv %d 3 pad 1 as first; tanh; ", channels);
        append_example(text, bytes, form->form);
        append_option(text, bytes, form->form, option);
        snprintf(text + strlen(text), bytes - strlen(text), "; linear %d", classes);
        if (spec_parse(&spec, text, shape, classes, &err) == STATUS_OK) return true;
    }
    *text = '\0';
    return true;
}

#endif
