// The terminal of `sounder top`, by ncurses, in a module of its own (sounder_top.so) that only `sounder top` loads.
#ifndef SOUNDER_APP_LOOK_TOP_SCREEN_H
#define SOUNDER_APP_LOOK_TOP_SCREEN_H

#include <stdbool.h>

enum { SCREEN_LINES = 300, SCREEN_COLUMNS = 256 };

typedef struct TopScreen {
    bool (*open)(void); // false: the terminal cannot be controlled
    void (*size)(int *rows, int *columns);
    // The first line is highlighted; lines that do not fit are left out.
    void (*draw)(const char lines[][SCREEN_COLUMNS], int count);
    int (*key)(int milliseconds); // the key pressed within the time; 0: none
    void (*close)(void);
} TopScreen;

// The symbol that the module exports.
extern const TopScreen top_screen;

#endif
