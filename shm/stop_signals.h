// The signals that ask a process to end, and how often it has been asked.
//
//   sigset_t signals;
//   stop_signals(&signals);                       // block them, read them from a signalfd
//   StopRequests requests = {0};
//   if (!stop_requests_add(&requests, clock_nanoseconds())) continue;    // an echo of the last signal
//
// One request may arrive as two signals: GNU timeout and batch systems signal a process and then its whole group,
// microseconds apart. A second signal therefore counts only if it arrives STOP_ECHO_MILLISECONDS after the last one
// that counted; an impatient Ctrl-C, Ctrl-C counts twice after that time.
#ifndef SOUNDER_SHM_STOP_SIGNALS_H
#define SOUNDER_SHM_STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// These signals ask a parent to stop. A worker ignores them from its start on: batch systems send them to every process
// of a job, and the parent decides what to do.
#define STOP_SIGNALS SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2

enum { STOP_ECHO_MILLISECONDS = 500 };

typedef struct StopRequests {
    int count; // 0: no request yet
    uint64_t last_nanoseconds;
} StopRequests;

// Notes a signal that was read at this time. false: it belongs to the request before.
bool stop_requests_add(StopRequests *requests, uint64_t now_nanoseconds);

// The signals that ask a run to end: SIGINT, SIGTERM, SIGHUP (a terminal that was closed), SIGUSR1 and SIGUSR2 (what
// batch systems are told to send), without those that this process was started with ignored (nohup, & in a script).
void stop_signals(sigset_t *signals);

// These and SIGTSTP: what a parent takes from its signalfd, and blocks before a library starts threads.
void parent_signals(sigset_t *signals);

// Those of a list (count) that this process was not started with ignored.
void signals_not_ignored(sigset_t *signals, const int *numbers, size_t count);

// Stops this process as the default action of the terminal's Ctrl-Z (SIGTSTP) would, for a process that takes the
// signal from a signalfd. Returns when it continues.
void suspend_self(void);

#endif
