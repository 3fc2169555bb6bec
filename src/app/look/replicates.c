#include "replicates.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

// Where the fold of a value of --data begins; NULL: it has none.
static const char *fold_of(const char *data) {
    const char *fold = strstr(data, " fold=");
    while (fold && !fold[strcspn(fold, "/")])
        fold = strstr(fold + 1, " fold=");
    return fold;
}

bool replicates_are_folds(const char *a, const char *b) {
    const char *left = fold_of(a), *right = fold_of(b);
    if (!left || !right || left - a != right - b || strncmp(a, b, (size_t)(left - a)) != 0) return false;
    return strcmp(left + 1 + strcspn(left + 1, " "), right + 1 + strcspn(right + 1, " ")) == 0;
}

static bool are_folds(const PastRuns *runs) {
    for (size_t i = 1; i < runs->count; i++)
        if (!replicates_are_folds(runs->all[0].options.data, runs->all[i].options.data)) return false;
    return runs->count > 1;
}

Status replicates_read(ByOptions *over, const char *names, const PastRuns *runs, Error *err) {
    *over = (ByOptions){0};
    if (*names) TRY(by_options_read(over, "--over", names, err));
    by_options_add(over, option_find("seed"));
    if (runs && are_folds(runs)) by_options_add(over, option_find("data"));
    return STATUS_OK;
}

const char *replicates_name(char *text, const ByOptions *over) {
    text[0] = '\0';
    for (int i = 0; i < over->count; i++)
        text_add(text, OPTION_TEXT_BYTES, "%s%s", i ? " and " : "", over->all[i]->name);
    return text;
}
