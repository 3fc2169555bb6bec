// Part of csv_columns.h: numbers the values of a table's columns, or refuses all unfit columns in one sentence.
#include "datasets/formats/csv_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 44, LIST_BYTES = 340 };

typedef struct Unfit {
    int texts, gaps;             // columns
    int text, gap;               // the first of each
    char with_texts[LIST_BYTES]; // 'Name ("Braund" in line 2), ...'
    char names[LIST_BYTES];      // of the columns with texts: "Name,Sex"
    char with_gaps[LIST_BYTES];  // "Age (177), Cabin (687)"
} Unfit;

// A setting with the name of a column; a long one would be cut, and no column would be called so.
static char *setting_of(char word[SETTINGS_WORD_BYTES], DatasetSetting setting, const char *name) {
    return settings_word(word, setting, strlen(name) < NAME_BYTES ? name : "COLUMN");
}

// Adds a name to those of without=, as long as all of it fits.
static void add_name(char names[LIST_BYTES], const char *name) {
    const size_t used = strlen(names);
    if (used + strlen(name) + 2 < LIST_BYTES) snprintf(names + used, LIST_BYTES - used, "%s%s", used ? "," : "", name);
}

static bool is_unfit_text(const CsvColumns *columns, const CsvColumn *column) {
    return column->role == CSV_FEATURE && column->known == 0 && column->texts > 0 &&
           (!columns->one_hot || column->has_many);
}

static void note_unfit(Unfit *unfit, const CsvColumns *columns, int index) {
    const CsvColumn *column = &columns->columns[index];
    char name[NAME_BYTES], value[TEXT_BYTES], entry[NAME_BYTES + TEXT_BYTES + 32];
    text_cut(name, sizeof name, columns->names[index]);
    if (is_unfit_text(columns, column)) {
        if (unfit->texts++ == 0) unfit->text = index;
        snprintf(entry, sizeof entry, "%s (\"%s\" in line %u)", name, text_cut(value, sizeof value, column->text),
                 column->text_row);
        text_list(unfit->with_texts, LIST_BYTES, entry, strlen(entry));
        add_name(unfit->names, columns->names[index]);
    }
    if (column->gaps > 0) {
        if (unfit->gaps++ == 0) unfit->gap = index;
        snprintf(entry, sizeof entry, "%s (%u)", name, column->gaps);
        text_list(unfit->with_gaps, LIST_BYTES, entry, strlen(entry));
    }
}

static Status refuse_one(const Unfit *unfit, const CsvColumns *columns, Error *err) {
    const bool is_text = unfit->texts > 0;
    const int index = is_text ? unfit->text : unfit->gap;
    const CsvColumn *column = &columns->columns[index];
    char name[NAME_BYTES], value[TEXT_BYTES], word[SETTINGS_WORD_BYTES];
    text_cut(name, sizeof name, columns->names[index]);
    setting_of(word, SETTING_WITHOUT, columns->names[index]);
    if (!is_text)
        return fail(err, STATUS_DATA,
                    "%s:%u: column %s has \"\", \"?\", \"nan\" or the like, in %u row%s; missing=drop in --data leaves "
                    "such rows out%s%s",
                    columns->paths[column->gap_part], column->gap_row, name, column->gaps, column->gaps == 1 ? "" : "s",
                    column->role == CSV_FEATURE ? ", and " : "", column->role == CSV_FEATURE ? word : "");
    text_cut(value, sizeof value, column->text);
    if (columns->one_hot)
        return fail(err, STATUS_DATA,
                    "%s:%u: column %s has \"%s\" among %u numbers and %u texts, of too many values for text=one-hot; "
                    "mend it, or leave the column out: %s in --data",
                    columns->paths[column->text_part], column->text_row, name, value, column->numbers, column->texts,
                    word);
    return fail(err, STATUS_DATA,
                "%s:%u: column %s has \"%s\"; it needs a finite number, with a point; in --data, %s leaves the "
                "column out and text=one-hot makes a number of each value",
                columns->paths[column->text_part], column->text_row, name, value, word);
}

