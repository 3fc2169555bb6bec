// Part of csv_columns.h: refuses all columns with unfit texts or gaps in one sentence, which says how each can be read.
// Texts become features only where their values repeat: of numbers in other writing, dates or names, each row would be
// a feature, and a test's value none.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "datasets/formats/csv_columns.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 44, LIST_BYTES = 340, REMEDY_BYTES = 640, MOST_GAP_BYTES = 12 };

// Looks at columns ----------------------------------------------------------------------------------------------------

// Says whether values occur a few times each, as those of a category do.
static bool is_repeated(const CsvColumns *columns, const CsvColumn *column) {
    const uint32_t count = column->texts + (columns->one_hot ? column->numbers : 0);
    const size_t values = column->categories.used;
    return !column->has_many && values <= count / 2 && values <= 4 + count / 5;
}

// How most of the column's texts look. A comma before three digits is taken for that before a fraction if the column
// has other numbers with a comma.
static CsvLook look_of(const CsvColumn *column) {
    const uint32_t *looks = column->looks;
    CsvLook best = LOOK_WORD;
    for (CsvLook look = LOOK_COMMA; look < CSV_LOOKS; look++)
        if (2 * looks[look] >= column->texts && looks[look] > 0) best = look;
    const bool has_commas = looks[LOOK_COMMA] > 0 && 2 * (looks[LOOK_COMMA] + looks[LOOK_THOUSANDS]) >= column->texts;
    return has_commas ? LOOK_COMMA : best;
}

// Says whether a few texts among numbers are probably gaps: "-", "unknown".
static bool is_gap_like(const CsvColumn *column) {
    return column->texts > 0 && column->numbers >= 2 * column->texts && column->looks[LOOK_WORD] == column->texts &&
           strlen(column->text) <= MOST_GAP_BYTES && !strpbrk(column->text, "0123456789, \t'\"");
}

bool csv_is_unfit(const CsvColumns *columns, const CsvColumn *column) {
    if (column->role != CSV_FEATURE || column->known > 0 || column->texts == 0) return false;
    if (!columns->one_hot || column->has_many) return true;
    return (look_of(column) != LOOK_WORD || is_gap_like(column)) && !is_repeated(columns, column);
}

// The sentence --------------------------------------------------------------------------------------------------------

typedef struct Unfit {
    int texts, gaps;             // columns
    int text, gap;               // the first of each
    bool looks[CSV_LOOKS];       // of their texts
    bool is_repeated;            // the values of one of them
    const char *gap_like;        // a text of one of them; NULL: none
    const char *owner;           // the name of one of them, which may name the owners of samples; NULL: none
    char with_texts[LIST_BYTES]; // 'Name ("Braund" in line 2), ...'
    char names[LIST_BYTES];      // of the columns with texts: "Name,Sex"
    char with_gaps[LIST_BYTES];  // "Age (177), Cabin (687)"
} Unfit;

// Adds a name to those of without=, as long as all of it fits.
static void add_name(char names[LIST_BYTES], const char *name) {
    const size_t used = strlen(names);
    if (used + strlen(name) + 2 < LIST_BYTES) snprintf(names + used, LIST_BYTES - used, "%s%s", used ? "," : "", name);
}

// How a column's texts look, for a sentence: ", a date"; empty for words.
static const char *said_look(char said[48], const CsvColumn *column) {
    const char *name = is_gap_like(column) ? "probably a gap" : csv_look_names[look_of(column)];
    snprintf(said, 48, "%s%s", name ? ", " : "", name ? name : "");
    return said;
}

static void note_unfit(Unfit *unfit, const CsvColumns *columns, int index) {
    const CsvColumn *column = &columns->columns[index];
    char name[NAME_BYTES], value[TEXT_BYTES], look[48], entry[NAME_BYTES + TEXT_BYTES + 96];
    text_cut(name, sizeof name, columns->names[index]);
    if (csv_is_unfit(columns, column)) {
        if (unfit->texts++ == 0) unfit->text = index;
        unfit->looks[look_of(column)] = true;
        if (is_gap_like(column)) unfit->gap_like = column->text;
        if (settings_is_owner(columns->names[index], strlen(columns->names[index])))
            unfit->owner = columns->names[index];
        unfit->is_repeated |= look_of(column) == LOOK_WORD && !is_gap_like(column) && is_repeated(columns, column);
        snprintf(entry, sizeof entry, "%s (\"%s\" in line %u%s)", name, text_cut(value, sizeof value, column->text),
                 column->text_row, said_look(look, column));
        text_list(unfit->with_texts, LIST_BYTES, entry, strlen(entry));
        add_name(unfit->names, columns->names[index]);
    }
    if (column->gaps > 0 && !columns->fills) {
        if (unfit->gaps++ == 0) unfit->gap = index;
        snprintf(entry, sizeof entry, "%s (%u)", name, column->gaps);
        text_list(unfit->with_gaps, LIST_BYTES, entry, strlen(entry));
    }
}

static void add_remedy(char remedies[REMEDY_BYTES], const char *setting, const char *effect) {
    text_add(remedies, REMEDY_BYTES, "%s%s %s", *remedies ? ", " : "in --data, ", setting, effect);
}

