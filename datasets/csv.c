// Tables as data sets: train.csv and test.csv with the same first line, the columns' names. One column is `label` (a
// class, a whole number from 0) or `target` (a number, for the squared loss), one may be `client` (whose sample it is,
// a whole number from 0); all others are a sample's numbers.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datasets/format.h"
#include "datasets/unpacked_cache.h"

enum { GREATEST_CLIENT = INT32_MAX - 1, NO_COLUMN = -1 };

typedef struct Table {
    char path[DATASET_PATH_BYTES];
    FILE *file;
    char *line; // of getline; cut into fields
    size_t room;
    char *names;                        // the first line; owned
    uint32_t number;                    // of the line that was read last
    int columns, label, target, client; // places; NO_COLUMN where there is none
} Table;

// Lines and fields ----------------------------------------------------------------------------------------------------

// Reads a line that is not blank, without its end. *more is false at the end of the file.
static Status next_line(bool *more, Table *table, Error *err) {
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

// Takes the next field off *rest, without blanks and quotes around it; NULL when there is none.
static char *next_field(char **rest) {
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

// The name of a column, for sentences.
static const char *name_of(const Table *table, int column) {
    const char *name = table->names;
    for (; column > 0; column--)
        name += strlen(name) + 1;
    return name;
}

static Status put_role(int *role, int column, const Table *table, const char *name, Error *err) {
    if (*role != NO_COLUMN) return fail(err, STATUS_DATA, "%s:1: two columns are called %s", table->path, name);
    *role = column;
    return STATUS_OK;
}

// Keeps the names behind one another, each with its end, and finds the columns that are no numbers of a sample.
static Status read_names(Table *table, Error *err) {
    char *rest = table->line, *to = table->names = malloc(strlen(table->line) + 2);
    if (!to) return fail(err, STATUS_OS, "no memory for the columns of %s", table->path);
    if (strncmp(rest, "\xef\xbb\xbf", 3) == 0) rest += 3;
    table->label = table->target = table->client = NO_COLUMN;
    table->columns = 0;
    for (char *field; (field = next_field(&rest)); table->columns++) {
        const int column = table->columns;
        if (strcmp(field, "label") == 0) TRY(put_role(&table->label, column, table, field, err));
        if (strcmp(field, "target") == 0) TRY(put_role(&table->target, column, table, field, err));
        if (strcmp(field, "client") == 0) TRY(put_role(&table->client, column, table, field, err));
        to = stpcpy(to, field) + 1;
    }
    if ((table->label == NO_COLUMN) == (table->target == NO_COLUMN))
        return fail(err, STATUS_DATA,
                    "%s:1: %s column is called label or target; name the one to be learned label (classes from 0) or "
                    "target (numbers), in a first line with names between commas",
                    table->path, table->label == NO_COLUMN ? "no" : "more than one");
    if (table->columns - (table->client != NO_COLUMN) < 2)
        return fail(err, STATUS_DATA, "%s:1: no column is left for a sample's numbers", table->path);
    return STATUS_OK;
}

static void close_table(Table *table) {
    if (table->file) fclose(table->file);
    free(table->line);
    free(table->names);
    *table = (Table){0};
}

static Status open_table(Table *table, const char *place, const char *name, Error *err) {
    struct stat about;
    bool more = false;
    *table = (Table){0};
    if (snprintf(table->path, sizeof table->path, "%s/%s", place, name) >= DATASET_PATH_BYTES)
        return fail(err, STATUS_NOINPUT, "%s: a path of more than %d bytes", place, DATASET_PATH_BYTES - 1);
    if (stat(table->path, &about) == 0 && !S_ISREG(about.st_mode))
        return fail(err, STATUS_DATA, "%s: not a regular file", table->path);
    table->file = fopen(table->path, "re");
    if (!table->file) return fail_errno(err, STATUS_NOINPUT, "%s", table->path);
    Status status = next_line(&more, table, err);
    if (status == STATUS_OK)
        status = more ? read_names(table, err)
                      : fail(err, STATUS_DATA, "%s: empty; its first line has the names of columns", table->path);
    if (status != STATUS_OK) close_table(table);
    return status;
}

// Rows ----------------------------------------------------------------------------------------------------------------

// Where the rows of one table go; NULL for what nobody wants.
typedef struct Rows {
    float *values;
    uint16_t *labels;
    float *targets;
    uint32_t *owners;
    uint32_t room; // rows at most
    uint32_t count;
} Rows;

static Status bad_field(const Table *table, int column, const char *field, const char *needs, Error *err) {
    return fail(err, STATUS_DATA, "%s:%u: column %.60s has \"%.40s\"; it needs %s", table->path, table->number,
                name_of(table, column), field, needs);
}

static Status read_number(float *value, const Table *table, int column, const char *field, Error *err) {
    char *end;
    *value = strtof(field, &end);
    if (end == field || *end || !isfinite(*value))
        return bad_field(table, column, field, "a finite number, with a point", err);
    return STATUS_OK;
}

static Status read_whole(uint32_t *value, const Table *table, int column, const char *field, uint32_t greatest,
                         Error *err) {
    char *end, needs[48];
    double number = strtod(field, &end); // 3.0 is a whole number, too: pandas writes it where a column had gaps
    snprintf(needs, sizeof needs, "a whole number from 0 to %u", greatest);
    if (end == field || *end || !(number >= 0 && number <= greatest) || number != floor(number))
        return bad_field(table, column, field, needs, err);
    *value = (uint32_t)number;
    return STATUS_OK;
}

static Status read_row(Rows *rows, Table *table, Error *err) {
    const size_t features = (size_t)table->columns - 1 - (table->client != NO_COLUMN);
    float *to = rows->values ? rows->values + rows->count * features : NULL, value;
    char *rest = table->line, *field;
    uint32_t whole;
    int column = 0;
    for (; (field = next_field(&rest)) && column < table->columns; column++) {
        if (column == table->label) {
            TRY(read_whole(&whole, table, column, field, DATASET_MAX_CLASSES - 1, err));
            if (rows->labels) rows->labels[rows->count] = (uint16_t)whole;
        } else if (column == table->client) {
            TRY(read_whole(&whole, table, column, field, GREATEST_CLIENT, err));
            if (rows->owners) rows->owners[rows->count] = whole;
        } else {
            TRY(read_number(&value, table, column, field, err));
            if (column == table->target && rows->targets) rows->targets[rows->count] = value;
            if (column != table->target && to) *to++ = value;
        }
    }
    if (column != table->columns || field)
        return fail(err, STATUS_DATA, "%s:%u: %s columns than the %d of the first line", table->path, table->number,
                    field ? "more" : "fewer", table->columns);
    rows->count++;
    return STATUS_OK;
}

static Status read_rows(Rows *rows, Table *table, Error *err) {
    for (bool more = true;;) {
        TRY(next_line(&more, table, err));
        if (!more) return STATUS_OK;
        if (rows->count == rows->room)
            return fail(err, STATUS_DATA, "%s:%u: %s", table->path, table->number,
                        rows->room == INT32_MAX ? "too many lines"
                                                : "more lines than before: it changed while it was being read");
        TRY(read_row(rows, table, err));
    }
}

// The form ------------------------------------------------------------------------------------------------------------

static bool has_same_names(const Table *a, const Table *b) {
    if (a->columns != b->columns) return false;
    for (int column = 0; column < a->columns; column++)
        if (strcmp(name_of(a, column), name_of(b, column)) != 0) return false;
    return true;
}

// Both tables, at their first rows.
static Status open_tables(Table tables[2], const char *place, Error *err) {
    TRY(open_table(&tables[0], place, "train.csv", err));
    Status status = open_table(&tables[1], place, "test.csv", err);
    if (status == STATUS_OK && !has_same_names(&tables[0], &tables[1])) {
        status = fail(err, STATUS_DATA, "%s:1: other columns than those of %s; give both the same, in the same order",
                      tables[1].path, tables[0].path);
        close_table(&tables[1]);
    }
    if (status != STATUS_OK) close_table(&tables[0]);
    return status;
}

bool csv_is_here(const char *place) {
    return dataset_has_file(place, "train.csv") || dataset_has_file(place, "test.csv");
}

static Status count_rows(uint32_t *count, Table *table, Error *err) {
    Rows rows = {.room = INT32_MAX};
    TRY(read_rows(&rows, table, err));
    *count = rows.count;
    if (rows.count > 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: no lines but the first", table->path);
}

static Status find_users(DatasetSource *source, const char *place, Error *err) {
    Table table;
    Rows rows = {.owners = malloc(source->train_count * sizeof *rows.owners), .room = source->train_count};
    if (!rows.owners) return fail(err, STATUS_OS, "no memory for the clients of %u samples", rows.room);
    Status status = open_table(&table, place, "train.csv", err);
    if (status == STATUS_OK) {
        status = read_rows(&rows, &table, err);
        if (status == STATUS_OK) status = dataset_count_users(&source->users, rows.owners, rows.count, table.path, err);
        close_table(&table);
    }
    free(rows.owners);
    source->items.owner_bytes = sizeof *rows.owners;
    return status;
}

Status csv_find(DatasetSource *source, const char *place, Error *err) {
    Table tables[2];
    source->packed = true; // numbers as text: read once
    TRY(open_tables(tables, place, err));
    const bool has_clients = tables[0].client != NO_COLUMN;
    const uint64_t features = (uint64_t)tables[0].columns - 1 - has_clients;
    source->items = (DatasetItems){.pixel_bytes = sizeof(float),
                                   .label_bytes = tables[0].target == NO_COLUMN ? sizeof(uint16_t) : sizeof(float)};
    Status status = dataset_take_shape(source, 1, 1, features, tables[0].path, err);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = dataset_note_file(source, tables[i].path, err);
    const bool is_known = status == STATUS_OK && unpacked_cache_describe(source);
    if (status == STATUS_OK && !is_known) status = count_rows(&source->train_count, &tables[0], err);
    if (status == STATUS_OK && !is_known) status = count_rows(&source->test_count, &tables[1], err);
    for (int i = 0; i < 2; i++)
        close_table(&tables[i]);
    if (status != STATUS_OK || is_known || !has_clients) return status;
    return find_users(source, place, err);
}

static Rows rows_of(DatasetBlock *block, uint32_t room, uint64_t values, uint64_t targets, uint64_t owners) {
    const bool has_targets = dataset_has_targets(&block->items);
    return (Rows){.values = dataset_at(block, values),
                  .labels = has_targets ? NULL : dataset_at(block, targets),
                  .targets = has_targets ? dataset_at(block, targets) : NULL,
                  .owners = block->users > 0 ? dataset_at(block, owners) : NULL,
                  .room = room};
}

static Status check_classes(DatasetBlock *block, const Table *test, Error *err) {
    uint32_t bad;
    block->classes = 1;
    if (dataset_has_targets(&block->items)) return STATUS_OK;
    dataset_count_classes(block, &bad);
    if (bad == UINT32_MAX) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: label %d of sample %u; the training labels go up to %d", test->path,
                ((uint16_t *)dataset_at(block, block->layout.test_labels))[bad], bad, block->classes - 1);
}

Status csv_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const DatasetLayout *at = &block->layout;
    Table tables[2];
    TRY(open_tables(tables, source->folder, err));
    Rows rows[2] = {rows_of(block, block->train_count, at->train_pixels, at->train_labels, at->train_owners),
                    rows_of(block, block->test_count, at->test_pixels, at->test_labels, at->test_owners)};
    Status status = STATUS_OK;
    const size_t columns = shape_size(block->shape) + 1 + (block->users > 0);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        if ((size_t)tables[i].columns == columns) status = read_rows(&rows[i], &tables[i], err);
        if (status == STATUS_OK && rows[i].count != rows[i].room)
            status = fail(err, STATUS_DATA, "%s: it changed while the data set was being read", tables[i].path);
    }
    for (uint32_t i = 0; i < rows[1].count && rows[1].owners; i++)
        if (rows[1].owners[i] >= block->users) rows[1].owners[i] = UINT32_MAX; // who trains on nothing
    if (status == STATUS_OK) status = check_classes(block, &tables[1], err);
    for (int i = 0; i < 2; i++)
        close_table(&tables[i]);
    return status;
}
