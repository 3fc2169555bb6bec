// Log lines on stderr, one write(2) each so that lines of several processes never mix:
//
//   sounder: rank 3: warning: no progress for 30 s
//
// The level and the rank are set once, at the start of main, and are constant from then on: the one piece of
// process-wide state in the project.
#ifndef SOUNDER_BASE_LOG_H
#define SOUNDER_BASE_LOG_H

#include <stdbool.h>

typedef enum LogLevel { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG } LogLevel;

enum { LOG_RANK_PARENT = -1 };

void log_init(LogLevel level, int rank);

// In a run on several machines: every line of the parent names its node from here on.
void log_name_node(int node);
int log_node(void); // -1: the run is on one machine
LogLevel log_level(void);

// Whether stderr is a terminal on which a line can be cleared and written again.
bool log_on_terminal(void);

// A NaN without its sign, which printf shows and nobody wants to see.
double log_real(double value);

void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A warning the first time that this process says it, a line at level info each time after that. The format, as a
// pointer, is what counts as the same.
void log_warning_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
