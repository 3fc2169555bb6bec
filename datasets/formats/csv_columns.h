// Roles and kinds of a table's columns. A pass over all rows finds them before a value is used.
//
//   CsvColumns columns;
//   TRY(csv_columns_assign(&columns, &table, &settings, NULL, err));    // roles, by names and settings
//   TRY_GOTO(free, csv_columns_learn(&columns, &table, CSV_TRAIN, err));   // kinds and values, row by row
//   TRY_GOTO(free, csv_columns_settle(&columns, NULL, err));      // refuses all that is unfit in one sentence
//   ... columns.features, columns.rows, columns.columns[i].categories ...
//   csv_columns_free(&columns);
#ifndef SOUNDER_DATASETS_FORMATS_CSV_COLUMNS_H
#define SOUNDER_DATASETS_FORMATS_CSV_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/formats/categories.h"
#include "datasets/formats/csv_files.h"
#include "datasets/formats/csv_looks.h"
#include "datasets/formats/csv_table.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"

enum { CSV_NO_COLUMN = -1 };

typedef enum CsvRole { CSV_FEATURE, CSV_LABEL, CSV_TARGET, CSV_CLIENT, CSV_LEFT_OUT } CsvRole;

typedef struct CsvColumn {
    CsvRole role;
    uint32_t numbers, texts, gaps;    // how many values are of each kind, in the rows that are used
    double least, greatest;           // of the numbers
    char *text;                       // the first text, or number that is not whole of a label; owned
    uint32_t looks[CSV_LOOKS];        // how many of the texts look so
    uint32_t text_row, gap_row;       // lines of the first text and the first gap
    const char *text_path, *gap_path; // of their tables, borrowed
    bool is_flagged;                  // a feature of its own says where it has gaps
    bool has_many;                    // more values than `categories` has
    uint32_t known;           // how many values of this column a model knows, each one of its features; 0: it has none
    const char *known_values; // (known) their names, borrowed from the model
    Categories categories;    // its values: of labels, clients and texts
} CsvColumn;

typedef struct CsvColumns {
    const Form *settings; // borrowed
    int count;
    CsvColumn *columns;        // owned
    char **names;              // (count), borrowed from the first table
    const char *path;          // of the first table, borrowed
    int label, target, client; // CSV_NO_COLUMN: none
    int kind;                  // the column of which each value keeps samples for training
    bool one_hot, drops;       // texts become numbers; rows with gaps are left out
    bool fills, flags;         // gaps of features are filled; columns with gaps are flagged
    bool has_comma;            // before the fraction of a number
    char separator;            // of the table's columns
    uint32_t rows[2], dropped; // rows of each part that are used; rows left out
    uint32_t features;         // numbers of a sample
    uint32_t *kinds;           // (rows[CSV_TRAIN], with room for more) its values; owned
    uint32_t room;
} CsvColumns;

// table: open, its names are read; it must live as long as the columns. model: will see the samples; may be NULL. The
// caller frees the columns, also on failure.
Status csv_columns_assign(CsvColumns *columns, const CsvTable *table, const Form *settings, const DatasetModel *model,
                          Error *err);

// Hashes the names of the features in their order, with their values where these become numbers. The columns must
// be settled.
uint64_t csv_columns_hash(const CsvColumns *columns);

// Writes the names of the features as Dataset has them, and returns their size. to: NULL for the size alone. The
// columns must be settled.
uint64_t csv_features_write(char *to, const CsvColumns *columns);

// Finds the values that the model knows of each column. The model must live as long as the columns.
Status csv_features_expect(CsvColumns *columns, const DatasetModel *model, Error *err);

// Numbers the values of a column as the model does. Fails with DATA for a value that the model does not know.
Status csv_features_number(CsvColumn *column, const char *name, const char *path, Error *err);

// Reads the table to its end. The classes and clients are those of CSV_TRAIN.
Status csv_columns_learn(CsvColumns *columns, CsvTable *table, CsvPart part, Error *err);

// Numbers classes, clients and texts, and counts the features. Fails with DATA and all columns that are not numbers or
// have gaps.
// model: numbers the classes, if it has names; may be NULL.
Status csv_columns_settle(CsvColumns *columns, const DatasetModel *model, Error *err);

void csv_columns_free(CsvColumns *columns);

// Calls `tell` for each column. The columns have learned all tables, and may have been refused.
void csv_columns_tell(DatasetTeller *tell, void *to, const CsvColumns *columns);

// Says whether the row in table->fields is left out: it has a gap in a column that is used, and gaps are not filled, or
// in one that is no feature.
bool csv_leaves_out(const CsvColumns *columns, const CsvTable *table);

// Says whether a value is a gap.
bool csv_is_gap(const CsvColumns *columns, const char *text);

// Reads a number: digits, or true or false. Returns false for any other text, and if it is not finite as a float32.
bool csv_number(double *number, const CsvColumns *columns, const char *text);

// Says whether a column has texts that neither are numbers nor can become features.
bool csv_is_unfit(const CsvColumns *columns, const CsvColumn *column);

// Fails with DATA and one sentence about all columns that have unfit texts or gaps, and how each can be read.
Status csv_refuse_unfit(const CsvColumns *columns, Error *err);

// Says whether a column becomes one number for each of its values.
static inline bool csv_is_one_hot(const CsvColumns *columns, const CsvColumn *column) {
    return column->known > 0 || (columns->one_hot && column->role == CSV_FEATURE && column->texts > 0);
}

#endif