// Adds a command that takes the signs out of numbers.
static void add_command(char remedies[REMEDY_BYTES], const bool looks[CSV_LOOKS], char separator) {
    char script[160] = "";
    if (looks[LOOK_THOUSANDS] || looks[LOOK_CURRENCY])
        text_add(script, sizeof script, "%s",
                 separator == ',' ? ":a;s/(\"[^\",]*[0-9]),([0-9]{3}[^\"]*\")/\\1\\2/;ta;"
                                  : ":a;s/([0-9]),([0-9]{3})/\\1\\2/;ta;");
    if (looks[LOOK_BLANKS]) text_add(script, sizeof script, ":b;s/([0-9]) ([0-9]{3})/\\1\\2/;tb;");
    if (looks[LOOK_CURRENCY]) text_add(script, sizeof script, "s/ *([$]|€|£|¥) *//g;");
    if (looks[LOOK_PERCENT]) text_add(script, sizeof script, "s/ *%%//g;");
    if (looks[LOOK_BRACKETS]) text_add(script, sizeof script, "s/\\(([0-9.]+)\\)/-\\1/g;");
    if (!*script) return;
    script[strlen(script) - 1] = '\0';
    text_add(remedies, REMEDY_BYTES, "; sed -E '%s' TABLE > NEW makes plain numbers%s", script,
             looks[LOOK_THOUSANDS] ? " of those with commas between thousands" : "");
}

static void list_remedies(char remedies[REMEDY_BYTES], const Unfit *unfit, const CsvColumns *columns) {
    char word[SETTINGS_WORD_BYTES];
    const bool is_one = unfit->texts == 1;
    *remedies = '\0';
    const bool may_be_decimal = unfit->looks[LOOK_COMMA] || (unfit->looks[LOOK_THOUSANDS] && columns->separator != ',');
    if (may_be_decimal && !columns->has_comma) add_remedy(remedies, "decimal=,", "reads numbers with a decimal comma");
    if (unfit->gap_like)
        add_remedy(remedies, settings_word(word, SETTING_GAPS, unfit->gap_like), "makes such a text a gap");
    if (unfit->owner && columns->client == CSV_NO_COLUMN)
        add_remedy(remedies, settings_word(word, SETTING_CLIENT, unfit->owner), "gives each its samples");
    if (unfit->texts > 0)
        add_remedy(
            remedies,
            settings_word(word, SETTING_WITHOUT,
                          *unfit->names && (!is_one || strlen(unfit->names) < NAME_BYTES) ? unfit->names : "COLUMN"),
            is_one ? "leaves the column out" : "leaves columns out");
    if (unfit->is_repeated && !columns->one_hot) add_remedy(remedies, "text=one-hot", "makes a number of each value");
    if (unfit->gaps > 0)
        add_remedy(remedies, "missing=drop", "leaves out the rows with gaps, missing=mean fills those of features");
    add_command(remedies, unfit->looks, columns->separator);
    if (unfit->looks[LOOK_DATE]) text_add(remedies, REMEDY_BYTES, "; a date may enter as a number of days or seconds");
}

static Status refuse_gaps_of_one(const Unfit *unfit, const CsvColumns *columns, Error *err) {
    const CsvColumn *column = &columns->columns[unfit->gap];
    const char *name_of = columns->names[unfit->gap];
    char name[NAME_BYTES], word[SETTINGS_WORD_BYTES];
    text_cut(name, sizeof name, name_of);
    settings_word(word, SETTING_WITHOUT, strlen(name_of) < NAME_BYTES ? name_of : "COLUMN");
    return fail(err, STATUS_DATA,
                "%s:%u: column %s has \"\", \"?\", \"nan\" or the like, in %u row%s; missing=drop in --data leaves "
                "such rows out%s%s",
                column->gap_path, column->gap_row, name, column->gaps, column->gaps == 1 ? "" : "s",
                column->role == CSV_FEATURE ? ", missing=mean fills them with the mean of the training samples, and "
                                            : "",
                column->role == CSV_FEATURE ? word : "");
}

static Status refuse_texts_of_one(const Unfit *unfit, const CsvColumns *columns, const char *remedies, Error *err) {
    const CsvColumn *column = &columns->columns[unfit->text];
    char name[NAME_BYTES], value[TEXT_BYTES], look[48];
    text_cut(name, sizeof name, columns->names[unfit->text]);
    text_cut(value, sizeof value, column->text);
    if (columns->one_hot)
        return fail(err, STATUS_DATA,
                    "%s:%u: column %s has \"%s\"%s among %u numbers and %u texts, of too many values for "
                    "text=one-hot; mend it; %s",
                    column->text_path, column->text_row, name, value, said_look(look, column), column->numbers,
                    column->texts, remedies);
    return fail(err, STATUS_DATA, "%s:%u: column %s has \"%s\"%s; it needs a finite number, with a point; %s",
                column->text_path, column->text_row, name, value, said_look(look, column), remedies);
}

Status csv_refuse_unfit(const CsvColumns *columns, Error *err) {
    Unfit unfit = {0};
    char remedies[REMEDY_BYTES];
    for (int i = 0; i < columns->count; i++)
        note_unfit(&unfit, columns, i);
    const bool has_texts = unfit.texts > 0, has_gaps = unfit.gaps > 0;
    if (!has_texts && !has_gaps) return STATUS_OK;
    if (unfit.texts == 0 && unfit.gaps == 1) return refuse_gaps_of_one(&unfit, columns, err);
    list_remedies(remedies, &unfit, columns);
    if (unfit.texts == 1 && unfit.gaps == 0) return refuse_texts_of_one(&unfit, columns, remedies, err);
    return fail(err, STATUS_DATA, "%s:%s%s%s%s%s; %s", columns->path, has_texts ? " texts in " : "", unfit.with_texts,
                has_texts && has_gaps ? ", and" : "", has_gaps ? " gaps in " : "", unfit.with_gaps, remedies);
}
