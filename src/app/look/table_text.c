// Part of table.h: the table for people, as wide as the terminal.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "app/look/table.h"
#include "base/text.h"

enum { READABLE_WIDTH = 20, LEAST_WIDTH = 8, GAP = 2 };

typedef struct Place {
    size_t natural, width; // of the longest cell; in the terminal
    size_t shared;         // bytes at the beginning of all cells, which are left out
    bool is_left_out;
} Place;

// The columns of a table in a terminal.
typedef struct Layout {
    const Table *table;
    Place *places; // (columns)
    size_t limit;
} Layout;

static bool is_of(const Layout *layout, size_t column, ColumnRoom room) {
    return layout->table->columns[column].room == room;
}

static size_t total_of(const Layout *layout) {
    size_t total = 0;
    for (size_t c = 0; c < layout->table->column_count; c++)
        if (!layout->places[c].is_left_out) total += layout->places[c].width + (total ? GAP : 0);
    return total;
}

static bool fits(const Layout *layout) {
    return total_of(layout) <= layout->limit;
}

// Narrows the widest column of texts, character by character, until the table fits or none is wider than `least` and
// its title.
static void narrow(Layout *layout, size_t least) {
    const Table *table = layout->table;
    for (size_t c = 0; c < table->column_count; c++)
        layout->places[c].width = layout->places[c].natural;
    while (!fits(layout)) {
        size_t widest = SIZE_MAX;
        for (size_t c = 0; c < table->column_count; c++) {
            const Place *place = &layout->places[c];
            if (place->is_left_out || !table->columns[c].is_text || is_of(layout, c, ROOM_WHOLE)) continue;
            if (place->width <= least || place->width <= text_width(table->columns[c].title)) continue;
            if (widest == SIZE_MAX || place->width > layout->places[widest].width) widest = c;
        }
        if (widest == SIZE_MAX) return;
        layout->places[widest].width--;
    }
}

// Leaves out columns from the right until the table fits: spare ones, or all others that are not whole, as far as
// column `first`.
static void leave_out(Layout *layout, bool are_spare, size_t first, size_t least) {
    for (size_t c = layout->table->column_count; c-- > first && !fits(layout);) {
        if (are_spare ? !is_of(layout, c, ROOM_SPARE) : is_of(layout, c, ROOM_WHOLE)) continue;
        layout->places[c].is_left_out = true;
        narrow(layout, least);
    }
}

// The column after the first one of numbers, without which a row says nothing.
static size_t after_first_number(const Table *table) {
    for (size_t c = 0; c < table->column_count; c++)
        if (!table->columns[c].is_text) return c + 1;
    return 1;
}

// Bytes that the cells of all rows begin with, up to a separator.
static size_t shared_bytes(const Table *table, size_t column) {
    char first[TABLE_CELL_BYTES], text[TABLE_CELL_BYTES];
    if (table->row_count < 2) return 0;
    table_cell_text(first, table, 0, column);
    size_t shared = strlen(first);
    for (size_t row = 1; row < table->row_count; row++) {
        table_cell_text(text, table, row, column);
        size_t same = 0;
        while (same < shared && text[same] == first[same])
            same++;
        shared = same;
    }
    while (shared > 0 && !strchr("/,", first[shared - 1]))
        shared--;
    return shared;
}

static void measure(Layout *layout, size_t column) {
    const Table *table = layout->table;
    Place *place = &layout->places[column];
    char text[TABLE_CELL_BYTES];
    place->natural = text_width(table->columns[column].title);
    for (size_t row = 0; row < table->row_count; row++) {
        table_cell_text(text, table, row, column);
        const size_t width = text_width(text + place->shared) + (place->shared > 0);
        if (width > place->natural) place->natural = width;
    }
    place->width = place->natural;
}

