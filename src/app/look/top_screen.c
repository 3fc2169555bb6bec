#include "top_screen.h"

#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>

static bool open_screen(void) {
    const char *name = getenv("TERM");
    SCREEN *screen = name && *name ? newterm(name, stdout, stdin) : NULL;
    if (!screen) return false;
    set_term(screen);
    raw(); // Ctrl-C arrives as a key, so that the terminal can be restored
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    return true;
}

static void size_of_screen(int *rows, int *columns) {
    getmaxyx(stdscr, *rows, *columns);
}

static void draw(const char lines[][SCREEN_COLUMNS], int count) {
    int rows, columns;
    getmaxyx(stdscr, rows, columns);
    erase();
    for (int row = 0; row < rows && row < count; row++) {
        if (row == 0) attron(A_REVERSE);
        mvaddnstr(row, 0, lines[row], columns);
        if (row == 0) attroff(A_REVERSE);
    }
    refresh();
}

static int key(int milliseconds) {
    timeout(milliseconds);
    const int pressed = getch();
    return pressed == ERR || pressed == KEY_RESIZE ? 0 : pressed;
}

static void close_screen(void) {
    endwin();
}

const TopScreen top_screen = {open_screen, size_of_screen, draw, key, close_screen};
