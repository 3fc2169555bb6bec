#include "datasets/formats/csv_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "base/text.h"

enum {
    MOST_VALUES = 1000,
    MOST_VALUES_OF_NUMBERS = 50,
    NAME_BYTES = 64,
    TEXT_BYTES = 44,
    LIST_BYTES = 300,
    NUMBER_BYTES = 64
};

// Roles ---------------------------------------------------------------------------------------------------------------

// Writes the names of columns, as many as a sentence holds.
static void list_names(char list[LIST_BYTES], const CsvTable *table) {
    enum { MOST = 8 };
    char name[28];
    *list = '\0';
    for (int column = 0; column < table->columns && column < MOST; column++) {
        text_cut(name, sizeof name, table->names[column]);
        text_list(list, LIST_BYTES, name, strlen(name));
    }
    if (table->columns > MOST) text_list(list, LIST_BYTES, "...", 3);
}

static int find_column(const CsvTable *table, const char *name) {
    for (int column = 0; column < table->columns; column++)
        if (strcmp(table->names[column], name) == 0) return column;
    return CSV_NO_COLUMN;
}

// A column of this name in letters of any case, if it is the only one.
static int find_in_any_case(const CsvTable *table, const char *name) {
    int found = CSV_NO_COLUMN;
    for (int column = 0; column < table->columns; column++) {
        if (strcasecmp(table->names[column], name) != 0) continue;
        if (found != CSV_NO_COLUMN) return CSV_NO_COLUMN;
        found = column;
    }
    return found;
}

// name: given in --data.
static Status require_column(int *column, const CsvTable *table, const char *setting, const char *name, Error *err) {
    char list[LIST_BYTES];
    *column = find_column(table, name);
    if (*column != CSV_NO_COLUMN) return STATUS_OK;
    Suggestion suggestion = {.typed = name};
    for (int i = 0; i < table->columns; i++)
        suggestion_consider(&suggestion, table->names[i]);
    list_names(list, table);
    return fail(err, STATUS_DATA, "%s:1: %s=%.60s: no column is called so%s%.60s%s; there are %s", table->path, setting,
                name, suggestion.best ? " (did you mean " : "", suggestion.best ? suggestion.best : "",
                suggestion.best ? "?)" : "", list);
}

static Status take_role(CsvColumns *columns, int column, CsvRole role, const CsvTable *table, Error *err) {
    const char *name = table->names[column];
    for (int i = column + 1; i < table->columns; i++)
        if (strcmp(table->names[i], name) == 0)
            return fail(err, STATUS_DATA, "%s:1: two columns are called %.60s", table->path, name);
    if (columns->columns[column].role != CSV_FEATURE)
        return fail(err, STATUS_DATA, "%s:1: column %.60s cannot be two things; name different columns in --data",
                    table->path, name);
    columns->columns[column].role = role;
    return STATUS_OK;
}

// A column that a setting names, else the one that is called as the setting; label and target in letters of any case.
static Status find_role(CsvColumns *columns, int *column, CsvRole role, DatasetSetting setting, const CsvTable *table,
                        Error *err) {
    const char *name = settings_table.rows->keys[setting].name;
    *column = find_column(table, name);
    if (*column == CSV_NO_COLUMN && !columns->settings->given[setting] && role != CSV_CLIENT)
        *column = find_in_any_case(table, name);
    if (columns->settings->given[setting])
        TRY(require_column(column, table, name, form_text(columns->settings, (int)setting), err));
    return *column == CSV_NO_COLUMN ? STATUS_OK : take_role(columns, *column, role, table, err);
}

// Length of the first name of a list: the longest name of a column that ends at a comma, or at the end.
static size_t name_length(const char *list, const CsvTable *table) {
    size_t longest = 0;
    for (int column = 0; column < table->columns; column++) {
        const size_t length = strlen(table->names[column]);
        const bool fits = strncmp(list, table->names[column], length) == 0 && strchr(",", list[length]);
        if (fits && length > longest) longest = length;
    }
    return longest ? longest : strcspn(list, ",");
}

static Status leave_out(CsvColumns *columns, const CsvTable *table, Error *err) {
    char name[FORM_TEXT_BYTES];
    const char *list = form_text(columns->settings, SETTING_WITHOUT);
    while (*list) {
        const size_t length = name_length(list, table);
        int column;
        snprintf(name, sizeof name, "%.*s", (int)length, list);
        TRY(require_column(&column, table, "without", name, err));
        TRY(take_role(columns, column, CSV_LEFT_OUT, table, err));
        list += length + (list[length] == ',');
    }
    return STATUS_OK;
}

