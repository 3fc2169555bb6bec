// Part of csv_columns.h: numbers the values of a table's columns.
#include "datasets/formats/csv_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 44 };

// A setting with the name of a column; a long one would be cut, and no column would be called so.
static char *setting_of(char word[SETTINGS_WORD_BYTES], DatasetSetting setting, const char *name) {
    return settings_word(word, setting, strlen(name) < NAME_BYTES ? name : "COLUMN");
}

static Status check_target(const CsvColumns *columns, Error *err) {
    if (columns->target == CSV_NO_COLUMN) return STATUS_OK;
    const CsvColumn *column = &columns->columns[columns->target];
    char name[NAME_BYTES], value[TEXT_BYTES], word[SETTINGS_WORD_BYTES];
    if (column->texts == 0) return STATUS_OK;
    text_cut(name, sizeof name, columns->names[columns->target]);
    return fail(err, STATUS_DATA,
                "%s:%u: column %s has \"%s\"; a target is a finite number, with a point%s; for classes say %s in "
                "--data",
                column->text_path, column->text_row, name, text_cut(value, sizeof value, column->text),
                column->looks[LOOK_COMMA] > 0 ? ", or a comma and decimal=, in --data" : "",
                setting_of(word, SETTING_LABEL, columns->names[columns->target]));
}

// Numbers that are not whole are quantities.
static Status check_label(const CsvColumns *columns, Error *err) {
    if (columns->label == CSV_NO_COLUMN) return STATUS_OK;
    const CsvColumn *column = &columns->columns[columns->label];
    const Categories *categories = &column->categories;
    char name[NAME_BYTES], word[SETTINGS_WORD_BYTES];
    int64_t whole;
    text_cut(name, sizeof name, columns->names[columns->label]);
    setting_of(word, SETTING_TARGET, columns->names[columns->label]);
    if (categories->used > DATASET_MAX_CLASSES)
        return fail(err, STATUS_DATA,
                    "%s: column %s has %zu values; at most %d classes are read; for quantities say "
                    "%s in --data",
                    columns->path, name, categories->used, DATASET_MAX_CLASSES, word);
    if (column->texts > 0 || categories->are_whole) return STATUS_OK;
    for (size_t i = 0; i < categories->room; i++) // true and false are names
        if (categories->table[i].text && strpbrk(categories->table[i].text, "0123456789") &&
            !category_is_whole(&whole, categories->table[i].text))
            return fail(err, STATUS_DATA,
                        "%s: column %s has \"%.40s\"; classes are whole numbers or names; for quantities say "
                        "%s in --data",
                        columns->path, name, categories->table[i].text, word);
    return STATUS_OK;
}

// Classes are their own numbers, of which not all need occur.
static Status number_as_said(Categories *categories, uint32_t classes, Error *err) {
    enum { MOST_BYTES = 6 }; // of a number below DATASET_MAX_CLASSES
    char *names = calloc(classes + 1, MOST_BYTES), *to = names;
    if (!names) return fail(err, STATUS_OS, "no memory for %u classes", classes);
    for (uint32_t i = 0; i < classes; i++)
        to += sprintf(to, "%u", i) + 1;
    const Status status = categories_number_as(categories, names, err);
    free(names);
    return status;
}

// Classes have the numbers of the model, if there is one that knows their names, or are numbers as the settings or the
// model say.
static Status number_classes(CsvColumns *columns, const DatasetModel *model, Error *err) {
    Categories *categories = &columns->columns[columns->label].categories;
    char name[NAME_BYTES], value[TEXT_BYTES];
    uint32_t said = settings_classes(columns->settings);
    if (said == 0 && model && !model->class_names) said = model->outputs;
    if (said == 0 && !(model && model->class_names)) return categories_sort(categories, err);
    TRY(said > 0 ? number_as_said(categories, said, err) : categories_number_as(categories, model->class_names, err));
    const char *unknown = categories_unknown(categories);
    if (!unknown) return STATUS_OK;
    text_cut(name, sizeof name, columns->names[columns->label]);
    text_cut(value, sizeof value, unknown);
    if (said > 0)
        return fail(err, STATUS_DATA, "%s: column %s has \"%s\"; %u classes are whole numbers from 0 to %u",
                    columns->path, name, value, said, said - 1);
    return fail(err, STATUS_DATA, "%s: column %s has \"%s\", a class that the model does not know", columns->path, name,
                value);
}

Status csv_columns_settle(CsvColumns *columns, const DatasetModel *model, Error *err) {
    TRY(check_target(columns, err));
    TRY(csv_refuse_unfit(columns, err));
    TRY(check_label(columns, err));
    columns->features = 0;
    for (int i = 0; i < columns->count; i++) {
        CsvColumn *column = &columns->columns[i];
        const bool is_hot = csv_is_one_hot(columns, column);
        if (column->role == CSV_LABEL) TRY(number_classes(columns, model, err));
        if (column->known > 0)
            TRY(csv_features_number(column, columns->names[i], columns->path, err));
        else if (is_hot || column->role == CSV_CLIENT)
            TRY(categories_sort(&column->categories, err));
        if (columns->flags && !(model && model->feature_names))
            column->is_flagged = column->gaps > 0 && column->role == CSV_FEATURE;
        if (column->role == CSV_FEATURE)
            columns->features += (is_hot ? column->categories.count : 1) + column->is_flagged;
    }
    for (uint32_t row = 0; row < columns->rows[CSV_TRAIN] && columns->kind != CSV_NO_COLUMN; row++)
        columns->kinds[row] = columns->columns[columns->kind].categories.numbers[columns->kinds[row]];
    return STATUS_OK;
}
