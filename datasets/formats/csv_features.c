// Part of csv_columns.h: the names of a table's features, and the values of texts that a model knows.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/text.h"
#include "datasets/formats/csv_columns.h"

static const char flag[] = {DATASET_IS_GAP, '\0'};

uint64_t csv_columns_hash(const CsvColumns *columns) {
    uint64_t hash = 0;
    for (int i = 0; i < columns->count; i++) {
        const CsvColumn *column = &columns->columns[i];
        if (column->role != CSV_FEATURE) continue;
        hash = XXH3_64bits_withSeed(columns->names[i], strlen(columns->names[i]), hash);
        for (uint32_t k = 0; csv_is_one_hot(columns, column) && k < column->categories.count; k++)
            hash = XXH3_64bits_withSeed(column->categories.names[k], strlen(column->categories.names[k]) + 1, hash);
        if (column->is_flagged) hash = XXH3_64bits_withSeed(flag, sizeof flag, hash);
    }
    return hash;
}

// Writes the name of a feature without what a terminal or a separator would take for its own. value: NULL if the
// column is one number.
static void put_name(char *to, const char *column, const char *value) {
    char *end = stpcpy(to, column);
    disarm_text(to);
    if (!value) return;
    *end = DATASET_VALUE_FOLLOWS;
    strcpy(end + 1, value);
    disarm_text(end + 1);
}

uint64_t csv_features_write(char *to, const CsvColumns *columns) {
    uint64_t bytes = 0;
    for (int i = 0; i < columns->count; i++) {
        const CsvColumn *column = &columns->columns[i];
        const bool is_hot = csv_is_one_hot(columns, column);
        if (column->role != CSV_FEATURE) continue;
        for (uint32_t k = 0; k < (is_hot ? column->categories.count : 1); k++) {
            const char *value = is_hot ? column->categories.names[k] : NULL;
            if (to) put_name(to + bytes, columns->names[i], value);
            bytes += strlen(columns->names[i]) + 1 + (value ? strlen(value) + 1 : 0);
        }
        if (!column->is_flagged) continue;
        if (to) put_name(to + bytes, columns->names[i], NULL);
        bytes += strlen(columns->names[i]) + sizeof flag;
        if (to) memcpy(to + bytes - sizeof flag, flag, sizeof flag);
    }
    return bytes;
}

// The model's features of one column that is texts begin here: returns how many there are.
static uint32_t count_values(const char *features, const char *name) {
    const size_t bytes = strlen(name);
    uint32_t count = 0;
    for (; strncmp(features, name, bytes) == 0 && features[bytes] == DATASET_VALUE_FOLLOWS; count++)
        features += strlen(features) + 1;
    return count;
}

// Columns that differ from the model's are refused by the hash of all names, later.
Status csv_features_expect(CsvColumns *columns, const DatasetModel *model, Error *err) {
    const char *features = model && !model->are_tokens ? model->feature_names : NULL;
    for (int i = 0; i < columns->count && features; i++) {
        CsvColumn *column = &columns->columns[i];
        char *name = column->role == CSV_FEATURE ? strdup(columns->names[i]) : NULL;
        if (column->role != CSV_FEATURE) continue;
        if (!name) return fail(err, STATUS_OS, "no memory for the names of columns");
        disarm_text(name);
        column->known = count_values(features, name);
        column->known_values = column->known ? features : NULL;
        for (uint32_t k = 0; *features && k < (column->known ? column->known : 1); k++)
            features += strlen(features) + 1;
        column->is_flagged = strncmp(features, name, strlen(name)) == 0 && strcmp(features + strlen(name), flag) == 0;
        if (column->is_flagged) features += strlen(features) + 1;
        free(name);
    }
    return STATUS_OK;
}

Status csv_features_number(CsvColumn *column, const char *name, const char *path, Error *err) {
    Categories *categories = &column->categories;
    const char *name_of = column->known_values, *end = name_of;
    for (uint32_t k = 0; k < column->known; k++)
        end += strlen(end) + 1;
    char list[160] = "", shown[28], *values = malloc((size_t)(end - name_of) + 1), *to = values;
    if (!values) return fail(err, STATUS_OS, "no memory for %u values of a column", column->known);
    for (; name_of < end; name_of += strlen(name_of) + 1) {
        const char *value = strchr(name_of, DATASET_VALUE_FOLLOWS) + 1;
        to = stpcpy(to, value) + 1;
        text_cut(shown, sizeof shown, value);
        text_list(list, sizeof list, shown, strlen(shown));
    }
    *to = '\0';
    const Status status = categories_number_as(categories, values, err);
    free(values);
    TRY(status);
    const char *unknown = categories_unknown(categories);
    if (!unknown) return STATUS_OK;
    return fail(
        err, STATUS_DATA,
        "%s: column %.60s has \"%.40s\", a value that the model does not know; it knows %s; leave such rows out, "
        "or train a model on a table that has it",
        path, name, unknown, list);
}
