#include "layer_text.h"

#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\n";

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
    if (of->word_count == 0)
        return fail(err, STATUS_USAGE, "layer %d is empty; write a layer between two ';' and none after the last",
                    of->number);
    return STATUS_OK;
}

Status layer_text_next(LayerText *of, const char **rest, Error *err) {
    const char *start = *rest + strspn(*rest, blanks), *end = strchr(start, ';');
    *rest = end ? end + 1 : NULL;
    size_t length = end ? (size_t)(end - start) : strlen(start);
    while (length > 0 && strchr(blanks, start[length - 1]))
        length--;
    memcpy(of->text, start, length);
    memset(of->text + length, 0, sizeof of->text - length);
    of->number++;
    return split_words(of, err);
}

Status layer_text_wrong(const LayerText *of, Error *err) {
    return fail(err, STATUS_USAGE, LAYER_FORMAT "write it as \"%s\"", LAYER_ARGS(of), of->form->form);
}

bool layer_text_has_more(const LayerText *of) {
    return of->taken < of->word_count;
}

// One whole number that ends at `*end`.
static bool read_whole(int *value, const char *text, char **end, int low, int high) {
    long number = strtol(text, end, 10);
    if (*end == text || number < low || number > high) return false;
    *value = (int)number;
    return true;
}

static Status not_whole(const LayerText *of, const char *name, const char *word, int low, int high, Error *err) {
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%s is \"%s\"; give a whole number from %d to %d", LAYER_ARGS(of), name,
                word, low, high);
}

Status layer_text_whole(int *value, LayerText *of, const char *name, int low, int high, Error *err) {
    if (!layer_text_has_more(of)) return layer_text_wrong(of, err);
    const char *word = of->words[of->taken++];
    char *end;
    if (read_whole(value, word, &end, low, high) && *end == '\0') return STATUS_OK;
    return not_whole(of, name, word, low, high, err);
}

Status layer_text_sides(Sides *value, LayerText *of, const char *name, int low, int high, Error *err) {
    if (!layer_text_has_more(of)) return layer_text_wrong(of, err);
    const char *word = of->words[of->taken++];
    char *end;
    if (!read_whole(&value->rows, word, &end, low, high)) return not_whole(of, name, word, low, high, err);
    value->columns = value->rows;
    if (*end == '\0') return STATUS_OK;
    if (*end == 'x' && read_whole(&value->columns, end + 1, &end, low, high) && *end == '\0') return STATUS_OK;
    return not_whole(of, name, word, low, high, err);
}

Status layer_text_number(float *value, LayerText *of, const char *name, float low, float below, Error *err) {
    if (!layer_text_has_more(of)) return layer_text_wrong(of, err);
    const char *word = of->words[of->taken++];
    char *end;
    *value = strtof(word, &end);
    if (end != word && *end == '\0' && *value >= low && *value < below) return STATUS_OK;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%s is \"%s\"; give a number from %g to below %g", LAYER_ARGS(of), name,
                word, (double)low, (double)below);
}

bool layer_text_key(LayerText *of, const char *key) {
    bool is_next = layer_text_has_more(of) && strcmp(of->words[of->taken], key) == 0;
    of->taken += is_next;
    return is_next;
}

Status layer_text_end(const LayerText *of, Error *err) {
    for (int w = of->taken; w < of->word_count; w++)
        for (size_t i = 0; i < layer_form_count; i++)
            if (strcmp(layer_forms[i].word, of->words[w]) == 0)
                return fail(err, STATUS_USAGE, LAYER_FORMAT "too many words; layers are separated by ';'",
                            LAYER_ARGS(of));
    return layer_text_has_more(of) ? layer_text_wrong(of, err) : STATUS_OK;
}
