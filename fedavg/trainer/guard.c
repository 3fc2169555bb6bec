#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "shm/stop_signals.h"

enum { EXEC_FAILED = 127, FIRST_FD = 3, LEAVE_SECONDS = 1 };

static const char guard_name[] = "sounder:guard";

// Stop signals of a batch system or a terminal are for the parent, which decides. TERM alone keeps its action: pools of
// processes end their members with it, and an ignored signal would be inherited.
static void set_signals(bool of_program) {
    static const int stopping[] = {STOP_SIGNALS};
    sigset_t none;
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++)
        signal(stopping[i], of_program && stopping[i] == SIGTERM ? SIG_DFL : SIG_IGN);
    if (!of_program) return;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// The child, between fork and exec. It makes itself the leader of a group, so that one kill reaches what it starts, and
// it has to die if the guard is killed: then no process is left that could end it.
_Noreturn static void become_program(int output, const char *fds, char *const *words, pid_t guard) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The signal of the line above is sent for deaths that follow it: a guard that has died before is found by asking.
    if (getppid() != guard) _exit(EXEC_FAILED);
    set_signals(true);
    memory_offer_to_die_first();
    const int nothing = open("/dev/null", O_RDONLY); // reading the terminal would stop it
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (output >= 0) dup2(output, STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); // the run's own output stays as it is
    // All descriptors but `fds` close on exec. They are marked and not closed, since the folder is still being read.
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const int fd = atoi(entry->d_name);
        if (fd >= FIRST_FD) fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    for (const char *next = fds; *next; next += strspn(next, ",")) {
        char *end;
        fcntl((int)strtol(next, &end, 10), F_SETFD, 0);
        next = end;
    }
    execvp(words[0], words);
    fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
    _exit(EXEC_FAILED);
}

// The number of the process's parent; 0: it is gone.
static pid_t parent_of(pid_t pid) {
    char path[32], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    const char *name_end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (name_end && sscanf(name_end, ") %*c %d", &parent) != 1) parent = 0;
    if (file) fclose(file);
    return parent;
}

// Sends the signal to all children, or to all descendants. Children's numbers are theirs until this process reaps them.
// A child that has left the program's group (setsid, a daemon, a loader of data, a fork that is a trainer) can only be
// found by its parent's number in /proc.
static void signal_below(int number, bool all) {
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const pid_t pid = atoi(entry->d_name);
        pid_t above = pid > 0 ? parent_of(pid) : 0;
        while (all && above > 1 && above != getpid())
            above = parent_of(above);
        if (above == getpid()) kill(pid, number);
    }
    if (folder) closedir(folder);
}

void guard_signal(pid_t guard, int number) {
    char path[32], name[sizeof guard_name + 1] = "";
    if (guard <= 0) return;
    snprintf(path, sizeof path, "/proc/%d/comm", guard);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof name, file) && strncmp(name, guard_name, sizeof guard_name - 1) == 0)
        kill(guard, number);
    if (file) fclose(file);
}

// Returns whether the program has ended, and reaps everything else that has. The program itself stays a zombie: until
// it is reaped its number is no other process's, and killing its group hits no stranger.
static bool has_ended(pid_t program) {
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
        if (info.si_pid == program) return true;
        waitpid(info.si_pid, NULL, 0);
    }
}

// Returns the program's status of waitpid. deaths: SIGCHLD, which is blocked. A descendant that is born meanwhile is
// found in the next turn.
static int end_all(pid_t program, const sigset_t *deaths) {
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    const uint64_t begin = clock_nanoseconds();
    int status = 0, of_program = SIGKILL;
    // The group first: it is one call, and it is all there is for most programs. Then whatever has left the group,
    // until no child is left. A process that the kernel cannot kill, as in a hanging file system, must not hold up the
    // run.
    kill(-program, SIGKILL);
    for (;;) {
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == program) of_program = status;
        if (pid > 0 || (pid < 0 && errno == EINTR)) continue;
        if (pid < 0 || clock_seconds_since(begin) > LEAVE_SECONDS) return of_program;
        // A killed process takes a moment to die: a search of /proc meanwhile would find what is dying already. Orphans
        // become this process's children, as it is their subreaper, so that the next search reaches every generation.
        if (sigtimedwait(deaths, NULL, &moment) < 0) signal_below(SIGKILL, false);
    }
}

// The worker does not see an exit code, since the guard reaps the program. It learns from this line whether its trainer
// was killed from outside or has ended by itself, which decides how often the turn is tried again.
static void report(int leash, int status) {
    char text[GUARD_REPORT_BYTES];
    const int bytes = WIFEXITED(status) ? snprintf(text, sizeof text, "exit %d", WEXITSTATUS(status))
                                        : snprintf(text, sizeof text, "signal %d", WTERMSIG(status));
    send(leash, text, (size_t)bytes, MSG_NOSIGNAL);
}

void guard_run(int leash, int output, const char *fds, char *const *words) {
    sigset_t deaths, taken;
    prctl(PR_SET_NAME, guard_name);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    set_signals(false);
    // A death is to end the poll below, without a moment in which it is lost: therefore it is blocked before there is a
    // child, and read from a descriptor. The program gets an empty mask again (set_signals).
    sigemptyset(&deaths);
    sigaddset(&deaths, SIGCHLD);
    taken = deaths;
    sigaddset(&taken, GUARD_PAUSE);
    sigaddset(&taken, GUARD_CONTINUE);
    sigprocmask(SIG_SETMASK, &taken, NULL);
    signal(SIGCHLD, SIG_DFL); // an ignored one would reap
    const pid_t guard = getpid(), program = fork();
    const int why = errno;
    if (program == 0) become_program(output, fds, words, guard);
    leash = dup2(leash, FIRST_FD);
    // The guard has inherited the descriptors of the program's socket, desk and data. A copy that stays open here would
    // hide the end of the program from its worker, which waits for the end of the socket.
    closefrom(FIRST_FD + 1);
    if (program < 0) {
        dprintf(leash, "fork %d", why);
        return;
    }
    setpgid(program, program); // in both processes, since either may run first
    struct pollfd events[] = {{.fd = leash, .events = POLLIN},
                              {.fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN}};
    // The second of waiting is only a safety net: either descriptor wakes the guard at once.
    do {
        struct signalfd_siginfo info;
        if (events[1].revents && read(events[1].fd, &info, sizeof info) < 0) continue;
        if (events[1].revents && info.ssi_signo == GUARD_PAUSE) signal_below(SIGSTOP, true);
        if (events[1].revents && info.ssi_signo == GUARD_CONTINUE) signal_below(SIGCONT, true);
    } while (!has_ended(program) && (poll(events, 2, 1000) <= 0 || !events[0].revents));
    report(leash, end_all(program, &deaths));
}
