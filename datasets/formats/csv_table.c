#include "datasets/formats/csv_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/text.h"
#include "datasets/formats/format.h"

// Lines and fields ----------------------------------------------------------------------------------------------------

Status csv_next_line(bool *more, CsvTable *table, Error *err) {
    for (;;) {
        errno = 0;
        ssize_t length = getline(&table->line, &table->room, table->file);
        *more = length >= 0;
        if (!*more && (ferror(table->file) || errno == ENOMEM))
            return fail_errno(err, STATUS_IO, "%s:%u", table->path, table->number + 1);
        if (!*more) return STATUS_OK;
        table->number++;
        if (strlen(table->line) != (size_t)length)
            return fail(err, STATUS_DATA, "%s:%u: a zero byte; give a text in UTF-8", table->path, table->number);
        while (length > 0 && (table->line[length - 1] == '\n' || table->line[length - 1] == '\r'))
            table->line[--length] = '\0';
        if (length > 0) return STATUS_OK;
    }
}

char *csv_next_field(char **rest) {
    char *field = *rest;
    if (!field) return NULL;
    char *comma = strchr(field, ',');
    *rest = comma ? comma + 1 : NULL;
    char *end = comma ? comma : field + strlen(field);
    field += strspn(field, " \t");
    while (end > field && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (end - field >= 2 && *field == '"' && end[-1] == '"') field++, end--;
    *end = '\0';
    return field;
}

bool csv_is_torn(const char *field) {
    return *field == '"';
}

// Names ---------------------------------------------------------------------------------------------------------------

const char *csv_name(const CsvTable *table, int column) {
    const char *name = table->names;
    for (; column > 0; column--)
        name += strlen(name) + 1;
    return name;
}

bool csv_has_same_names(const CsvTable *a, const CsvTable *b) {
    return a->columns == b->columns && a->names_bytes == b->names_bytes &&
           memcmp(a->names, b->names, a->names_bytes) == 0;
}

// A column without a name usually contains the row numbers that pandas and R write by default: it would become a
// feature, and if rows are sorted by class it gives the label away. pandas names such a column "Unnamed: 0" when it
// reads it.
static Status check_name(const CsvTable *table, const char *name, bool is_last, Error *err) {
    const int column = table->columns + 1;
    const bool is_unnamed = strncmp(name, "Unnamed: ", strlen("Unnamed: ")) == 0;
    if (csv_is_torn(name))
        return fail(err, STATUS_DATA,
                    "%s:1: the name of column %d has a comma or an end of line within quotes; give it another name",
                    table->path, column);
    if (*name && !is_unnamed) return STATUS_OK;
    if (column == 1 || is_unnamed)
        return fail(
            err, STATUS_DATA,
            "%s:1: column %d has %s%s, as pandas' and R's row numbers have: they would become a feature; write the "
            "table without them: df.to_csv(FILE, index=False), write.csv(..., row.names=FALSE)",
            table->path, column, *name ? "the name " : "no name", name);
    return fail(err, STATUS_DATA, "%s:1: column %d has no name; %s", table->path, column,
                is_last ? "leave out the comma at the end of the line" : "each column needs one");
}

// Refuses a line that is no list of names, and columns that are separated by another character.
static Status check_first_line(const CsvTable *table, Error *err) {
    if (strchr(table->line, '\r'))
        return fail(err, STATUS_DATA,
                    "%s:1: lines end with carriage returns alone; end them with newlines: tr '\\r' '\\n'", table->path);
    const char *separator = strchr(table->line, ',') ? NULL : strpbrk(table->line, ";\t|");
    if (!separator) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s:1: columns are separated by %s%.*s%s; separate them by commas, with points in numbers", table->path,
                *separator == '\t' ? "tabs" : "\"", *separator == '\t' ? 0 : 1, separator,
                *separator == '\t' ? "" : "\"");
}

