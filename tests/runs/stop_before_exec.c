// Runs a program, one of whose children is stopped before its first instruction, as a freezer or a debugger may do.
// Usage: stop_before_exec N PROGRAM ARGUMENT ...
// The process becomes the program; a tracer, which is no child of it, stops the N-th process (1: the first) that it
// starts, and ends. Exit code 77 where ptrace is not allowed.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77, LAST_RESORT_SECONDS = 200 };

// Lets a child go that the program has just started, to stand still if it is the one that was asked for.
static void let_child_go(pid_t program, bool wanted) {
    unsigned long child = 0;
    ptrace(PTRACE_GETEVENTMSG, program, NULL, &child);
    if (waitpid((pid_t)child, NULL, __WALL) < 0) return; // it stands before its first instruction
    if (wanted) kill((pid_t)child, SIGSTOP);             // and goes no further
    ptrace(PTRACE_DETACH, (pid_t)child, NULL, NULL);
}

static void trace(pid_t program, int nth, int ready) {
    setsid();
    for (int fd = 0; fd < 3; fd++) // pipes end with the program
        close(fd);
    alarm(LAST_RESORT_SECONDS);
    const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    const char seized = ptrace(PTRACE_SEIZE, program, NULL, options) == 0;
    if (write(ready, &seized, 1) != 1 || !seized) _exit(1);
    close(ready);
    for (int status, children = 0; children < nth;) {
        if (waitpid(program, &status, __WALL) < 0 || !WIFSTOPPED(status)) break;
        const int event = status >> 16, number = WSTOPSIG(status);
        const bool is_birth = event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK;
        if (is_birth) let_child_go(program, ++children == nth);
        if (event == PTRACE_EVENT_STOP && number != SIGTRAP)
            ptrace(PTRACE_LISTEN, program, NULL, NULL);
        else
            ptrace(PTRACE_CONT, program, NULL, event ? 0L : (long)number);
    }
    _exit(0); // which lets the program go
}

int main(int argc, char **argv) {
    int ready[2];
    if (argc < 3 || pipe2(ready, O_CLOEXEC) != 0) return EXIT_FAILURE;
    const pid_t program = getpid(), go_between = fork();
    if (go_between == 0) {
        const pid_t tracer = fork();
        if (tracer == 0) trace(program, atoi(argv[1]), ready[1]);
        _exit(tracer < 0);
    }
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    waitpid(go_between, NULL, 0);
    close(ready[1]);
    char seized = 0;
    if (read(ready[0], &seized, 1) != 1 || !seized) return EXIT_SKIPPED;
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return EXIT_FAILURE;
}
