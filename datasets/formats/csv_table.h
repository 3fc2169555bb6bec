// A table of comma-separated values, read line by line: the names of its columns, then fields.
//
//   CsvTable table;
//   TRY(csv_open(&table, folder, "train.csv", err));   // the names are read; the next line is the first row
//   for (bool more; csv_next_line(&more, &table, err) == STATUS_OK && more;)
//       for (char *rest = table.line, *field; (field = csv_next_field(&rest));) ...
//   csv_close(&table);
//
// Failures are DATA and name the file, the line and the column; NOINPUT when the file is not there.
#ifndef SOUNDER_DATASETS_FORMATS_CSV_TABLE_H
#define SOUNDER_DATASETS_FORMATS_CSV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "datasets/dataset.h"

enum { CSV_NO_COLUMN = -1 };

typedef struct CsvTable {
    char path[DATASET_PATH_BYTES];
    FILE *file;
    char *line; // of getline; cut into fields
    size_t room;
    char *names;                        // the first line's, each with its zero byte; owned
    size_t names_bytes;                 // of all, so that equal names are equal bytes
    uint32_t number;                    // of the line that was read last
    int columns, label, target, client; // places; CSV_NO_COLUMN where there is none
} CsvTable;

// Opens the table `name` in the folder `place` and reads its names. The caller closes it; a failure leaves it closed.
Status csv_open(CsvTable *table, const char *place, const char *name, Error *err);
void csv_close(CsvTable *table);

// Reads a line that is not blank, without its end. *more is false at the end of the file.
Status csv_next_line(bool *more, CsvTable *table, Error *err);

// Takes the next field off *rest, without blanks and quotes around it; NULL when there is none.
char *csv_next_field(char **rest);

// Whether a quote begins the field that the same field does not end: a comma or a line's end is within the quotes.
bool csv_is_torn(const char *field);

// The name of a column; it walks over all before it, so it is for sentences alone.
const char *csv_name(const CsvTable *table, int column);

bool csv_has_same_names(const CsvTable *a, const CsvTable *b);

#endif
