// A table of comma-separated values, read line by line: the names of its columns, then fields.
//
//   CsvTable table;
//   TRY(csv_open(&table, folder, "train.csv", err));   // the names are read; the next line is the first row
//   for (bool more; csv_next_line(&more, &table, err) == STATUS_OK && more;)
//       for (char *rest = table.line, *field; (field = csv_next_field(&rest));) ...
//   csv_close(&table);
//
// Failures are DATA and name the file, the line and the column; NOINPUT if there is no file.
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
    char *names;                        // of the first line, each ends with '\0'; owned
    size_t names_bytes;                 // total size of the names: equal names are equal bytes
    uint32_t number;                    // of the last line read
    int columns, label, target, client; // indices of columns; CSV_NO_COLUMN: none
} CsvTable;

// Opens the table `name` in the folder `place` and reads its names. The caller closes it; on failure it is closed.
Status csv_open(CsvTable *table, const char *place, const char *name, Error *err);
void csv_close(CsvTable *table);

// Reads the next line that is not blank, without its end. *more is false at the end of the file.
Status csv_next_line(bool *more, CsvTable *table, Error *err);

// Removes the next field from *rest and returns it without blanks and quotes around it; NULL if there is none.
char *csv_next_field(char **rest);

// Says whether the field begins with a quote that it does not close: the quotes contain a comma or an end of line.
bool csv_is_torn(const char *field);

// Returns the name of a column; slow, because it passes over all previous names: only for sentences.
const char *csv_name(const CsvTable *table, int column);

bool csv_has_same_names(const CsvTable *a, const CsvTable *b);

#endif
