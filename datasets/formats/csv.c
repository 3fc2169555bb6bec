// Part of format.h: tables as data sets: train.csv and test.csv with the same first line, the columns' names. One
// column is `label` (a class, a whole number from 0) or `target` (a number, for the squared loss), one may be `client`
// (the sample's owner, a whole number from 0); all others are a sample's numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "datasets/formats/csv_table.h"
#include "datasets/formats/format.h"
#include "datasets/unpacked_cache.h"

enum { GREATEST_CLIENT = INT32_MAX - 1 };

// Rows ----------------------------------------------------------------------------------------------------------------

// Destination of the rows of one table; NULL if unused.
typedef struct Rows {
    float *values;
    uint16_t *labels;
    float *targets;
    uint32_t *owners;
    uint32_t room; // greatest number of rows
    uint32_t count;
} Rows;

static Status bad_field(const CsvTable *table, int column, const char *field, const char *needs, Error *err) {
    char name[64], value[44];
    return fail(err, STATUS_DATA, "%s:%u: column %s has \"%s\"; it needs %s%s", table->path, table->number,
                text_cut(name, sizeof name, csv_name(table, column)), text_cut(value, sizeof value, field), needs,
                csv_is_torn(field) ? ", without a comma within quotes" : "");
}

static Status read_number(float *value, const CsvTable *table, int column, const char *field, Error *err) {
    char *end;
    *value = strtof(field, &end);
    const bool is_too_large = end != field && !*end && isinf(*value) && isfinite(strtod(field, NULL));
    if (end == field || *end || !isfinite(*value))
        return bad_field(
            table, column, field,
            is_too_large ? "a number of single precision, at most 3.4e38" : "a finite number, with a point", err);
    return STATUS_OK;
}

static Status read_whole(uint32_t *value, const CsvTable *table, int column, const char *field, uint32_t greatest,
                         Error *err) {
    char *end, needs[48];
    double number = strtod(field, &end); // 3.0 is whole, too: pandas writes it for a column with gaps
    snprintf(needs, sizeof needs, "a whole number from 0 to %u", greatest);
    if (end == field || *end || !(number >= 0 && number <= greatest) || number != floor(number))
        return bad_field(table, column, field, needs, err);
    *value = (uint32_t)number;
    return STATUS_OK;
}

// The first pass over a table only counts its rows, with NULL for all destinations: both passes refuse the same.
static Status read_row(Rows *rows, CsvTable *table, Error *err) {
    const size_t features = (size_t)table->columns - 1 - (table->client != CSV_NO_COLUMN);
    float *to = rows->values ? rows->values + rows->count * features : NULL, value;
    char *rest = table->line, *field;
    uint32_t whole = 0;
    int column = 0;
    for (; (field = csv_next_field(&rest)) && column < table->columns; column++) {
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

static Status read_rows(Rows *rows, CsvTable *table, Error *err) {
    for (bool more = true;;) {
        TRY(csv_next_line(&more, table, err));
        if (!more) return STATUS_OK;
        if (rows->count == rows->room)
            return fail(err, STATUS_DATA, "%s:%u: %s", table->path, table->number,
                        rows->room == INT32_MAX ? "too many lines"
                                                : "more lines than before: it changed while it was being read");
        TRY(read_row(rows, table, err));
    }
}

// The form ------------------------------------------------------------------------------------------------------------

// Opens both tables; their first rows come next.
static Status open_tables(CsvTable tables[2], const char *place, Error *err) {
    TRY(csv_open(&tables[0], place, "train.csv", err));
    Status status = csv_open(&tables[1], place, "test.csv", err);
    if (status == STATUS_OK && !csv_has_same_names(&tables[0], &tables[1])) {
        status = fail(err, STATUS_DATA, "%s:1: other columns than those of %s; give both the same, in the same order",
                      tables[1].path, tables[0].path);
        csv_close(&tables[1]);
    }
    if (status != STATUS_OK) csv_close(&tables[0]);
    return status;
}

static DatasetPresence csv_is_here(const char *place) {
    const int found = dataset_has_file(place, "train.csv") + dataset_has_file(place, "test.csv");
    return found == 2 ? DATASET_WHOLE : found == 1 ? DATASET_IN_PART : DATASET_ABSENT;
}

static Status count_rows(uint32_t *count, CsvTable *table, Error *err) {
    Rows rows = {.room = INT32_MAX};
    TRY(read_rows(&rows, table, err));
    *count = rows.count;
    if (rows.count > 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: no lines but the first", table->path);
}

static Status find_users(DatasetSource *source, const char *place, Error *err) {
    CsvTable table;
    Rows rows = {.owners = malloc(source->train_count * sizeof *rows.owners), .room = source->train_count};
    if (!rows.owners) return fail(err, STATUS_OS, "no memory for the clients of %u samples", rows.room);
    Status status = csv_open(&table, place, "train.csv", err);
    if (status == STATUS_OK) {
        status = read_rows(&rows, &table, err);
        if (status == STATUS_OK) status = dataset_count_users(&source->users, rows.owners, rows.count, table.path, err);
        csv_close(&table);
    }
    free(rows.owners);
    source->items.owner_bytes = sizeof *rows.owners;
    return status;
}

static Status csv_find(DatasetSource *source, const char *place, Error *err) {
    CsvTable tables[2];
    source->packed = true; // numbers as text: parsed only once
    TRY(open_tables(tables, place, err));
    const bool has_clients = tables[0].client != CSV_NO_COLUMN;
    const uint64_t features = (uint64_t)tables[0].columns - 1 - has_clients;
    source->items = (DatasetItems){.pixel_bytes = sizeof(float),
                                   .label_bytes = tables[0].target == CSV_NO_COLUMN ? sizeof(uint16_t) : sizeof(float)};
    Status status = dataset_take_shape(source, 1, 1, features, tables[0].path, err);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = dataset_note_file(source, tables[i].path, err);
    const bool is_known = status == STATUS_OK && unpacked_cache_describe(source);
    if (status == STATUS_OK && !is_known) status = count_rows(&source->train_count, &tables[0], err);
    if (status == STATUS_OK && !is_known) status = count_rows(&source->test_count, &tables[1], err);
    for (int i = 0; i < 2; i++)
        csv_close(&tables[i]);
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

static Status csv_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const DatasetLayout *at = &block->layout;
    CsvTable tables[2];
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
        if (rows[1].owners[i] >= block->users) rows[1].owners[i] = UINT32_MAX; // users without training samples
    if (status == STATUS_OK) status = dataset_count_classes(block, tables[1].path, err);
    for (int i = 0; i < 2; i++)
        csv_close(&tables[i]);
    return status;
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat csv_format = {
    .name = "CSV", .files = "train.csv", .is_here = csv_is_here, .find = csv_find, .read = csv_read,
    .help = "a folder with train.csv and test.csv, whose first lines name the same columns: one is label (classes from 0) or target "
            "(numbers, for the squared loss), one may be client (numbers from 0, for --partition natural-id), all others are a "
            "sample's numbers. Each column has a name: pandas writes its row numbers without one, but for to_csv(FILE, index=False)",
    .classes = "call the column label", .targets = "call the column target", .pixels = "divide them by 255"};
// clang-format on
