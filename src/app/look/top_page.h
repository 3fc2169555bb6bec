// A screen of `sounder top` as lines of text, and the terminal that shows it.
//
//   Page page = {.columns = 80};
//   page_add(&page, "round %u", round);
//   const TopScreen *screen = page_open_screen(err);      // NULL: there is no terminal
//   screen->draw((const char(*)[SCREEN_COLUMNS])page.lines, page.count);
//   while (!page_is_quit(page_next_key(screen))) ...
#ifndef SOUNDER_APP_LOOK_TOP_PAGE_H
#define SOUNDER_APP_LOOK_TOP_PAGE_H

#include <stdbool.h>

#include "app/look/top_screen.h"
#include "base/err.h"

typedef struct Page {
    char lines[SCREEN_LINES][SCREEN_COLUMNS];
    int count, columns;
} Page;

// Adds a line and cuts it if it is too long.
void page_add(Page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Adds a text; if it is too long for a line, breaks it at two blanks and continues in the next line.
void page_add_parts(Page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Names in the last row the key that quits: blank lines, then the lowest lines, make room for it.
void page_add_keys(Page *page, int rows);

// Opens the terminal's screen, which the caller closes. NULL: UNAVAILABLE, with the sentence in err.
const TopScreen *page_open_screen(Error *err);

// Waits a tenth of a second for a key, and returns it; 0: none came. Ctrl-Z has stopped and continued the process.
int page_next_key(const TopScreen *screen);
bool page_is_quit(int key);

#endif
