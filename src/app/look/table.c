#include "table.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static Cell *cell_at(const Table *table, size_t row, size_t column) {
    return &table->cells[row * table->column_count + column];
}

size_t table_add_column(Table *table, const char *title, const char *key, int decimals) {
    Column *columns = realloc(table->columns, (table->column_count + 1) * sizeof *columns);
    if (!columns) {
        table->no_memory = true;
        return 0;
    }
    table->columns = columns;
    Column *column = &columns[table->column_count];
    *column = (Column){.decimals = decimals, .is_text = decimals < 0};
    disarm_text(text_cut(column->title, sizeof column->title, title));
    disarm_text(text_cut(column->key, sizeof column->key, key));
    return table->column_count++;
}

void table_set_room(Table *table, size_t column, ColumnRoom room) {
    if (!table->no_memory) table->columns[column].room = room;
}

size_t table_add_values(Table *table, const char *name) {
    const size_t column = table_add_column(table, name, name, -1);
    if (!table->no_memory) table->columns[column].is_value = true;
    return column;
}

void table_add_row(Table *table) {
    const size_t count = (table->row_count + 1) * table->column_count;
    Cell *cells = table->no_memory ? NULL : realloc(table->cells, (count + 1) * sizeof *cells);
    if (!cells) {
        table->no_memory = true;
        return;
    }
    table->cells = cells;
    memset(cells + count - table->column_count, 0, table->column_count * sizeof *cells);
    table->row_count++;
}

static void put(Table *table, size_t column, Cell cell) {
    if (!table->no_memory) *cell_at(table, table->row_count - 1, column) = cell;
}

void table_put_text(Table *table, size_t column, const char *text) {
    const size_t bytes = 3 * strlen(text) + 1;
    char *copy = table->no_memory ? NULL : malloc(bytes);
    if (!copy) table->no_memory = true;
    put(table, column, (Cell){.kind = CELL_TEXT, .text = copy ? text_utf8(copy, bytes, text) : NULL});
}

void table_put_number(Table *table, size_t column, double number) {
    if (isfinite(number)) put(table, column, (Cell){.kind = CELL_NUMBER, .number = number});
}

void table_put_spread(Table *table, size_t column, double mean, double deviation) {
    if (!isfinite(mean) || table->no_memory) return;
    put(table, column, (Cell){.kind = CELL_SPREAD, .number = mean, .deviation = deviation});
    table->columns[column].has_spread = true;
}

void table_drop_empty(Table *table) {
    for (size_t column = table->column_count; column-- > 0 && !table->no_memory;) {
        bool empty = true;
        for (size_t row = 0; row < table->row_count; row++)
            empty &= cell_at(table, row, column)->kind == CELL_EMPTY;
        if (!empty) continue;
        for (size_t to = 0, from = 0; from < table->row_count * table->column_count; from++)
            if (from % table->column_count != column) table->cells[to++] = table->cells[from];
        table->column_count--;
        memmove(table->columns + column, table->columns + column + 1,
                (table->column_count - column) * sizeof *table->columns);
    }
}

void table_free(Table *table) {
    for (size_t i = 0; i < table->row_count * table->column_count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table->columns);
    *table = (Table){0};
}

// Texts of cells ------------------------------------------------------------------------------------------------------

// Writes 68214.3 without decimals as 68,214.
static void write_number(char text[TABLE_CELL_BYTES], double number, int decimals) {
    char digits[400];
    snprintf(digits, sizeof digits, "%.*f", decimals, fabs(number));
    const size_t whole = strcspn(digits, ".");
    char *to = text;
    if (number < 0 && strspn(digits, "0.") < strlen(digits)) *to++ = '-';
    for (size_t i = 0; digits[i]; i++) {
        if (i > 0 && i < whole && whole > 3 && (whole - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
}

// plus_minus: the format's sign for ±.
static void write_cell(char text[TABLE_CELL_BYTES], const Cell *cell, const Column *column, const char *plus_minus) {
    char deviation[TABLE_CELL_BYTES];
    text[0] = '\0';
    if (cell->kind == CELL_TEXT) disarm_text(text_cut(text, TABLE_CELL_BYTES, cell->text));
    if (cell->kind != CELL_NUMBER && cell->kind != CELL_SPREAD) return;
    write_number(text, cell->number, column->decimals);
    if (cell->kind == CELL_NUMBER || isnan(cell->deviation) || (column->steady && cell->deviation == 0)) return;
    write_number(deviation, cell->deviation, column->decimals);
    text_add(text, TABLE_CELL_BYTES, " %s %s", plus_minus, deviation);
}

void table_cell_text(char *text, const Table *table, size_t row, size_t column) {
    write_cell(text, cell_at(table, row, column), &table->columns[column], "±");
}

// Other formats -------------------------------------------------------------------------------------------------------

static void print_quoted(FILE *file, const char *text) {
    const char *mark = text_is_formula(text) ? "'" : "";
    if (!strpbrk(text, ",\"")) {
        fprintf(file, "%s%s", mark, text);
        return;
    }
    fprintf(file, "\"%s", mark);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, file);
    fputc('"', file);
}

// RFC 4180. The standard deviation of a mean has a column of its own.
static void print_csv(FILE *file, const Table *table) {
    char text[TABLE_CELL_BYTES];
    for (size_t c = 0; c < table->column_count; c++) {
        char key[COLUMN_NAME_BYTES + 8];
        snprintf(key, sizeof key, "%s_std", table->columns[c].key);
        fputs(c ? "," : "", file);
        print_quoted(file, table->columns[c].key);
        if (!table->columns[c].has_spread) continue;
        putc(',', file);
        print_quoted(file, key);
    }
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t c = 0; c < table->column_count; c++) {
            const Cell *cell = cell_at(table, row, c);
            fputs(c ? "," : "\n", file);
            if (cell->kind == CELL_TEXT) {
                write_cell(text, cell, &table->columns[c], "");
                print_quoted(file, text);
            }
            if (cell->kind > CELL_TEXT) fprintf(file, "%.10g", cell->number);
            if (!table->columns[c].has_spread) continue;
            fputc(',', file);
            if (cell->kind == CELL_SPREAD && !isnan(cell->deviation)) fprintf(file, "%.10g", cell->deviation);
        }
    }
    fputc('\n', file);
}

