// Part of format.h: tables as data sets: train.csv and test.csv with equal first lines, the columns' names, or one
// table, a part of whose rows is for tests. One column is `label` (a class) or `target` (a number, for the squared
// loss), one may be `client` (the sample's owner), whatever their names: --data says so (settings.h). All others are a
// sample's numbers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "datasets/formats/csv_columns.h"
#include "datasets/formats/format.h"
#include "datasets/holdout.h"
#include "datasets/unpacked_cache.h"

// Files ---------------------------------------------------------------------------------------------------------------

// The tables of a data set, and what their columns are.
typedef struct Tables {
    CsvFiles files;
    CsvTable *open; // owned, (files.count)
    CsvColumns columns;
    uint8_t *is_test; // (rows of all tables) where none is of tests; owned
    uint32_t samples[DATASET_SPLITS];
} Tables;

static void close_tables(Tables *tables) {
    for (uint32_t i = 0; i < tables->files.count && tables->open; i++)
        csv_close(&tables->open[i]);
}

static void free_tables(Tables *tables) {
    close_tables(tables);
    csv_columns_free(&tables->columns);
    csv_files_free(&tables->files);
    free(tables->open);
    free(tables->is_test);
    *tables = (Tables){0};
}

// The answers of a competition's tests are unknown, so that its table has all columns but one.
static Status refuse_names(const CsvTable *first, const CsvTable *other, Error *err) {
    int lacks = -1, k = 0;
    for (int i = 0; i < first->columns && other->columns == first->columns - 1; i++) {
        if (k < other->columns && strcmp(first->names[i], other->names[k]) == 0)
            k++;
        else
            lacks = lacks < 0 ? i : first->columns;
    }
    if (lacks >= 0 && lacks < first->columns)
        return fail(err, STATUS_DATA,
                    "%s:1: no column %.60s, which %s has; tests need it, so if it is what is to be learned, name %s "
                    "alone in --data, a part of whose rows is then for tests",
                    other->path, first->names[lacks], first->path, first->path);
    return fail(err, STATUS_DATA, "%s:1: other columns than those of %s; give both the same, in the same order",
                other->path, first->path);
}

// Opens the tables, which have been found; the next row of each is its first.
static Status open_tables(Tables *tables, const Form *settings, Error *err) {
    const bool has_header = !settings_say(settings, SETTING_HEADER, "no");
    Status status = STATUS_OK;
    if (!tables->open) tables->open = calloc(tables->files.count, sizeof *tables->open);
    if (!tables->open) return fail(err, STATUS_OS, "no memory for %u tables", tables->files.count);
    for (uint32_t i = 0; i < tables->files.count && status == STATUS_OK; i++) {
        const CsvPlace *place = &tables->files.all[i];
        status = csv_open(&tables->open[i], place->path, has_header, place->client, err);
        if (status == STATUS_OK && !csv_has_same_names(&tables->open[0], &tables->open[i]))
            status = refuse_names(&tables->open[0], &tables->open[i], err);
    }
    if (status != STATUS_OK) close_tables(tables);
    return status;
}

// Columns and samples -------------------------------------------------------------------------------------------------

// Users keep some of their samples for tests each if there are users, else classes do.
static Status choose_tests(Tables *tables, const Form *settings, Error *err) {
    const CsvColumns *columns = &tables->columns;
    const uint32_t rows = columns->rows[CSV_TRAIN];
    const bool has_kinds = columns->kind != CSV_NO_COLUMN;
    tables->is_test = malloc(rows);
    if (!tables->is_test) return fail(err, STATUS_OS, "no memory for %u samples", rows);
    TRY(holdout_choose(tables->is_test, &tables->samples[DATASET_TEST], has_kinds ? columns->kinds : NULL, rows,
                       has_kinds ? columns->columns[columns->kind].categories.count : 1, settings, columns->path, err));
    tables->samples[DATASET_TRAIN] = rows - tables->samples[DATASET_TEST];
    return STATUS_OK;
}