// Writes the sentence for a first line without a column label or target, depending on its contents.
static Status no_label(const CsvTable *table, Error *err) {
    enum { MOST = 8 };
    char names[256] = "", name[28], *end;
    int numbers = 0;
    const char *at = table->names;
    for (int column = 0; column < table->columns; column++, at += strlen(at) + 1) {
        strtod(at, &end);
        numbers += end != at && !*end;
        text_cut(name, sizeof name, at);
        if (column < MOST) text_list(names, sizeof names, name, strlen(name));
    }
    if (*table->names == '#')
        return fail(err, STATUS_DATA, "%s:1: a comment; the first line has the names of the columns", table->path);
    if (numbers == table->columns)
        return fail(err, STATUS_DATA, "%s:1: numbers; the first line has the names of the columns, one of them label",
                    table->path);
    return fail(
        err, STATUS_DATA,
        "%s:1: no column is called label or target; there are %s%s; call the one to be learned label (classes from "
        "0) or target (numbers)",
        table->path, names, table->columns > MOST ? ", ..." : "");
}

// Stores the names one after another, each with its '\0', and finds the columns that are no numbers of a sample.
static Status read_names(CsvTable *table, Error *err) {
    char *rest = table->line, *to = table->names = malloc(strlen(table->line) + 2);
    if (!to) return fail(err, STATUS_OS, "no memory for the columns of %s", table->path);
    if (strncmp(rest, "\xef\xbb\xbf", 3) == 0) rest += 3;
    TRY(check_first_line(table, err));
    table->label = table->target = table->client = CSV_NO_COLUMN;
    table->columns = 0;
    for (char *field; (field = csv_next_field(&rest)); table->columns++) {
        TRY(check_name(table, field, !rest, err));
        int *const role = strcmp(field, "label") == 0    ? &table->label
                          : strcmp(field, "target") == 0 ? &table->target
                          : strcmp(field, "client") == 0 ? &table->client
                                                         : NULL;
        if (role && *role != CSV_NO_COLUMN)
            return fail(err, STATUS_DATA, "%s:1: two columns are called %s", table->path, field);
        if (role) *role = table->columns;
        to = stpcpy(to, field) + 1;
    }
    table->names_bytes = (size_t)(to - table->names);
    if (table->label == CSV_NO_COLUMN && table->target == CSV_NO_COLUMN) return no_label(table, err);
    if (table->label != CSV_NO_COLUMN && table->target != CSV_NO_COLUMN)
        return fail(err, STATUS_DATA, "%s:1: one column is called label and one target; leave one of them out",
                    table->path);
    if (table->columns - (table->client != CSV_NO_COLUMN) < 2)
        return fail(err, STATUS_DATA, "%s:1: no column is left for a sample's numbers", table->path);
    return STATUS_OK;
}

// Opening -------------------------------------------------------------------------------------------------------------

void csv_close(CsvTable *table) {
    if (table->file) fclose(table->file);
    free(table->line);
    free(table->names);
    *table = (CsvTable){0};
}

// Writes the sentence for a missing table; the folder may have it under a name that other programs use.
static Status missing(const char *place, const char *name, Error *err) {
    const int why = errno;
    char other[DATASET_PATH_BYTES];
    if (why == ENOENT && dataset_other_table(other, place))
        return fail(err, STATUS_NOINPUT,
                    "%s: no file %s, where %s is; a table's parts are called train.csv and test.csv", place, name,
                    other);
    errno = why;
    return fail_errno(err, STATUS_NOINPUT, "%s/%s", place, name);
}

Status csv_open(CsvTable *table, const char *place, const char *name, Error *err) {
    struct stat about;
    bool more = false;
    *table = (CsvTable){0};
    if (snprintf(table->path, sizeof table->path, "%s/%s", place, name) >= DATASET_PATH_BYTES)
        return fail(err, STATUS_NOINPUT, "%s: a path of more than %d bytes", place, DATASET_PATH_BYTES - 1);
    if (stat(table->path, &about) == 0 && !S_ISREG(about.st_mode))
        return fail(err, STATUS_DATA, "%s: not a regular file", table->path);
    table->file = fopen(table->path, "re");
    if (!table->file) return missing(place, name, err);
    Status status = csv_next_line(&more, table, err);
    if (status == STATUS_OK)
        status = more ? read_names(table, err)
                      : fail(err, STATUS_DATA, "%s: empty; its first line has the names of columns", table->path);
    if (status != STATUS_OK) csv_close(table);
    return status;
}