// Uses entities for characters that a Markdown reader may pass on as HTML, backslashes for the rest.
static void print_marked(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fprintf(file, "%s%c", strchr("\\`*_[]>~|#!", *text) ? "\\" : "", *text);
    }
}

static void print_markdown(FILE *file, const Table *table) {
    char text[TABLE_CELL_BYTES];
    for (size_t c = 0; c < table->column_count; c++) {
        fputs(c ? " | " : "| ", file);
        print_marked(file, table->columns[c].title);
    }
    fputs(" |\n", file);
    for (size_t c = 0; c < table->column_count; c++)
        fputs(table->columns[c].is_text ? "|---" : "|---:", file);
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t c = 0; c < table->column_count; c++) {
            write_cell(text, cell_at(table, row, c), &table->columns[c], "±");
            fputs(c ? " | " : "|\n| ", file);
            print_marked(file, text);
        }
        fputs(" ", file);
    }
    fputs("|\n", file);
}

// Works in every encoding of LaTeX: in OT1, the usual one of articles, the characters < > and the bar
// print as others.
static void print_tex(FILE *file, const char *text) {
    static const char *const names[128] = {['\\'] = "\\textbackslash{}",
                                           ['~'] = "\\textasciitilde{}",
                                           ['^'] = "\\textasciicircum{}",
                                           ['<'] = "\\textless{}",
                                           ['>'] = "\\textgreater{}",
                                           ['|'] = "\\textbar{}",
                                           ['"'] = "{\\ttfamily\\char34}",
                                           ['['] = "{[}" /* after a line's end it is an argument */,
                                           ['*'] = "{*}",
                                           ['`'] = "\\textasciigrave{}",
                                           ['\''] = "{\\ttfamily\\char39}",
                                           ['-'] = "-{}" /* two are no dash */,
                                           ['&'] = "\\&",
                                           ['%'] = "\\%",
                                           ['$'] = "\\$",
                                           ['#'] = "\\#",
                                           ['_'] = "\\_",
                                           ['{'] = "\\{",
                                           ['}'] = "\\}"};
    for (; *text; text++) {
        const char *name = (unsigned char)*text < 128 ? names[(int)*text] : NULL;
        if (name && (*text != '-' || text[1] == '-'))
            fputs(name, file);
        else
            fputc(*text, file);
    }
}

// Uses the booktabs package.
static void print_latex(FILE *file, const Table *table) {
    char text[TABLE_CELL_BYTES];
    fputs("\\begin{tabular}{", file);
    for (size_t c = 0; c < table->column_count; c++)
        fputc(table->columns[c].is_text ? 'l' : 'r', file);
    fputs("}\n\\toprule\n", file);
    for (size_t row = 0; row <= table->row_count; row++) {
        for (size_t c = 0; c < table->column_count; c++) {
            const Cell *cell = row > 0 ? cell_at(table, row - 1, c) : NULL;
            if (c) fputs(" & ", file);
            if (cell) write_cell(text, cell, &table->columns[c], "$\\pm$");
            if (cell && cell->kind == CELL_SPREAD)
                fputs(text, file);
            else
                print_tex(file, cell ? text : table->columns[c].title);
        }
        fputs(row > 0 ? " \\\\\n" : " \\\\\n\\midrule\n", file);
    }
    fputs("\\bottomrule\n\\end{tabular}\n", file);
}

Status table_print(FILE *file, const Table *table, TableFormat format, Error *err) {
    if (table->no_memory) return fail(err, STATUS_OS, "no memory for the table");
    if (format == TABLE_TEXT) return table_print_text(file, table, err);
    if (format == TABLE_JSON) return table_print_json(file, table, err);
    if (format == TABLE_CSV) print_csv(file, table);
    if (format == TABLE_MARKDOWN) print_markdown(file, table);
    if (format == TABLE_LATEX) print_latex(file, table);
    return STATUS_OK;
}
