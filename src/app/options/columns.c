// Part of option_table.h: prints help in two columns, as wide as the terminal.
#include "option_table.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOST_COLUMNS = 100, FILE_COLUMNS = 80, ENTRY_INDENT = 27, NARROW_INDENT = 6, TEXT_COLUMNS = 40 };

int columns_of(FILE *file) {
    struct winsize size;
    const int fd = fileno(file); // -1: a text in memory, to be shown on stdout
    if (ioctl(fd < 0 ? STDOUT_FILENO : fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return FILE_COLUMNS;
    return size.ws_col < MOST_COLUMNS ? size.ws_col : MOST_COLUMNS;
}

// column: the cursor's place, at the indent or before it.
static void print_wrapped(FILE *file, int indent, int column, const char *text) {
    int columns = columns_of(file);
    fprintf(file, "%*s", indent - column, "");
    column = indent;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length > columns) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(file, "%s%.*s", column > indent ? " " : "", length, text);
        text += length + (text[length] == ' ');
    }
    fputc('\n', file);
}

void print_paragraph(FILE *file, int indent, const char *text) {
    print_wrapped(file, indent, 0, text);
}

void print_entry(FILE *file, const char *left, const char *text) {
    int column = fprintf(file, "  %s", left);
    if (column < ENTRY_INDENT - 1 && columns_of(file) - ENTRY_INDENT >= TEXT_COLUMNS) {
        print_wrapped(file, ENTRY_INDENT, column, text);
        return;
    }
    fputc('\n', file);
    print_wrapped(file, NARROW_INDENT, 0, text);
}
