#include "log.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static LogLevel current_level = LOG_WARNING;
static int current_rank = LOG_RANK_PARENT;
static int current_node = -1; // -1: the run is on one machine

enum { MOST_ONCE = 8 };
static _Atomic(const char *) said_once[MOST_ONCE]; // the formats of warnings that were said

void log_init(LogLevel level, int rank) {
    current_level = level;
    current_rank = rank;
}

void log_name_node(int node) {
    current_node = node;
}

int log_node(void) {
    return current_node;
}

LogLevel log_level(void) {
    return current_level;
}

bool log_on_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

double log_real(double value) {
    return isnan(value) ? (double)NAN : value;
}

// The line is built in one buffer and written by one call, so that lines of several processes do not mix.
static void log_line(LogLevel level, const char *format, va_list args) {
    static const char *const prefixes[] = {"error: ", "warning: ", "", "debug: "};
    if (level > current_level) return;
    char line[2048];
    // On a terminal the cursor may be in a progress line: clear it.
    const char *clear = log_on_terminal() ? "\r\033[K" : "";
    char node[24] = "";
    if (current_node >= 0) snprintf(node, sizeof node, "node %d: ", current_node);
    int used = current_rank == LOG_RANK_PARENT
                   ? snprintf(line, sizeof line, "%ssounder: %s%s", clear, node, prefixes[level])
                   : snprintf(line, sizeof line, "%ssounder: rank %d: %s", clear, current_rank, prefixes[level]);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    disarm_text(line + used);
    size_t length = strlen(line);
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0) return; // there is no other place to report to
}

#define DEFINE_LOG(function, level)                                                                                    \
    void function(const char *format, ...) {                                                                           \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        log_line(level, format, args);                                                                                 \
        va_end(args);                                                                                                  \
    }

DEFINE_LOG(log_warning, LOG_WARNING)
DEFINE_LOG(log_info, LOG_INFO)
DEFINE_LOG(log_debug, LOG_DEBUG)

// Remembers the format. Returns false if this process has used it in a warning before.
static bool is_said_first(const char *format) {
    for (int i = 0; i < MOST_ONCE; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&said_once[i], &none, format, memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
        if (none == format) return false;
    }
    return true;
}

void log_warning_once(const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_line(is_said_first(format) ? LOG_WARNING : LOG_INFO, format, args);
    va_end(args);
}
