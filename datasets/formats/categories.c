#include "datasets/formats/categories.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FIRST_ROOM = 64, WHOLE_BYTES = 24 };

// pandas writes whole numbers of a column with gaps as 3.0.
bool category_is_whole(int64_t *number, const char *text) {
    static const double most = 9007199254740992.0; // 2^53
    char *end;
    if (!*text || strspn(text, "+-0123456789.eE") < strlen(text)) return false;
    const double value = strtod(text, &end);
    *number = 0;
    if (*end || !(fabs(value) <= most) || value != floor(value)) return false;
    *number = (int64_t)value;
    return true;
}

// The text under which a value is looked up: a whole number always in its shortest digits.
static const char *as_key(char whole[WHOLE_BYTES], const char *text) {
    int64_t number;
    if (!category_is_whole(&number, text)) return text;
    snprintf(whole, WHOLE_BYTES, "%lld", (long long)number);
    return whole;
}

// The entry of a text, or the empty one where it belongs.
static Category *entry_of(const Categories *categories, const char *text) {
    assert(categories->used < categories->room && (categories->room & (categories->room - 1)) == 0); // a search ends
    size_t place = XXH3_64bits(text, strlen(text)) & (categories->room - 1);
    while (categories->table[place].text && strcmp(categories->table[place].text, text) != 0)
        place = (place + 1) & (categories->room - 1);
    return &categories->table[place];
}

static Status grow(Categories *categories, Error *err) {
    Categories grown = {.room = categories->room ? 2 * categories->room : FIRST_ROOM};
    grown.table = calloc(grown.room, sizeof *grown.table);
    if (!grown.table) return fail(err, STATUS_OS, "no memory for %zu values of a column", categories->used);
    for (size_t i = 0; i < categories->room; i++)
        if (categories->table[i].text) *entry_of(&grown, categories->table[i].text) = categories->table[i];
    free(categories->table);
    categories->table = grown.table;
    categories->room = grown.room;
    return STATUS_OK;
}

Status categories_add(Categories *categories, uint32_t *place, const char *text, Error *err) {
    char whole[WHOLE_BYTES];
    const char *key = as_key(whole, text);
    if (2 * categories->used >= categories->room) TRY(grow(categories, err));
    Category *entry = entry_of(categories, key);
    assert(!entry->text || entry->place < categories->used);
    if (place) *place = entry->text ? entry->place : (uint32_t)categories->used;
    if (entry->text) return STATUS_OK;
    entry->place = (uint32_t)categories->used;
    entry->text = strdup(key);
    if (!entry->text) return fail(err, STATUS_OS, "no memory for %zu values of a column", categories->used);
    if (categories->used == 0) categories->are_whole = true;
    categories->are_whole = categories->are_whole && key == whole;
    categories->used++;
    return STATUS_OK;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_size(const void *a, const void *b) {
    const long long first = strtoll(*(const char *const *)a, NULL, 10),
                    second = strtoll(*(const char *const *)b, NULL, 10);
    return first < second ? -1 : first > second;
}

Status categories_sort(Categories *categories, Error *err) {
    if (categories->used == 0) return STATUS_OK;
    categories->names = malloc(categories->used * sizeof *categories->names);
    categories->numbers = malloc(categories->used * sizeof *categories->numbers);
    if (!categories->names || !categories->numbers)
        return fail(err, STATUS_OS, "no memory for %zu values of a column", categories->used);
    for (size_t i = 0; i < categories->room; i++)
        if (categories->table[i].text) categories->names[categories->count++] = categories->table[i].text;
    qsort(categories->names, categories->count, sizeof *categories->names, categories->are_whole ? by_size : by_bytes);
    assert(categories->count == categories->used);
    for (uint32_t i = 0; i < categories->count; i++) {
        Category *entry = entry_of(categories, categories->names[i]);
        entry->number = categories->numbers[entry->place] = i;
    }
    return STATUS_OK;
}

Status categories_number_as(Categories *categories, const char *names, Error *err) {
    char whole[WHOLE_BYTES];
    for (const char *name = names; *name; name += strlen(name) + 1)
        TRY(categories_add(categories, NULL, name, err));
    TRY(categories_sort(categories, err));
    for (size_t i = 0; i < categories->room; i++)
        categories->table[i].number = CATEGORY_NONE;
    categories->count = 0;
    for (const char *name = names; *name; name += strlen(name) + 1) {
        Category *entry = entry_of(categories, as_key(whole, name));
        if (entry->number != CATEGORY_NONE)
            return fail(err, STATUS_DATA, "the model names \"%.40s\" twice in one list; its file is damaged", name);
        entry->number = categories->count;
        categories->names[categories->count++] = entry->text;
    }
    for (size_t i = 0; i < categories->room; i++)
        if (categories->table[i].text) categories->numbers[categories->table[i].place] = categories->table[i].number;
    return STATUS_OK;
}

const char *categories_unknown(const Categories *categories) {
    for (size_t i = 0; i < categories->room; i++)
        if (categories->table[i].text && categories->table[i].number == CATEGORY_NONE) return categories->table[i].text;
    return NULL;
}

uint32_t categories_number(const Categories *categories, const char *text) {
    char whole[WHOLE_BYTES];
    if (categories->used == 0) return CATEGORY_NONE;
    const Category *entry = entry_of(categories, as_key(whole, text));
    return entry->text ? entry->number : CATEGORY_NONE;
}

uint32_t categories_names_bytes(const Categories *categories) {
    uint32_t bytes = 0;
    bool are_numbers = categories->are_whole;
    for (uint32_t i = 0; i < categories->count; i++) {
        are_numbers = are_numbers && strtoll(categories->names[i], NULL, 10) == i;
        bytes += (uint32_t)strlen(categories->names[i]) + 1;
    }
    return are_numbers ? 0 : bytes;
}

void categories_write_names(char *to, const Categories *categories) {
    for (uint32_t i = 0; i < categories->count; i++)
        to = stpcpy(to, categories->names[i]) + 1;
}

void categories_free(Categories *categories) {
    for (size_t i = 0; i < categories->room; i++)
        free(categories->table[i].text);
    free(categories->table);
    free(categories->names);
    free(categories->numbers);
    *categories = (Categories){0};
}
