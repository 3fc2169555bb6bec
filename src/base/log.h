// Log lines on stderr, one write(2) each so that lines of several processes never mix:
//
//   sounder: rank 3: warning: no progress for 30 s
//
// main sets level and rank once, at its start; they do not change afterwards. They are the only process-wide state of
// the project.
#ifndef SOUNDER_BASE_LOG_H
#define SOUNDER_BASE_LOG_H

#include <stdbool.h>

typedef enum LogLevel { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG } LogLevel;

enum { LOG_RANK_PARENT = -1 };

void log_init(LogLevel level, int rank);

// In a run on several machines: adds the node's number to all later lines of the parent.
void log_name_node(int node);
int log_node(void); // -1: the run is on one machine
LogLevel log_level(void);

// Says whether stderr is a terminal on which a line can be cleared and rewritten.
bool log_on_terminal(void);

// Returns the value; a NaN without its sign, which printf would show as "-nan".
double log_real(double value);

void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Logs a warning when this process says it for the first time, and a line of level info each time after that. Two calls
// with the same format (the same pointer) count as the same warning.
void log_warning_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