// One sentence names all columns that are no numbers.
static Status refuse_unfit(const CsvColumns *columns, Error *err) {
    Unfit unfit = {0};
    for (int i = 0; i < columns->count; i++)
        note_unfit(&unfit, columns, i);
    const bool has_texts = unfit.texts > 0, has_gaps = unfit.gaps > 0;
    if (!has_texts && !has_gaps) return STATUS_OK;
    if (unfit.texts + unfit.gaps == 1) return refuse_one(&unfit, columns, err);
    char word[SETTINGS_WORD_BYTES] = "";
    if (has_texts) settings_word(word, SETTING_WITHOUT, *unfit.names ? unfit.names : "COLUMN");
    return fail(err, STATUS_DATA, "%s:%s%s%s%s%s; in --data, %s%s%s%s%s", columns->paths[CSV_TRAIN],
                has_texts ? " texts in " : "", unfit.with_texts, has_texts && has_gaps ? ", and" : "",
                has_gaps ? " gaps in " : "", unfit.with_gaps, word, has_texts ? " leaves columns out" : "",
                has_texts && !columns->one_hot ? ", text=one-hot makes a number of each value" : "",
                has_texts && has_gaps ? ", " : "", has_gaps ? "missing=drop leaves out the rows with gaps" : "");
}

static Status check_target(const CsvColumns *columns, Error *err) {
    if (columns->target == CSV_NO_COLUMN) return STATUS_OK;
    const CsvColumn *column = &columns->columns[columns->target];
    char name[NAME_BYTES], value[TEXT_BYTES], word[SETTINGS_WORD_BYTES];
    if (column->texts == 0) return STATUS_OK;
    text_cut(name, sizeof name, columns->names[columns->target]);
    return fail(err, STATUS_DATA,
                "%s:%u: column %s has \"%s\"; a target is a finite number, with a point; for classes say %s in "
                "--data",
                columns->paths[column->text_part], column->text_row, name, text_cut(value, sizeof value, column->text),
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
                    columns->paths[CSV_TRAIN], name, categories->used, DATASET_MAX_CLASSES, word);
    if (column->texts > 0 || categories->are_whole) return STATUS_OK;
    for (size_t i = 0; i < categories->room; i++) // true and false are names
        if (categories->table[i].text && strpbrk(categories->table[i].text, "0123456789") &&
            !category_is_whole(&whole, categories->table[i].text))
            return fail(err, STATUS_DATA,
                        "%s: column %s has \"%.40s\"; classes are whole numbers or names; for quantities say "
                        "%s in --data",
                        columns->paths[CSV_TRAIN], name, categories->table[i].text, word);
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
                    columns->paths[CSV_TRAIN], name, value, said, said - 1);
    return fail(err, STATUS_DATA, "%s: column %s has \"%s\", a class that the model does not know",
                columns->paths[CSV_TRAIN], name, value);
}

Status csv_columns_settle(CsvColumns *columns, const DatasetModel *model, Error *err) {
    TRY(check_target(columns, err));
    TRY(refuse_unfit(columns, err));
    TRY(check_label(columns, err));
    columns->features = 0;
    for (int i = 0; i < columns->count; i++) {
        CsvColumn *column = &columns->columns[i];
        const bool is_hot = csv_is_one_hot(columns, column);
        if (column->role == CSV_LABEL) TRY(number_classes(columns, model, err));
        if (column->known > 0)
            TRY(csv_features_number(column, columns->names[i], columns->paths[CSV_TRAIN], err));
        else if (is_hot || column->role == CSV_CLIENT)
            TRY(categories_sort(&column->categories, err));
        if (column->role == CSV_FEATURE) columns->features += is_hot ? column->categories.count : 1;
    }
    for (uint32_t row = 0; row < columns->rows[CSV_TRAIN] && columns->kind != CSV_NO_COLUMN; row++)
        columns->kinds[row] = columns->columns[columns->kind].categories.numbers[columns->kinds[row]];
    return STATUS_OK;
}
