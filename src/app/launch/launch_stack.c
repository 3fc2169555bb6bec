#include "launch_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch_proc.h"

extern char **environ;

enum { MOST_FRAMES = 12, OUTPUT_BYTES = 1 << 16, MOST_SECONDS = 20 };

// The debugger starts with all signals at their defaults, and without the launcher's output: only its standard output
// is read.
static pid_t start(char *const *words, int output_fd) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    pid_t pid = -1;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, output_fd, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    if (posix_spawnp(&pid, words[0], &files, &attributes, words, environ) != 0) pid = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

bool stack_begin(Stack *stack, pid_t pid) {
    char number[16], name[PROCESS_NAME_BYTES];
    snprintf(number, sizeof number, "%d", pid);
    process_name(name, pid);
    *stack = NO_STACK;
    const bool is_python = strncmp(name, "python", 6) == 0 || strncmp(name, "pt_", 3) == 0; // PyTorch renames itself
    stack->output_fd = memfd_create("stack", MFD_CLOEXEC);
    if (stack->output_fd < 0) return false;
    char *py_spy[] = {"py-spy", "dump", "--pid", number, NULL};
    char *gdb[] = {"gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", number, "-ex", "bt 12", NULL};
    pid_t debugger = is_python ? start(py_spy, stack->output_fd) : -1;
    stack->by_py_spy = debugger > 0;
    stack->lacks_py_spy = is_python && !stack->by_py_spy;
    if (!stack->by_py_spy) debugger = start(gdb, stack->output_fd);
    if (debugger > 0) stack->pidfd = pidfd_open(debugger, 0);
    stack->deadline_nanoseconds = clock_nanoseconds() + MOST_SECONDS * UINT64_C(1000000000);
    if (stack->pidfd >= 0) return true;
    close(stack->output_fd);
    *stack = NO_STACK;
    return false;
}

// gdb's frames begin with "#0", those of py-spy are indented. Each is shortened to one line of a terminal.
static bool is_frame(const char *line, bool by_py_spy) {
    return by_py_spy ? strncmp(line, "    ", 4) == 0 || strncmp(line, "Thread", 6) == 0
                     : *line == '#' && line[1] >= '0' && line[1] <= '9';
}

static bool tells_refusal(const char *line) {
    return strstr(line, "ptrace") || strstr(line, "not permitted") || strstr(line, "Permission");
}

void stack_end(Stack *stack, void (*say)(void *context, const char *line), void *context) {
    enum { MOST_COLUMNS = 110 };
    char *text = calloc(1, OUTPUT_BYTES + 1), *rest = text, refusal[MOST_COLUMNS] = "";
    const bool in_time = clock_nanoseconds() < stack->deadline_nanoseconds;
    int frames = 0;
    pidfd_send_signal(stack->pidfd, SIGKILL, NULL, 0); // it has ended, or it has had its time
    waitid(P_PIDFD, (id_t)stack->pidfd, &(siginfo_t){0}, WEXITED);
    if (text && pread(stack->output_fd, text, OUTPUT_BYTES, 0) < 0) *text = '\0';
    for (char *line; text && (line = strsep(&rest, "\n")) && frames < MOST_FRAMES;) {
        if (strlen(line) >= MOST_COLUMNS) line[MOST_COLUMNS - 1] = '\0';
        if (is_frame(line, stack->by_py_spy)) {
            say(context, line);
            frames++;
        } else if (!*refusal && tells_refusal(line))
            snprintf(refusal, sizeof refusal, "%s", line);
    }
    if (frames == 0 && in_time)
        say(context, *refusal ? "its stack cannot be read: the kernel lets no debugger attach (root may, or "
                                "sysctl kernel.yama.ptrace_scope=0)"
                              : "its stack cannot be read: the debugger tells no frame");
    else if (frames == 0)
        say(context, "its stack cannot be read: the debugger has not ended in time");
    if (stack->lacks_py_spy) say(context, "(py-spy, of pip, shows the lines of Python)");
    free(text);
    close(stack->pidfd);
    close(stack->output_fd);
    *stack = NO_STACK;
}