static void lay_out(Layout *layout) {
    const Table *table = layout->table;
    for (size_t c = 0; c < table->column_count; c++)
        measure(layout, c);
    for (size_t c = 0; c < table->column_count && !fits(layout); c++) {
        if (!is_of(layout, c, ROOM_PATH)) continue;
        layout->places[c].shared = shared_bytes(table, c);
        measure(layout, c);
    }
    leave_out(layout, true, 0, SIZE_MAX);
    narrow(layout, READABLE_WIDTH);
    leave_out(layout, false, after_first_number(table), READABLE_WIDTH);
    narrow(layout, LEAST_WIDTH);
    leave_out(layout, false, 1, LEAST_WIDTH);
}

// Cuts a text that is too long: the end of a path tells more, the beginning of others.
static void print_cell(FILE *file, const char *text, size_t width, bool is_path, bool left, bool last) {
    char room[TABLE_CELL_BYTES + 16];
    size_t wide = text_width(text);
    if (wide > width && is_path) {
        for (; wide > width - 1; wide--)
            do
                text++;
            while (((unsigned char)*text & 0xc0) == 0x80);
        snprintf(room, sizeof room, "…%s", text);
        text = room;
        wide++;
    } else if (wide > width) {
        size_t bytes = 0;
        for (wide = 0; wide < width - 1; wide++)
            do
                bytes++;
            while (((unsigned char)text[bytes] & 0xc0) == 0x80);
        snprintf(room, sizeof room, "%.*s…", (int)bytes, text);
        text = room;
        wide++;
    }
    const int pad = (int)(width - wide);
    if (left)
        fprintf(file, "%s%*s", text, last ? 0 : pad, "");
    else
        fprintf(file, "%*s%s", pad, "", text);
}

static void print_row(FILE *file, const Layout *layout, size_t row) {
    const Table *table = layout->table;
    char cell[TABLE_CELL_BYTES], text[TABLE_CELL_BYTES + 4];
    size_t last = 0;
    bool begun = false;
    for (size_t c = 0; c < table->column_count; c++)
        if (!layout->places[c].is_left_out) last = c;
    for (size_t c = 0; c <= last && table->column_count > 0; c++) {
        const Column *column = &table->columns[c];
        const Place *place = &layout->places[c];
        if (place->is_left_out) continue;
        if (row > 0) table_cell_text(cell, table, row - 1, c);
        const bool is_cut = row > 0 && place->shared > 0;
        snprintf(text, sizeof text, "%s%s", is_cut ? "…" : "", row > 0 ? cell + place->shared : column->title);
        if (begun) fprintf(file, "%*s", GAP, "");
        print_cell(file, text, place->width, column->room == ROOM_PATH && row > 0, column->is_text, c == last);
        begun = true;
    }
    fputc('\n', file);
}

// Says what the terminal has no room for.
static void print_omissions(FILE *file, const Layout *layout) {
    const Table *table = layout->table;
    char text[TABLE_CELL_BYTES];
    const char *separator = "no room for: ";
    for (size_t c = 0; c < table->column_count; c++) {
        const Place *place = &layout->places[c];
        if (place->shared == 0 || place->is_left_out) continue;
        table_cell_text(text, table, 0, c);
        fprintf(file, "%s: … is %.*s\n", table->columns[c].title, (int)place->shared, text);
    }
    for (size_t c = 0; c < table->column_count; c++) {
        if (!layout->places[c].is_left_out) continue;
        fprintf(file, "%s%s", separator, table->columns[c].title);
        separator = ", ";
    }
    if (separator[0] == ',') fputc('\n', file);
}

Status table_print_text(FILE *file, const Table *table, Error *err) {
    struct winsize size;
    const bool on_terminal = ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    Layout layout = {.table = table,
                     .places = calloc(table->column_count + 1, sizeof *layout.places),
                     .limit = on_terminal ? size.ws_col : SIZE_MAX};
    if (!layout.places) return fail(err, STATUS_OS, "no memory for the table");
    lay_out(&layout);
    for (size_t row = 0; row <= table->row_count; row++)
        print_row(file, &layout, row);
    print_omissions(file, &layout);
    free(layout.places);
    return STATUS_OK;
}
