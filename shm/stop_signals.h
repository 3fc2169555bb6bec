// Signals that ask a process to end, and the number of such requests.
//
//   sigset_t signals;
//   stop_signals(&signals);                       // block them, read them from a signalfd
//   StopRequests requests = {0};
//   if (!stop_requests_add(&requests, clock_nanoseconds())) continue;    // an echo of the last signal
//
// One request may arrive as two signals: GNU timeout and batch systems signal a process and then its whole group,
// microseconds apart. A second signal therefore counts only if it arrives STOP_ECHO_MILLISECONDS or more after the last
// signal that counted; an impatient Ctrl-C, Ctrl-C counts twice after that time.
#ifndef SOUNDER_SHM_STOP_SIGNALS_H
#define SOUNDER_SHM_STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Signals that ask a parent to stop: SIGHUP comes from a terminal that was closed; batch systems can be told to send
// SIGUSR1 or SIGUSR2. A worker ignores all of them from its start on: batch systems send them to every process of a
// job, and the parent decides.
#define STOP_SIGNALS SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2

enum { STOP_ECHO_MILLISECONDS = 500 };

typedef struct StopRequests {
    int count; // 0: no request yet
    uint64_t last_nanoseconds;
} StopRequests;

// Counts a signal that was read at this time. Returns false if it belongs to the previous request.
bool stop_requests_add(StopRequests *requests, uint64_t now_nanoseconds);

// STOP_SIGNALS without those that were ignored when this process was started (nohup, & in a script).
void stop_signals(sigset_t *signals);

// Adds SIGTSTP to them: the signals that a parent reads from its signalfd, and blocks before a library starts threads.
void parent_signals(sigset_t *signals);

// Selects from the `count` signals in `numbers` those that were not ignored when this process was started.
void signals_not_ignored(sigset_t *signals, const int *numbers, size_t count);

// Writes "SIGKILL", or "signal 35" for a signal that has no name. Returns name.
enum { SIGNAL_NAME_BYTES = 24 };
const char *signal_name(char name[SIGNAL_NAME_BYTES], int number);

// Stops this process as the default action of Ctrl-Z (SIGTSTP) would, for a process that reads the signal from a
// signalfd. Returns when the process is continued.
void suspend_self(void);

#endif