// The column that is called as those to be learned often are; "COLUMN" if none is.
static const char *likely_answer(const CsvTable *table) {
    static const char *const usual[] = {"class",   "y",       "labels",    "targets",
                                        "species", "outcome", "diagnosis", "category"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const int column = find_in_any_case(table, usual[i]);
        if (column != CSV_NO_COLUMN) return table->names[column];
    }
    return "COLUMN";
}

static Status find_answer(CsvColumns *columns, const CsvTable *table, Error *err) {
    char list[LIST_BYTES];
    const bool *given = columns->settings->given;
    if (!given[SETTING_TARGET]) TRY(find_role(columns, &columns->label, CSV_LABEL, SETTING_LABEL, table, err));
    if (!given[SETTING_LABEL]) TRY(find_role(columns, &columns->target, CSV_TARGET, SETTING_TARGET, table, err));
    if (given[SETTING_LABEL] && given[SETTING_TARGET])
        return fail(err, STATUS_USAGE, "--data: label and target; give one of them");
    if (columns->label != CSV_NO_COLUMN && columns->target != CSV_NO_COLUMN)
        return fail(err, STATUS_DATA,
                    "%s:1: one column is called label and one target; leave one of them out: without=target",
                    table->path);
    if (columns->label != CSV_NO_COLUMN || columns->target != CSV_NO_COLUMN) return STATUS_OK;
    list_names(list, table);
    const char *likely = likely_answer(table);
    return fail(err, STATUS_DATA,
                "%s:1: no column is called label or target; there are %s; name the one to be learned after the place: "
                "--data \"PLACE label=%.40s\" (classes), or target=%.40s (numbers)",
                table->path, list, likely, likely);
}

// Says whether at least two names are numbers that do not count columns or years: the first row of a table without a
// header, whose other values may be texts.
static bool are_values(const CsvTable *table, const char **example) {
    int numbers = 0;
    bool ascend = true;
    double before = 0;
    for (int column = 0; column < table->columns; column++) {
        char *end;
        const double number = strtod(table->names[column], &end);
        if (end == table->names[column] || *end) continue;
        if (numbers++ == 0) *example = table->names[column];
        ascend = ascend && (numbers == 1 || number == before + 1);
        before = number;
    }
    return numbers > 1 && !ascend;
}

static Status check_header(const CsvTable *table, const Form *settings, Error *err) {
    const char *example = "";
    if (settings->given[SETTING_HEADER] || !are_values(table, &example)) return STATUS_OK;
    return fail(
        err, STATUS_DATA,
        "%s:1: names of columns are numbers, such as %.24s; if the first line has values, say so and name columns "
        "by their numbers: --data \"FILE header=no label=COLUMN\"; else say header=yes",
        table->path, example);
}

Status csv_columns_assign(CsvColumns *columns, const CsvTable *table, const Form *settings, const DatasetModel *model,
                          Error *err) {
    *columns = (CsvColumns){.settings = settings,
                            .count = table->columns,
                            .columns = calloc((size_t)table->columns, sizeof *columns->columns),
                            .names = table->names,
                            .label = CSV_NO_COLUMN,
                            .target = CSV_NO_COLUMN,
                            .client = CSV_NO_COLUMN,
                            .separator = table->separator,
                            .has_comma = settings_say(settings, SETTING_DECIMAL, ","),
                            .one_hot = settings_say(settings, SETTING_TEXT, "one-hot"),
                            .drops = settings_say(settings, SETTING_MISSING, "drop"),
                            .flags = settings_say(settings, SETTING_MISSING, "flag")};
    const bool is_asked = columns->flags || settings_say(settings, SETTING_MISSING, "mean") ||
                          settings_say(settings, SETTING_MISSING, "median");
    columns->fills = is_asked || (model && model->fills > 0 && !settings->given[SETTING_MISSING]);
    if (!columns->columns) return fail(err, STATUS_OS, "no memory for the columns of %s", table->path);
    Status status = check_header(table, settings, err);
    if (status == STATUS_OK) status = leave_out(columns, table, err);
    if (status == STATUS_OK) status = find_answer(columns, table, err);
    if (status == STATUS_OK) status = find_role(columns, &columns->client, CSV_CLIENT, SETTING_CLIENT, table, err);
    columns->kind = columns->client != CSV_NO_COLUMN ? columns->client : columns->label;
    for (int i = 0; i < columns->count; i++)
        columns->features += columns->columns[i].role == CSV_FEATURE;
    if (status == STATUS_OK && columns->features == 0)
        status = fail(err, STATUS_DATA, "%s:1: no column is left for a sample's numbers", table->path);
    return status == STATUS_OK ? csv_features_expect(columns, model, err) : status;
}

