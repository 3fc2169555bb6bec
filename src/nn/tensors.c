#include "tensors.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES = 400, PATTERNS_BYTES = 2048 };

// A list that is too long for the sentence ends in dots.
static void list_names(char *names, size_t bytes, const TensorList *list) {
    size_t used = 0;
    *names = '\0';
    for (int t = 0; t < list->count && used < bytes; t++)
        used += (size_t)snprintf(names + used, bytes - used, "%s%s", t > 0 ? ", " : "", list->tensors[t].name);
    if (used >= bytes) memcpy(names + bytes - 4, "...", 4);
}

// A pattern that fits no tensor is most likely misspelt, so it is an error. The patterns are the shell's, which users
// know, and whose stars match dots, too: "fc*" is all of a layer's tensors.
Status tensors_fitting(bool *fits, const TensorList *list, const char *patterns, Error *err) {
    static const char between[] = ", \t\n";
    char words[PATTERNS_BYTES], *rest;
    if (snprintf(words, sizeof words, "%s", patterns) >= (int)sizeof words)
        return fail(err, STATUS_USAGE,
                    "the patterns have %zu bytes, of which at most %d are read; write shorter ones, "
                    "with * for several tensors",
                    strlen(patterns), PATTERNS_BYTES - 1);
    char *first = strtok_r(words, between, &rest);
    for (char *word = first ? first : words; word; word = strtok_r(NULL, between, &rest)) {
        bool fits_one = false;
        for (int t = 0; t < list->count; t++)
            if (fnmatch(word, list->tensors[t].name, 0) == 0) fits[t] = fits_one = true;
        if (fits_one) continue;
        char names[NAMES_BYTES];
        list_names(names, sizeof names, list);
        return fail(err, STATUS_USAGE, "\"%.60s\" fits none of the net's tensors; there are %s", word, names);
    }
    return STATUS_OK;
}

// A search from the first tensor on: nets have dozens of tensors, and callers ask once per message.
const ParameterTensor *tensors_at(const TensorList *list, size_t parameter) {
    assert(list->count > 0 && parameter >= list->tensors[0].first);
    const ParameterTensor *tensor = list->tensors;
    while (parameter >= tensor->first + tensor->count)
        tensor++;
    return tensor;
}

// Rules that average weights cannot make a variance negative; those that extrapolate, as server momentum does, can.
void tensors_floor_variances(float *parameters, const TensorList *list) {
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        for (size_t i = 0; i < tensor->count && tensor_is_variance(tensor); i++)
            if (parameters[tensor->first + i] < 0) parameters[tensor->first + i] = 0;
    }
}