// Reads all tables to learn what their columns are, and opens them again. The caller frees the tables, also on failure.
static Status learn(Tables *tables, const DatasetSource *source, Error *err) {
    const Form *settings = &source->settings;
    CsvColumns *columns = &tables->columns;
    TRY(csv_columns_assign(columns, &tables->open[0], settings, source->model, err));
    for (uint32_t i = 0; i < tables->files.count; i++)
        TRY(csv_columns_learn(columns, &tables->open[i], tables->files.all[i].part, err));
    TRY(csv_columns_settle(columns, source->model, err));
    if (!tables->files.has_tests) return choose_tests(tables, settings, err);
    for (uint32_t i = 0; i < 2; i++)
        tables->samples[i] = columns->rows[i];
    return STATUS_OK;
}

static Status take_columns(DatasetSource *source, const CsvColumns *columns, const char *path, Error *err) {
    const bool has_clients = columns->client != CSV_NO_COLUMN;
    source->items = (DatasetItems){.pixel_bytes = sizeof(float),
                                   .label_bytes = columns->target == CSV_NO_COLUMN ? sizeof(uint16_t) : sizeof(float),
                                   .owner_bytes = has_clients ? sizeof(uint32_t) : 0,
                                   .line_bytes = sizeof(uint32_t),
                                   .fills = columns->fills ? columns->features : 0,
                                   .dropped = columns->dropped};
    if (has_clients) {
        const Categories *users = &columns->columns[columns->client].categories;
        source->users = users->count;
        source->items.user_bytes = categories_names_bytes(users);
    }
    if (columns->label != CSV_NO_COLUMN)
        source->items.names_bytes = categories_names_bytes(&columns->columns[columns->label].categories);
    source->items.features = csv_columns_hash(columns);
    source->items.feature_bytes = csv_features_write(NULL, columns);
    return dataset_take_shape(source, 1, 1, columns->features, path, err);
}

// Reads the tables, and sets what the source says of them. The caller frees the tables, also on failure.
static Status describe(Tables *tables, DatasetSource *source, Error *err) {
    TRY(learn(tables, source, err));
    memcpy(source->counts, tables->samples, sizeof source->counts);
    return take_columns(source, &tables->columns, tables->files.all[0].path, err);
}

// Refuses what the names of the columns already tell, before all rows are read.
static Status check_names(Tables *tables, DatasetSource *source, Error *err) {
    CsvColumns roles;
    Status status = csv_columns_assign(&roles, &tables->open[0], &source->settings, source->model, err);
    if (status == STATUS_OK) status = take_columns(source, &roles, tables->files.all[0].path, err);
    csv_columns_free(&roles);
    return status;
}

static Status csv_find(DatasetSource *source, const char *place, Error *err) {
    Tables tables = {0};
    source->packed = true; // numbers as text: parsed only once
    Status status = csv_files_find(&tables.files, place, &source->settings, err);
    for (uint32_t i = 0; i < tables.files.count && status == STATUS_OK; i++)
        status = dataset_note_file(source, tables.files.all[i].path, err);
    if (status == STATUS_OK && !unpacked_cache_describe(source)) {
        status = open_tables(&tables, &source->settings, err);
        if (status == STATUS_OK) status = check_names(&tables, source, err);
        if (status == STATUS_OK) status = describe(&tables, source, err);
    }
    free_tables(&tables);
    return status;
}

// Reading -------------------------------------------------------------------------------------------------------------

static Status take_label(uint16_t *to, const CsvColumns *columns, const CsvTable *table, Error *err) {
    char name[64], value[44];
    disarm_text(table->fields[columns->label]); // as its class is called
    const char *text = table->fields[columns->label];
    const uint32_t label = categories_number(&columns->columns[columns->label].categories, text);
    int64_t number = -1;
    const bool is_number = columns->columns[columns->label].categories.are_whole && category_is_whole(&number, text);
    if (label == CATEGORY_NONE)
        return fail(err, STATUS_DATA, "%s:%u: column %s has \"%s\", a class that no training sample has%s", table->path,
                    table->row, text_cut(name, sizeof name, columns->names[columns->label]),
                    text_cut(value, sizeof value, text),
                    is_number && number >= 0 ? "; classes=N in --data says that labels are numbers below N" : "");
    *to = (uint16_t)label;
    return STATUS_OK;
}

