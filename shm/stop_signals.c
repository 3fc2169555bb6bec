#include "shm/stop_signals.h"

#include <stdio.h>
#include <string.h>

bool stop_requests_add(StopRequests *requests, uint64_t now_nanoseconds) {
    const uint64_t echo_nanoseconds = STOP_ECHO_MILLISECONDS * UINT64_C(1000000);
    if (requests->count > 0 && now_nanoseconds - requests->last_nanoseconds < echo_nanoseconds) return false;
    requests->count++;
    requests->last_nanoseconds = now_nanoseconds;
    return true;
}

void signals_not_ignored(sigset_t *signals, const int *numbers, size_t count) {
    sigemptyset(signals);
    for (size_t i = 0; i < count; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(signals, numbers[i]);
    }
}

void stop_signals(sigset_t *signals) {
    static const int stopping[] = {STOP_SIGNALS};
    signals_not_ignored(signals, stopping, sizeof stopping / sizeof *stopping);
}

void parent_signals(sigset_t *signals) {
    static const int taken[] = {STOP_SIGNALS, SIGTSTP};
    signals_not_ignored(signals, taken, sizeof taken / sizeof *taken);
}

const char *signal_name(char name[SIGNAL_NAME_BYTES], int number) {
    const char *known = sigabbrev_np(number);
    if (known)
        snprintf(name, SIGNAL_NAME_BYTES, "SIG%s", known);
    else
        snprintf(name, SIGNAL_NAME_BYTES, "signal %d", number);
    return name;
}

void suspend_self(void) {
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP); // stays pending until it is unblocked
    sigprocmask(SIG_UNBLOCK, &stop, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
