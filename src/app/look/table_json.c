// Part of table.h: writes a table as a JSON array of objects, in which numbers are numbers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/table.h"
#include "io/json.h"

// An option's value that is a number or a truth value in JSON becomes one, if it fits.
static void put_text_cell(JsonObject *row, const Cell *cell, const Column *column) {
    const bool may_convert = column->is_value && !strpbrk(cell->text, " \t\r\n");
    json_t *value = may_convert ? json_loads(cell->text, JSON_DECODE_ANY, NULL) : NULL;
    if (json_is_number(value) || json_is_boolean(value))
        put_value(row, column->key, json_incref(value));
    else
        put_text(row, column->key, cell->text);
    json_decref(value);
}

static void put_cell(JsonObject *row, const Cell *cell, const Column *column) {
    const bool is_whole = column->decimals == 0 && fabs(cell->number) < 1e15 && cell->number == floor(cell->number);
    if (cell->kind == CELL_EMPTY)
        put_null(row, column->key);
    else if (cell->kind == CELL_TEXT)
        put_text_cell(row, cell, column);
    else if (is_whole)
        put_whole(row, column->key, (int64_t)cell->number);
    else
        put_real(row, column->key, cell->number);
}

Status table_print_json(FILE *file, const Table *table, Error *err) {
    JsonObject rows;
    json_begin_array(&rows);
    for (size_t r = 0; r < table->row_count; r++) {
        JsonObject row;
        json_begin(&row);
        for (size_t c = 0; c < table->column_count; c++) {
            const Cell *cell = &table->cells[r * table->column_count + c];
            char key[COLUMN_NAME_BYTES + 8];
            snprintf(key, sizeof key, "%s_std", table->columns[c].key);
            put_cell(&row, cell, &table->columns[c]);
            if (table->columns[c].has_spread)
                put_real(&row, key, cell->kind == CELL_SPREAD ? cell->deviation : (double)NAN);
        }
        put_object(&rows, NULL, &row);
    }
    return json_print(file, &rows, JSON_INDENT(1) | JSON_REAL_PRECISION(10), "the table", err);
}