// Moves to the next number.
static void put_number(DatasetArrays *to, double number) {
    dataset_put(to, 0, number);
    if (to->exact)
        to->exact++;
    else
        to->samples = (float *)to->samples + 1;
}

// Stores the numbers of one column: one, or one for each of its values, and where it is flagged one for its gap.
static void take_feature(DatasetArrays *to, const CsvColumns *columns, const CsvColumn *column, char *text) {
    const bool is_gap = columns->fills && csv_is_gap(columns, text), is_hot = csv_is_one_hot(columns, column);
    double number = (double)NAN;
    if (!is_hot && !is_gap) csv_number(&number, columns, text);
    if (!is_hot) put_number(to, number);
    disarm_text(text); // as a model notes it
    const uint32_t value = is_hot && !is_gap ? categories_number(&column->categories, text) : CATEGORY_NONE;
    for (uint32_t i = 0; is_hot && i < column->categories.count; i++)
        put_number(to, i == value);
    if (column->is_flagged) put_number(to, is_gap);
}

// to: moves to the next sample.
static Status take_row(DatasetArrays *to, const CsvColumns *columns, const CsvTable *table, Error *err) {
    double target;
    if (to->count == 0) return dataset_changed(table->path, err);
    for (int i = 0; i < columns->count; i++)
        if (columns->columns[i].role == CSV_FEATURE) take_feature(to, columns, &columns->columns[i], table->fields[i]);
    if (columns->target != CSV_NO_COLUMN) {
        csv_number(&target, columns, table->fields[columns->target]);
        *(float *)(void *)to->labels = (float)target;
        to->labels += sizeof(float) / sizeof *to->labels;
    } else
        TRY(take_label(to->labels++, columns, table, err));
    // Users without training samples are CATEGORY_NONE, which means no owner.
    if (to->owners)
        *to->owners++ =
            categories_number(&columns->columns[columns->client].categories, table->fields[columns->client]);
    if (to->lines) *to->lines++ = table->row;
    to->count--;
    return STATUS_OK;
}

// row: number of the next one of all tables.
static Status read_table(DatasetArrays *to, uint32_t *row, Tables *tables, uint32_t number, Error *err) {
    CsvTable *table = &tables->open[number];
    const CsvColumns *columns = &tables->columns;
    for (;;) {
        bool more;
        TRY(csv_next_row(&more, table, err));
        if (!more) break;
        if (csv_leaves_out(columns, table)) continue;
        if (tables->is_test && *row == columns->rows[CSV_TRAIN]) return dataset_changed(table->path, err);
        TRY(take_row(&to[tables->is_test ? tables->is_test[*row] : tables->files.all[number].part], columns, table,
                     err));
        ++*row;
    }
    return STATUS_OK;
}

// Names that only say the number of their class or user are not kept.
static void take_names(DatasetBlock *block, const CsvColumns *columns) {
    char *users = dataset_at(block, block->layout.users);
    if (block->items.user_bytes) categories_write_names(users, &columns->columns[columns->client].categories);
    block->classes = 1;
    if (columns->label == CSV_NO_COLUMN) return;
    const Categories *classes = &columns->columns[columns->label].categories;
    block->classes = (int)classes->count;
    if (block->items.names_bytes) categories_write_names(dataset_at(block, block->layout.names), classes);
}

