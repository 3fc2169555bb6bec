// The lessons with Sounder's library share this: ranks.h, and an end with one sentence when a call fails.
#ifndef SOUNDER_TOOLS_LESSONS_LESSON_H
#define SOUNDER_TOOLS_LESSONS_LESSON_H

#include <sounder/base/err.h>
#include "ranks.h"

// Ends the process with the sentence of a failure.
static inline void must(Status status, const Error *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "error: %s\n", err->message);
    exit(status_exit_code(status));
}

#endif
