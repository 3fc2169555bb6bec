// A reader takes words from the left with layer_text_whole and its kin. Every failure says the layer's number and text,
// the word and what to write instead, and underlines the word in the net's text (error_sketch).
#include "layer_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

static const char blanks[] = " \t\n";

// Cuts the layer's text into words, and takes "from NAME" and "as NAME" off its end, in either order, so that no
// layer's reader needs to know them.
static Status split_words(LayerText *of, Error *err) {
    memcpy(of->split, of->text, sizeof of->split);
    of->word_count = 0;
    of->taken = 1;
    char *rest;
    for (char *word = strtok_r(of->split, blanks, &rest); word; word = strtok_r(NULL, blanks, &rest)) {
        if (of->word_count == LAYER_MAX_WORDS)
            return fail(err, STATUS_USAGE, LAYER_FORMAT "too many words; layers are separated by ';'", LAYER_ARGS(of));
        of->words[of->word_count++] = word;
    }
    of->from = of->as = NULL;
    for (const char **name; of->word_count > 2; *name = of->words[of->word_count + 1]) {
        const char *key = of->words[of->word_count - 2];
        name = strcmp(key, "from") == 0 ? &of->from : strcmp(key, "as") == 0 ? &of->as : NULL;
        if (!name || *name) break;
        of->word_count -= 2;
    }
    if (of->word_count == 0)
        return fail(err, STATUS_USAGE, "layer %d is empty; write a layer between two ';' and none after the last",
                    of->number);
    return STATUS_OK;
}

// Keeps the layer's text twice: whole for messages, and cut into words, whose addresses give their place in the text.
Status layer_text_next(LayerText *of, const char **rest, Error *err) {
    const char *start = *rest + strspn(*rest, blanks), *end = strchr(start, ';');
    *rest = end ? end + 1 : NULL;
    size_t length = end ? (size_t)(end - start) : strlen(start);
    while (length > 0 && strchr(blanks, start[length - 1]))
        length--;
    of->at = (size_t)(start - of->whole);
    memcpy(of->text, start, length);
    memset(of->text + length, 0, sizeof of->text - length);
    of->number++;
    return split_words(of, err);
}

Status layer_text_sketch(const LayerText *of, const char *word, Error *err) {
    if (word)
        error_sketch(err, of->whole, of->at + (size_t)(word - of->split), strlen(word));
    else
        error_sketch(err, of->whole, of->at, strlen(of->text));
    return STATUS_USAGE;
}

// USAGE with the sentence that says how the layer is written.
static Status wrong(const LayerText *of, Error *err) {
    return fail(err, STATUS_USAGE, LAYER_FORMAT "write it as \"%s\"", LAYER_ARGS(of), of->form->form);
}

bool layer_text_has_more(const LayerText *of) {
    return of->taken < of->word_count;
}

// Reads one whole number, up to *end. The bounds refuse a minus sign, which strtol accepts.
static bool read_whole(int *value, const char *text, char **end, int low, int high) {
    long number = strtol(text, end, 10);
    if (*end == text || number < low || number > high) return false;
    *value = (int)number;
    return true;
}

// All readers of whole numbers end here, so that sizes, counts and sides have one sentence.
static Status not_whole(const LayerText *of, const char *name, const char *word, int low, int high, Error *err) {
    fail(err, STATUS_USAGE, LAYER_FORMAT "%s is \"%s\"; give a whole number from %d to %d", LAYER_ARGS(of), name, word,
         low, high);
    return layer_text_sketch(of, word, err);
}

Status layer_text_whole(int *value, LayerText *of, const char *name, int low, int high, Error *err) {
    if (!layer_text_has_more(of)) return wrong(of, err);
    const char *word = of->words[of->taken++];
    char *end;
    if (read_whole(value, word, &end, low, high) && *end == '\0') return STATUS_OK;
    return not_whole(of, name, word, low, high, err);
}

// One number means both sides, so that square windows, which most nets have, are written with one.
Status layer_text_sides(Sides *value, LayerText *of, const char *name, int low, int high, Error *err) {
    if (!layer_text_has_more(of)) return wrong(of, err);
    const char *word = of->words[of->taken++];
    char *end;
    if (!read_whole(&value->rows, word, &end, low, high)) return not_whole(of, name, word, low, high, err);
    value->columns = value->rows;
    if (*end == '\0') return STATUS_OK;
    if (*end == 'x' && read_whole(&value->columns, end + 1, &end, low, high) && *end == '\0') return STATUS_OK;
    return not_whole(of, name, word, low, high, err);
}

