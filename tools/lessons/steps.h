// Ranks that stop at named points, and a text that says which of them continues: a race without chance.
//
//   steps_begin(&shared->steps, "0 1 1 0");    // before the ranks start
//   step(&shared->steps, rank, "load");        // returns when it is this rank's turn
//   ... what the point is about ...
//   step(&shared->steps, rank, "store");       // this rank's last action has ended; it waits for its next turn
//   ... and this ...
//   steps_end(&shared->steps);                 // after its last action
//
// Each number gives one rank one turn. After the text the ranks run as they like. With SHOW_STEPS=1 in the environment
// every turn is printed. Memory that is zero has no text: step returns at once.
#ifndef SOUNDER_TOOLS_LESSONS_STEPS_H
#define SOUNDER_TOOLS_LESSONS_STEPS_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Steps {
    char order[128]; // the ranks' numbers, one digit each
    _Atomic int at;  // the turn that has begun or comes next
} Steps;

static int steps_my_turn = -1; // of this process, if it has begun and not ended one

static inline void steps_begin(Steps *steps, const char *text) {
    size_t count = 0;
    for (; *text && count < sizeof steps->order - 1; text++)
        if (*text >= '0' && *text <= '9') steps->order[count++] = *text;
    steps->order[count] = '\0';
    atomic_store(&steps->at, 0);
}

static inline void steps_end(Steps *steps) {
    if (steps_my_turn >= 0) atomic_store(&steps->at, steps_my_turn + 1);
    steps_my_turn = -1;
}

static inline void step(Steps *steps, int rank, const char *name) {
    steps_end(steps);
    int at = atomic_load(&steps->at);
    for (; steps->order[at] && steps->order[at] - '0' != rank; at = atomic_load(&steps->at))
        usleep(50);
    if (!steps->order[at]) return;
    if (getenv("SHOW_STEPS")) fprintf(stderr, "  rank %d: %s\n", rank, name);
    steps_my_turn = at;
}

#endif
