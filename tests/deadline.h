// A deadline for tests that start processes. After it the whole process group is killed, the test itself included, so a
// hang is a failure that leaves nobody behind. Children that leave the group must be tied to their parent's life.
#ifndef SOUNDER_TESTS_DEADLINE_H
#define SOUNDER_TESTS_DEADLINE_H

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

static inline void deadline_passed(int signal_number) {
    (void)signal_number;
    static const char message[] = "the deadline of the test has passed: killing its process group\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) >= 0) kill(0, SIGKILL);
    _exit(1);
}

// First thing in main. Seconds for all that follows, until it is called again. Signals that were ignored from
// the start, as by a shell in the background, nohup or Python, have their default action again.
static inline void deadline_set(unsigned seconds) {
    if (getpgrp() != getpid()) setpgid(0, 0);
    static const int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++) {
        struct sigaction was;
        if (sigaction(heard[i], NULL, &was) == 0 && was.sa_handler == SIG_IGN) signal(heard[i], SIG_DFL);
    }
    signal(SIGALRM, deadline_passed);
    alarm(seconds);
}

// First thing in a forked child: it dies with the test.
static inline void deadline_join(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

#endif