// The upper bound is exclusive, as for a rate of dropout, which must stay below 1.
Status layer_text_number(float *value, LayerText *of, const char *name, float low, float below, Error *err) {
    if (!layer_text_has_more(of)) return wrong(of, err);
    const char *word = of->words[of->taken++];
    char *end;
    *value = strtof(word, &end);
    if (end != word && *end == '\0' && *value >= low && *value < below) return STATUS_OK;
    fail(err, STATUS_USAGE, LAYER_FORMAT "%s is \"%s\"; give a number from %g to below %g", LAYER_ARGS(of), name, word,
         (double)low, (double)below);
    return layer_text_sketch(of, word, err);
}

Status layer_text_epsilon(Layer *layer, LayerText *of, Error *err) {
    return layer_text_key(of, "eps") ? layer_text_number(&layer->epsilon, of, "E", 1e-12f, 1, err) : STATUS_OK;
}

// Names of layers before this one; SPEC_INPUT if none has it. Only earlier layers have names yet, so a net cannot have
// a cycle.
static int find_name(const LayerText *of, const char *name) {
    for (int l = 0; l + 1 < of->number; l++)
        if (strcmp(of->names[l], name) == 0) return l;
    return SPEC_INPUT;
}

static Status no_name(const LayerText *of, const char *name, Error *err) {
    Suggestion suggestion = {.typed = name};
    for (int l = 0; l + 1 < of->number; l++)
        if (*of->names[l]) suggestion_consider(&suggestion, of->names[l]);
    const char *best = suggestion.best;
    fail(err, STATUS_USAGE,
         LAYER_FORMAT "no layer before has the name \"%s\"%s%s%s; write \"as %s\" behind the one that is meant",
         LAYER_ARGS(of), name, best ? " (did you mean " : "", best ? best : "", best ? "?)" : "", name);
    return layer_text_sketch(of, name, err);
}

// The name must be an earlier layer's, so that values are there when they are read.
Status layer_text_layer(int *layer, LayerText *of, Error *err) {
    if (!layer_text_has_more(of)) return wrong(of, err);
    const char *name = of->words[of->taken++];
    *layer = find_name(of, name);
    return *layer == SPEC_INPUT ? no_name(of, name, err) : STATUS_OK;
}

// Without "from" it is the layer before. Layers count from 0 here, and from 1 in sentences.
Status layer_text_source(int *source, const LayerText *of, Error *err) {
    *source = of->from ? find_name(of, of->from) : of->number - 2;
    return of->from && *source == SPEC_INPUT ? no_name(of, of->from, err) : STATUS_OK;
}

static bool is_name(const char *text) {
    static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return isalpha((unsigned char)*text) && text[strspn(text, signs)] == '\0';
}

// Names must differ, since a later layer finds its source by the name alone.
Status layer_text_name(LayerText *of, Error *err) {
    if (!of->as) return STATUS_OK;
    const int before = find_name(of, of->as);
    if (before != SPEC_INPUT)
        return fail(err, STATUS_USAGE, LAYER_FORMAT "layer %d has the name \"%s\" already; give another",
                    LAYER_ARGS(of), before + 1, of->as);
    if (strlen(of->as) >= LAYER_NAME_BYTES || !is_name(of->as))
        return fail(err, STATUS_USAGE, LAYER_FORMAT "\"%s\" is no name; give a letter and up to %d letters and digits",
                    LAYER_ARGS(of), of->as, LAYER_NAME_BYTES - 2);
    strcpy(of->names[of->number - 1], of->as);
    return STATUS_OK;
}

// Options are words of their own, so a reader asks for each of them in turn.
bool layer_text_key(LayerText *of, const char *key) {
    bool is_next = layer_text_has_more(of) && strcmp(of->words[of->taken], key) == 0;
    of->taken += is_next;
    return is_next;
}

// A word that is left over is most often the first word of a layer after a forgotten ';'.
Status layer_text_end(const LayerText *of, Error *err) {
    for (int w = of->taken; w < of->word_count; w++)
        for (size_t i = 0; layer_form(i); i++)
            if (strcmp(layer_form(i)->word, of->words[w]) == 0)
                return fail(err, STATUS_USAGE, LAYER_FORMAT "too many words; layers are separated by ';'",
                            LAYER_ARGS(of));
    return layer_text_has_more(of) ? wrong(of, err) : STATUS_OK;
}
