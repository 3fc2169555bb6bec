#include "top_page.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/module.h"
#include "base/text.h"

enum { REFRESH_MILLISECONDS = 100, INTERRUPT = 3, SUSPEND = 26 }; // Ctrl-C and Ctrl-Z as keys

static void put_line(Page *page, const char *text) {
    if (page->count == SCREEN_LINES) return;
    char *line = page->lines[page->count++], *end = line;
    disarm_text(text_cut(line, SCREEN_COLUMNS, text));
    for (int letters = 0; *end && letters < page->columns; letters++)
        end += text_letter(end);
    while (end > line && end[-1] == ' ')
        end--;
    *end = '\0';
}

void page_add(Page *page, const char *format, ...) {
    char text[4 * SCREEN_COLUMNS];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put_line(page, text);
}

void page_add_parts(Page *page, const char *format, ...) {
    char text[4 * SCREEN_COLUMNS], *line = text;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    while (strlen(line) > (size_t)page->columns) {
        char *gap = NULL;
        for (char *next = line + 1; (next = strstr(next, "  ")) && next - line <= page->columns; next++)
            gap = next;
        if (!gap) break;
        *gap = '\0';
        put_line(page, line);
        line = gap + 2;
    }
    put_line(page, line);
}

void page_add_keys(Page *page, int rows) {
    for (int i = page->count - 1; i > 0 && page->count >= rows; i--)
        if (!page->lines[i][0])
            memmove(page->lines[i], page->lines[i + 1], sizeof page->lines[0] * (size_t)(--page->count - i));
    if (page->count >= rows) page->count = rows > 1 ? rows - 1 : 1;
    if (page->count < SCREEN_LINES && page->count + 1 < rows) page_add(page, "%s", "");
    if (page->count < rows) page_add(page, "q quits; Ctrl-C, too: the run goes on");
}

const TopScreen *page_open_screen(Error *err) {
    const TopScreen *screen = module_symbol("sounder_top.so", "top_screen", false);
    if (!screen)
        fail(err, STATUS_UNAVAILABLE,
             "the screen of sounder top cannot be loaded (%s); sounder top --once prints without it", dlerror());
    else if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !screen->open())
        fail(err, STATUS_UNAVAILABLE, "sounder top needs a terminal; sounder top --once prints one screen anywhere");
    else
        return screen;
    return NULL;
}

int page_next_key(const TopScreen *screen) {
    const int key = screen->key(REFRESH_MILLISECONDS);
    if (key == SUSPEND) { // returns to the shell; drawing opens the screen again
        screen->close();
        kill(0, SIGTSTP);
    }
    return key;
}

bool page_is_quit(int key) {
    return key == 'q' || key == 'Q' || key == INTERRUPT;
}