void csv_columns_free(CsvColumns *columns) {
    for (int i = 0; i < columns->count && columns->columns; i++) {
        free(columns->columns[i].text);
        categories_free(&columns->columns[i].categories);
    }
    free(columns->columns);
    free(columns->kinds);
    *columns = (CsvColumns){0};
}

// Values --------------------------------------------------------------------------------------------------------------

// Says whether the text is one of a list between commas.
static bool is_listed(const char *list, const char *text) {
    const size_t bytes = strlen(text);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == bytes && strncmp(list, text, bytes) == 0) return true;
    return false;
}

// The texts that pandas takes for a missing value, "?" of the UCI repository, and those of the setting.
bool csv_is_gap(const CsvColumns *columns, const char *text) {
    static const char *const gaps[] = {"?",    "NA",       "N/A",    "n/a",     "NaN",     "nan",     "NAN",
                                       "-nan", "-NaN",     "null",   "NULL",    "None",    "<NA>",    "#N/A",
                                       "#NA",  "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"};
    if (!*text || is_listed(form_text(columns->settings, SETTING_GAPS), text)) return true;
    if (!strchr("?Nn-<#1", *text) || (strchr("-1", *text) && !strpbrk(text, "#nN"))) return false;
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (strcmp(text, gaps[i]) == 0) return true;
    return false;
}

bool csv_leaves_out(const CsvColumns *columns, const CsvTable *table) {
    if (!columns->drops && !columns->fills) return false;
    for (int i = 0; i < columns->count; i++)
        if (columns->columns[i].role != CSV_LEFT_OUT && !(columns->fills && columns->columns[i].role == CSV_FEATURE) &&
            csv_is_gap(columns, table->fields[i]))
            return true;
    return false;
}

// Reads "1.234,5" as 1234.5. Points alone are refused: that of 1.234 may separate the fraction.
static const char *with_point(char plain[NUMBER_BYTES], const char *text) {
    const char *comma = strchr(text, ',');
    char *to = plain;
    if ((!comma && !strchr(text, '.')) || strlen(text) >= NUMBER_BYTES) return text;
    if (!comma) return "";
    for (const char *from = text; *from; from++) {
        const bool is_between = *from == '.' && from > text && from < comma && strspn(from + 1, "0123456789") == 3;
        if (*from == '.' && !is_between) return "";
        if (*from != '.') *to++ = *from == ',' ? '.' : *from;
    }
    *to = '\0';
    return plain;
}

bool csv_number(double *number, const CsvColumns *columns, const char *text) {
    char *end, plain[NUMBER_BYTES];
    if (columns->has_comma) text = with_point(plain, text);
    *number = strtod(text, &end);
    if (end != text && !*end) return isfinite((float)*number);
    const bool is_true = strcasecmp(text, "true") == 0;
    *number = is_true;
    return is_true || strcasecmp(text, "false") == 0;
}

static Status refuse_infinite(const CsvTable *table, const char *column, const char *text, Error *err) {
    char name[NAME_BYTES], value[TEXT_BYTES], *end;
    const bool is_too_large = isfinite(strtod(text, &end));
    return fail(err, STATUS_DATA, "%s:%u: column %s has \"%s\"; it needs %s", table->path, table->row,
                text_cut(name, sizeof name, column), text_cut(value, sizeof value, text),
                is_too_large ? "a number of single precision, at most 3.4e38" : "a finite number, with a point");
}

static bool is_infinite(const char *text) {
    char *end;
    return isinf((float)strtod(text, &end)) && !*end;
}

static Status note_text(CsvColumn *column, const CsvTable *table, const char *text, Error *err) {
    column->texts++;
    column->looks[csv_look_of(text)]++;
    if (column->text) return STATUS_OK;
    column->text = strdup(text);
    column->text_row = table->row;
    column->text_path = table->path;
    return column->text ? STATUS_OK : fail(err, STATUS_OS, "no memory for the values of %s", table->path);
}