// to: the arrays of both splits, which move to their ends.
static Status read_tables(DatasetArrays to[DATASET_SPLITS], DatasetBlock *block, const DatasetSource *source,
                          Error *err) {
    Tables tables = {0};
    uint32_t row = 0;
    DatasetSource again = *source;
    Status status = csv_files_find(&tables.files, source->folder, &source->settings, err);
    if (status == STATUS_OK) status = open_tables(&tables, &source->settings, err);
    if (status == STATUS_OK) status = describe(&tables, &again, err);
    if (status != STATUS_OK) goto done;
    const CsvColumns *columns = &tables.columns;
    if (!dataset_is_as_found(&again, source)) TRY_GOTO(done, dataset_changed(source->folder, err));
    csv_features_write(dataset_at(block, block->layout.features), columns);
    close_tables(&tables);
    TRY_GOTO(done, open_tables(&tables, &source->settings, err));
    if (tables.open[0].columns != columns->count) TRY_GOTO(done, dataset_changed(columns->path, err));
    tables.columns.names = tables.open[0].names; // those of before are closed
    for (uint32_t i = 0; i < tables.files.count; i++)
        TRY_GOTO(done, read_table(to, &row, &tables, i, err));
    if (to[DATASET_TRAIN].count > 0 || to[DATASET_TEST].count > 0) TRY_GOTO(done, dataset_changed(source->folder, err));
    take_names(block, columns);
done:
    free_tables(&tables);
    return status;
}

static Status csv_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    DatasetArrays arrays[] = {dataset_arrays(block, DATASET_TRAIN), dataset_arrays(block, DATASET_TEST)};
    if (block->items.scales > 0) TRY(dataset_exact_begin(arrays, shape_size(block->shape), err));
    DatasetArrays to[] = {arrays[DATASET_TRAIN], arrays[DATASET_TEST]};
    Status status = read_tables(to, block, source, err);
    if (status == STATUS_OK) status = dataset_fill_gaps(block, arrays, source, err);
    if (status == STATUS_OK) status = dataset_scale_numbers(block, arrays, source, err);
    dataset_exact_free(arrays);
    return status;
}

// Values that only tests have are numbers of the features, too.
static Status csv_tell(DatasetTeller *tell, void *to, const char *place, const Form *settings, Error *err) {
    const bool has_header = !settings_say(settings, SETTING_HEADER, "no");
    Tables tables = {0};
    Error refused; // another row of the listing says so
    Status status = csv_files_find(&tables.files, place, settings, err);
    if (status == STATUS_OK && open_tables(&tables, settings, &refused) != STATUS_OK) {
        tables.files.count = 1; // the first alone: others may have other columns
        status = csv_open(&tables.open[0], tables.files.all[0].path, has_header, tables.files.all[0].client, err);
    }
    if (status == STATUS_OK) {
        csv_columns_assign(&tables.columns, &tables.open[0], settings, NULL, &refused);
        status = csv_columns_learn(&tables.columns, &tables.open[0], CSV_TRAIN, err);
    }
    for (uint32_t i = 1; i < tables.files.count && status == STATUS_OK; i++)
        csv_columns_learn(&tables.columns, &tables.open[i], tables.files.all[i].part, &refused);
    if (status == STATUS_OK) csv_columns_settle(&tables.columns, NULL, &refused);
    if (status == STATUS_OK) csv_columns_tell(tell, to, &tables.columns);
    free_tables(&tables);
    return status;
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat csv_format = {
    .name = "CSV", .files = "train.csv", .settings = SETTINGS_OF_TABLES | SETTINGS_OF_SPLIT | SETTINGS_OF_SAMPLES | 1 << SETTING_CLASSES,
    .is_here = csv_files_presence, .find = csv_find, .read = csv_read, .tell = csv_tell,
    .help = "a file .csv or .tsv (or packed: .csv.gz), a share of whose rows is for tests, or a folder with train.csv and test.csv (or .csv.gz), whose "
            "first lines name the same columns. One column is label (classes: names or whole numbers, numbered by their sorted values) or "
            "target (numbers, for the squared loss), one may be client (for --partition natural-id), all others are a sample's numbers; "
            "settings after the place name other columns: --data \"iris.csv label=species\". Columns are separated by , ; | or tabs, and "
            "fields may be in quotes. `sounder data iris.csv` shows what each column is taken for. Each column has a name: pandas writes "
            "its row numbers without one, but for to_csv(FILE, index=False)",
    .classes = "call the column label", .targets = "call the column target", .pixels = "say normalize=yes in --data"};
// clang-format on
