#include "datasets/formats/vocabulary.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MOST_LISTED = 10, CLASS_BYTES = VOCABULARY_TOKEN_BYTES }; // names in a sentence; bytes of a class

// A token that is too long ends before the letter that no longer fits.
static const char *as_text(char text[VOCABULARY_TOKEN_BYTES], const char *token, size_t bytes) {
    size_t kept = bytes < VOCABULARY_TOKEN_BYTES ? bytes : VOCABULARY_TOKEN_BYTES - 1;
    while (kept < bytes && kept > 0 && ((unsigned char)token[kept] & 0xc0) == 0x80)
        kept--;
    memcpy(text, token, kept);
    assert(kept < VOCABULARY_TOKEN_BYTES);
    text[kept] = '\0';
    return text;
}

static Status no_memory(const Vocabulary *vocabulary, Error *err) {
    return fail(err, STATUS_OS, "no memory for a vocabulary of %zu tokens", vocabulary->tokens.used);
}

Status vocabulary_add(Vocabulary *vocabulary, const char *token, size_t bytes, Error *err) {
    char text[VOCABULARY_TOKEN_BYTES];
    uint32_t place;
    TRY(categories_add(&vocabulary->tokens, &place, as_text(text, token, bytes), err));
    if (place >= vocabulary->room) {
        const uint32_t room = vocabulary->room ? 2 * vocabulary->room : 1024;
        uint32_t *counts = realloc(vocabulary->counts, room * sizeof *counts);
        if (!counts) return no_memory(vocabulary, err);
        memset(counts + vocabulary->room, 0, (room - vocabulary->room) * sizeof *counts);
        vocabulary->counts = counts;
        vocabulary->room = room;
    }
    if (vocabulary->counts[place] < UINT32_MAX) vocabulary->counts[place]++;
    return STATUS_OK;
}

typedef struct Counted {
    const char *text; // borrowed
    uint32_t count;
} Counted;

static int by_bytes(const void *a, const void *b) {
    return strcmp(((const Counted *)a)->text, ((const Counted *)b)->text);
}

static int by_count(const void *a, const void *b) {
    const Counted *first = a, *second = b;
    if (first->count != second->count) return first->count > second->count ? -1 : 1;
    return by_bytes(a, b);
}

static Status number_listed(Vocabulary *vocabulary, bool has_unknown, Error *err) {
    TRY(categories_number_as(&vocabulary->tokens, vocabulary->list, err));
    vocabulary->first = has_unknown;
    vocabulary->size = vocabulary->tokens.count + has_unknown;
    return STATUS_OK;
}

Status vocabulary_settle(Vocabulary *vocabulary, uint32_t most, bool has_unknown, Error *err) {
    const Categories *tokens = &vocabulary->tokens;
    const size_t kept = tokens->used < most ? tokens->used : most;
    size_t found = 0, bytes = 1;
    Counted *all = malloc((tokens->used + 1) * sizeof *all);
    if (!all) return no_memory(vocabulary, err);
    for (size_t i = 0; i < tokens->room; i++)
        if (tokens->table[i].text)
            all[found++] = (Counted){tokens->table[i].text, vocabulary->counts[tokens->table[i].place]};
    qsort(all, found, sizeof *all, by_count);
    qsort(all, kept, sizeof *all, by_bytes);
    assert(found == tokens->used && kept <= found);
    for (size_t i = 0; i < kept; i++)
        bytes += strlen(all[i].text) + 1;
    char *to = vocabulary->list = malloc(bytes);
    for (size_t i = 0; i < kept && to; i++)
        to = stpcpy(to, all[i].text) + 1;
    free(all);
    if (!to) return no_memory(vocabulary, err);
    *to = '\0';
    return number_listed(vocabulary, has_unknown, err);
}

Status vocabulary_settle_as(Vocabulary *vocabulary, const char *names, bool has_unknown, Error *err) {
    const char *end = names;
    while (*end)
        end += strlen(end) + 1;
    vocabulary->list = malloc((size_t)(end - names) + 1);
    if (!vocabulary->list) return no_memory(vocabulary, err);
    memcpy(vocabulary->list, names, (size_t)(end - names) + 1);
    return number_listed(vocabulary, has_unknown, err);
}

uint32_t vocabulary_number(const Vocabulary *vocabulary, const char *token, size_t bytes) {
    char text[VOCABULARY_TOKEN_BYTES];
    const uint32_t number = categories_number(&vocabulary->tokens, as_text(text, token, bytes));
    if (number != CATEGORY_NONE) return vocabulary->first + number;
    return vocabulary->first > 0 ? 0 : VOCABULARY_UNKNOWN;
}

void vocabulary_free(Vocabulary *vocabulary) {
    categories_free(&vocabulary->tokens);
    free(vocabulary->counts);
    free(vocabulary->list);
    *vocabulary = (Vocabulary){0};
}

// A character as the name of a class, in `class` or constant: one that a table could not show is spelled.
static const char *class_of(char class[CLASS_BYTES], const char *token) {
    static const char *const spelled[][2] = {{"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}, {" ", "' '"}};
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
        if (strcmp(token, spelled[i][0]) == 0) return spelled[i][1];
    text_cut(class, CLASS_BYTES, token);
    disarm_text(class);
    return class;
}

void vocabulary_note(DatasetItems *items, const char *tokens, bool are_classes) {
    char class[CLASS_BYTES];
    for (const char *token = tokens; *token; token += strlen(token) + 1) {
        items->feature_bytes += strlen(token) + 1;
        if (are_classes) items->names_bytes += (uint32_t)strlen(class_of(class, token)) + 1;
    }
}

void vocabulary_write(DatasetBlock *block, const char *tokens) {
    char class[CLASS_BYTES], *to = dataset_at(block, block->layout.features),
                             *classes = dataset_at(block, block->layout.names);
    for (const char *token = tokens; *token; token += strlen(token) + 1) {
        to = stpcpy(to, token) + 1;
        if (block->items.names_bytes) classes = stpcpy(classes, class_of(class, token)) + 1;
    }
}

void unknown_tokens_add(UnknownTokens *unknown, const char *token, uint64_t uses) {
    char class[CLASS_BYTES];
    const char *name = class_of(class, token);
    unknown->uses += uses;
    if (unknown->tokens++ < MOST_LISTED) text_list(unknown->listed, sizeof unknown->listed, name, strlen(name));
}

Status unknown_tokens_refuse(const UnknownTokens *unknown, const char *place, Error *err) {
    if (unknown->tokens == 0) return STATUS_OK;
    return fail(
        err, STATUS_DATA,
        "%s: its texts have characters that are not in the model's vocabulary (%u, in %llu places): %s%s; leave "
        "out or replace them",
        place, unknown->tokens, (unsigned long long)unknown->uses, unknown->listed,
        unknown->tokens > MOST_LISTED ? ", ..." : "");
}
