// Whether a process sleeps: then it has done all that it does before it waits.
#ifndef SOUNDER_TESTS_SHM_ASLEEP_H
#define SOUNDER_TESTS_SHM_ASLEEP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

// True while the process sleeps in the kernel and a signal would wake it, as in a futex or a poll.
static inline bool is_asleep(pid_t pid) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'S';
}

#endif