static Status learn_number(bool *is_number, CsvColumns *columns, const CsvTable *table, int index, Error *err) {
    CsvColumn *column = &columns->columns[index];
    const char *text = table->fields[index];
    double number = 0;
    *is_number = csv_number(&number, columns, text);
    if (!*is_number && column->role != CSV_LABEL && is_infinite(text))
        return refuse_infinite(table, table->names[index], text, err);
    if (!*is_number) return note_text(column, table, text, err);
    if (column->numbers == 0 || number < column->least) column->least = number;
    if (column->numbers == 0 || number > column->greatest) column->greatest = number;
    column->numbers++;
    return STATUS_OK;
}

// Names of classes and values are noted as UTF-8: other bytes would all be '?', and different names one.
static Status require_utf8(const CsvTable *table, int index, Error *err) {
    const char *text = table->fields[index], *rest = text;
    char name[NAME_BYTES], value[TEXT_BYTES];
    while (text_letter(rest) > 0)
        rest += text_letter(rest);
    if (!*rest) return STATUS_OK;
    return fail(
        err, STATUS_DATA,
        "%s:%u: column %s has \"%s\", which is not UTF-8; save the table so: iconv -f latin1 -t utf-8 TABLE > NEW",
        table->path, table->row, text_cut(name, sizeof name, table->names[index]), text_cut(value, sizeof value, text));
}

// Classes and clients are the values of the training samples. A class has the name that a model notes of it.
static Status learn_key(CsvColumns *columns, int index, const CsvTable *table, CsvPart part, Error *err) {
    CsvColumn *column = &columns->columns[index];
    if (column->role == CSV_LABEL) TRY(require_utf8(table, index, err));
    if (column->role == CSV_LABEL) disarm_text(table->fields[index]);
    const char *text = table->fields[index];
    uint32_t place;
    bool is_number;
    TRY(learn_number(&is_number, columns, table, index, err));
    if (part == CSV_TEST) return STATUS_OK;
    TRY(categories_add(&column->categories, &place, text, err));
    if (index == columns->kind) columns->kinds[columns->rows[CSV_TRAIN]] = place;
    return STATUS_OK;
}

static Status learn_value(CsvColumns *columns, int index, const CsvTable *table, CsvPart part, Error *err) {
    CsvColumn *column = &columns->columns[index];
    const char *text = table->fields[index];
    if (column->role == CSV_LEFT_OUT) return STATUS_OK;
    if (csv_is_gap(columns, text)) {
        if (column->gaps++ == 0) column->gap_row = table->row, column->gap_path = table->path;
        return STATUS_OK;
    }
    if (column->role == CSV_LABEL || column->role == CSV_CLIENT) return learn_key(columns, index, table, part, err);
    bool is_number;
    TRY(learn_number(&is_number, columns, table, index, err));
    if (is_number && !columns->one_hot && column->known == 0) return STATUS_OK;
    if (columns->one_hot || column->known > 0) {
        TRY(require_utf8(table, index, err));
        disarm_text(table->fields[index]); // as a model notes it
    }
    const bool is_full =
        column->known == 0 && column->categories.used >= (column->texts ? MOST_VALUES : MOST_VALUES_OF_NUMBERS + 1);
    column->has_many = column->has_many || is_full;
    return is_full ? STATUS_OK : categories_add(&column->categories, NULL, text, err);
}

static Status make_room(CsvColumns *columns, const CsvTable *table, Error *err) {
    if (columns->rows[CSV_TRAIN] < columns->room) return STATUS_OK;
    columns->room = columns->room ? 2 * columns->room : 1024;
    uint32_t *kinds = realloc(columns->kinds, columns->room * sizeof *kinds);
    if (!kinds) return fail(err, STATUS_OS, "no memory for the labels of %s", table->path);
    columns->kinds = kinds;
    return STATUS_OK;
}

Status csv_columns_learn(CsvColumns *columns, CsvTable *table, CsvPart part, Error *err) {
    if (!columns->path) columns->path = table->path;
    for (bool more = true;;) {
        TRY(csv_next_row(&more, table, err));
        if (!more) break;
        if (columns->rows[part] == INT32_MAX)
            return fail(err, STATUS_DATA, "%s:%u: too many lines", table->path, table->row);
        if (csv_leaves_out(columns, table)) {
            columns->dropped++;
            continue;
        }
        if (part == CSV_TRAIN) TRY(make_room(columns, table, err));
        for (int i = 0; i < columns->count; i++)
            TRY(learn_value(columns, i, table, part, err));
        columns->rows[part]++;
    }
    if (columns->rows[part] > 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: no lines but the first%s", table->path,
                columns->dropped > 0 ? " are without gaps" : "");
}
