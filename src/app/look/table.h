// A table of results, for people (as wide as the terminal), spreadsheets, documents and papers.
//
//   Table table = {0};
//   size_t accuracy = table_add_column(&table, "accuracy %", "accuracy_percent", 2);
//   table_add_row(&table);
//   table_put_spread(&table, accuracy, 84.9, 0.21);       // in the last row; "84.90 ± 0.21"
//   TRY(table_print(stdout, &table, TABLE_TEXT, err));    // cells never set are empty; reports lack of memory
//   table_free(&table);
//
// Texts, titles and keys may come from other users' folders: bytes of a text that are not UTF-8 become U+FFFD, control
// characters '?' (JSON escapes those of a text), and each format escapes its markup. In CSV, a text that a spreadsheet
// would evaluate (= + - @) gets a ' in front.
#ifndef SOUNDER_APP_LOOK_TABLE_H
#define SOUNDER_APP_LOOK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

typedef enum TableFormat { TABLE_TEXT, TABLE_CSV, TABLE_MARKDOWN, TABLE_LATEX, TABLE_JSON } TableFormat;

typedef enum CellKind { CELL_EMPTY, CELL_TEXT, CELL_NUMBER, CELL_SPREAD } CellKind;

typedef struct Cell {
    CellKind kind;
    char *text;               // owned; TEXT
    double number, deviation; // NUMBER; SPREAD: mean and standard deviation, NaN for a single value
} Cell;

// A terminal that is too narrow for a table does these, in this order, until the table fits: it leaves out of paths
// what all rows share, up to a / or a comma; leaves out spare columns, from the right; cuts texts to 20 characters;
// leaves out other columns after the first one of numbers, from the right; cuts texts to 8 characters; leaves out all
// columns but the first one. It never cuts a title, a number, or a text of ROOM_WHOLE, and names the columns that it
// leaves out.
typedef enum ColumnRoom {
    ROOM_USUAL, // texts are cut at their ends
    ROOM_PATH,  // texts are cut at their beginnings
    ROOM_WHOLE, // a verdict: neither cut nor left out
    ROOM_SPARE  // left out first
} ColumnRoom;

enum { COLUMN_NAME_BYTES = 96 }; // fits "best " and the longest name of a trainer's metric

typedef struct Column {
    char title[COLUMN_NAME_BYTES]; // for people
    char key[COLUMN_NAME_BYTES];   // for programs; unique in its table
    int decimals;                  // decimals of numbers
    bool is_text;                  // left-aligned, and cut if the terminal is narrow
    ColumnRoom room;
    bool has_spread; // holds means: CSV and JSON have an extra column with the standard deviation
    bool is_value;   // its texts are an option's values
    bool steady;     // people do not see "± 0": the value hardly ever differs between runs
} Column;

// Empty if zeroed.
typedef struct Table {
    Column *columns; // owned
    Cell *cells;     // owned, row by row
    size_t column_count, row_count;
    bool no_memory;
} Table;

// Add all columns before the first row. decimals -1 makes a column of texts. Returns its number.
size_t table_add_column(Table *table, const char *title, const char *key, int decimals);

// Adds a column of texts that are values of an option, whose name is title and key: JSON has a number or a truth value
// where a text is one.
size_t table_add_values(Table *table, const char *name);

// Says what a narrow terminal does with the column.
void table_set_room(Table *table, size_t column, ColumnRoom room);

void table_add_row(Table *table);

void table_put_text(Table *table, size_t column, const char *text); // copied
void table_put_number(Table *table, size_t column, double number);  // NaN leaves it empty
void table_put_spread(Table *table, size_t column, double mean, double deviation);

// Removes columns without any value.
void table_drop_empty(Table *table);

// Writes a cell as people read it to the caller's text (TABLE_CELL_BYTES).
enum { TABLE_CELL_BYTES = 4096 };
void table_cell_text(char *text, const Table *table, size_t row, size_t column);

// Do table_print for TABLE_TEXT (table_text.c) and TABLE_JSON (table_json.c).
Status table_print_text(FILE *file, const Table *table, Error *err);
Status table_print_json(FILE *file, const Table *table, Error *err);

Status table_print(FILE *file, const Table *table, TableFormat format, Error *err);
void table_free(Table *table);

#endif
