// Text for people, wrapped to the width of where it is read: that of the terminal, but at most 100 columns, and 80 where
// the file is no terminal.
#ifndef SOUNDER_APP_OPTIONS_COLUMNS_H
#define SOUNDER_APP_OPTIONS_COLUMNS_H

#include <stdio.h>

int columns_of(FILE *file);

// Wraps at blanks; lines after the first are indented as well. Ends with a newline.
void print_paragraph(FILE *file, int indent, const char *text);

// "  left      text", the text in a column of its own; below left where left is long or the terminal narrow.
void print_entry(FILE *file, const char *left, const char *text);

#endif
