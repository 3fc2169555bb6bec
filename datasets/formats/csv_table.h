// A table of separated values, read row by row (RFC 4180): the names of its columns, then fields.
//
//   CsvTable table;
//   TRY(csv_open(&table, "iris.csv", true, NULL, err));      // the names are read; the next row is the first
//   for (bool more; csv_next_row(&more, &table, err) == STATUS_OK && more;)
//       for (int column = 0; column < table.columns; column++) ... table.fields[column] ...
//   csv_close(&table);
//
// The separator is the one of , ; | and tab that the first line has most of. A field may be in quotes, and then have
// separators, ends of lines and doubled quotes in it; blanks around a field do not belong to it. A file may be packed
// by gzip. Failures are DATA and name the file, the line and the column; NOINPUT if there is no file.
#ifndef SOUNDER_DATASETS_FORMATS_CSV_TABLE_H
#define SOUNDER_DATASETS_FORMATS_CSV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

typedef struct CsvTable {
    const char *path;       // borrowed
    char *client;           // owned; of the last column, called file, which the file itself does not have; NULL: none
    struct CsvFile *stream; // owned by `file`: the file that it reads
    FILE *file;
    char *line; // of getline: a row, cut into fields
    size_t room;
    char *more_lines; // of getline: further lines of a row with an end of line in quotes
    size_t more_room;
    char separator;
    char **names;  // (columns); owned, with the texts after the pointers
    char **fields; // (columns) of the last row read; owned, the texts are in `line`
    int columns;
    uint32_t number; // of the last line read
    uint32_t row;    // number of the first line of the last row read
    bool is_unread;  // without a header: the first row is read already
} CsvTable;

// Opens a table. has_header: its first line has the names of the columns, otherwise they are called 1, 2, 3, ....
// client: the value of one more column, called file; NULL: none. The caller closes it; on failure it is closed.
Status csv_open(CsvTable *table, const char *path, bool has_header, const char *client, Error *err);
void csv_close(CsvTable *table);

// Reads the next row that is not blank. *more is false at the end of the file. Fails if the row has more or fewer
// fields than there are columns.
Status csv_next_row(bool *more, CsvTable *table, Error *err);

bool csv_has_same_names(const CsvTable *a, const CsvTable *b);

#endif
