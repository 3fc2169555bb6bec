// The terminal of `sounder top`, by ncurses, in a module of its own (sounder_top.so) that nothing else loads.
#ifndef SOUNDER_APP_INSPECT_TOP_SCREEN_H
#define SOUNDER_APP_INSPECT_TOP_SCREEN_H

#include <stdbool.h>

enum { SCREEN_LINES = 300, SCREEN_COLUMNS = 256 };

typedef struct TopScreen {
    bool (*open)(void); // false: this is no terminal that can be written all over
    void (*size)(int *rows, int *columns);
    // The first line stands out; more lines than there are rows are left out.
    void (*draw)(const char lines[][SCREEN_COLUMNS], int count);
    int (*key)(int milliseconds); // that was pressed meanwhile; 0: none
    void (*close)(void);
} TopScreen;

// What the module exports, by this name.
extern const TopScreen top_screen;

#endif
