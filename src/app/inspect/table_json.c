// Part of table.h: writes a table as a JSON array of objects, in which numbers are numbers.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/inspect/table.h"
#include "io/json.h"

// Whether JSON would accept the text as a number: -12, 0.5, 1e-05, but not 012, .5 or 1.
static bool is_number(const char *text) {
    static const char digits[] = "0123456789";
    text += *text == '-';
    const size_t whole = strspn(text, digits);
    if (whole == 0 || (*text == '0' && whole > 1)) return false;
    text += whole;
    if (*text == '.') {
        const size_t fraction = strspn(text + 1, digits);
        if (fraction == 0) return false;
        text += 1 + fraction;
    }
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '-' || text[1] == '+');
        const size_t exponent = strspn(text, digits);
        if (exponent == 0) return false;
        text += exponent;
    }
    return !*text;
}

// Converts a text that is a number or a truth value, if it fits.
static void put_text_cell(JsonObject *row, const char *key, const char *text) {
    const bool is_real = strpbrk(text, ".eE") != NULL;
    errno = 0;
    const long long whole = strtoll(text, NULL, 10);
    const bool fits = is_real ? isfinite(strtod(text, NULL)) : errno == 0;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        put_flag(row, key, *text == 't');
    else if (!is_number(text) || !fits)
        put_text(row, key, text);
    else if (is_real)
        put_real(row, key, strtod(text, NULL));
    else
        put_whole(row, key, whole);
}

static void put_cell(JsonObject *row, const Cell *cell, const Column *column) {
    const bool is_whole = column->decimals == 0 && fabs(cell->number) < 1e15 && cell->number == floor(cell->number);
    if (cell->kind == CELL_EMPTY)
        put_null(row, column->key);
    else if (cell->kind == CELL_TEXT)
        put_text_cell(row, column->key, cell->text);
    else if (is_whole)
        put_whole(row, column->key, (int64_t)cell->number);
    else
        put_real(row, column->key, cell->number);
}

Status table_print_json(FILE *file, const Table *table, Error *err) {
    JsonObject rows;
    char *text;
    size_t bytes;
    json_begin_array(&rows);
    for (size_t r = 0; r < table->row_count; r++) {
        JsonObject row;
        json_begin(&row);
        for (size_t c = 0; c < table->column_count; c++) {
            const Cell *cell = &table->cells[r * table->column_count + c];
            char key[COLUMN_NAME_BYTES + 8];
            snprintf(key, sizeof key, "%s_std", table->columns[c].key);
            put_cell(&row, cell, &table->columns[c]);
            if (table_has_spread(table, c))
                put_real(&row, key, cell->kind == CELL_SPREAD ? cell->deviation : (double)NAN);
        }
        put_object(&rows, NULL, &row);
    }
    TRY(json_text(&text, &bytes, &rows, JSON_INDENT(1) | JSON_REAL_PRECISION(10), "the table", err));
    fprintf(file, "%s\n", text);
    free(text);
    return STATUS_OK;
}
