#include "shm/spawn.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/stop_signals.h"

enum {
    DESCRIPTORS_PER_WORKER = 2, // pidfd, read end of the start-up pipe
    DESCRIPTORS_TO_SPARE = 64,  // of the supervisor, of one spawn, and for the files that a run opens later
    ABOVE_ALL_TARGETS = WORKER_FIRST_FD + WORKER_MAX_FDS + 1,
    SOURCES_MAX = 4 + WORKER_MAX_FDS,
    STACK_BYTES = 32 << 10, // for a process that makes a few system calls
};

static uint64_t open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return 0;
    uint64_t count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

Status spawn_reserve_descriptors(uint32_t workers, Error *err) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return fail_errno(err, STATUS_OS, "cannot read the limit of open files");
    rlim_t needed = (rlim_t)workers * DESCRIPTORS_PER_WORKER + open_descriptors() + DESCRIPTORS_TO_SPARE;
    if (limit.rlim_cur >= needed) return STATUS_OK;
    rlim_t hard = limit.rlim_max;
    limit.rlim_cur = needed;
    if (needed > hard || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return fail(err, STATUS_OS,
                    "%u workers need %lu open files, but the limit is %lu: start fewer workers or raise it (ulimit -n)",
                    workers, (unsigned long)needed, (unsigned long)hard);
    return STATUS_OK;
}

// The data that a process reads until it has become the worker, and its stack until then. Its memory is the parent's
// own (CLONE_VM), as after a vfork, so that nothing is copied, however large the parent is, and no page of a device's
// buffers is shared by fork. Unlike after a vfork the parent continues at once: a process that is stopped before its
// exec must not stop its parent.
struct SpawnPlan {
    int sources[SOURCES_MAX]; // owned until it has started: duplicates of what it inherits, above all targets
    int targets[SOURCES_MAX];
    uint32_t source_count;
    unsigned first_closed; // this descriptor and all above are closed in the worker
    unsigned most_descriptors;
    pid_t parent;
    int problem;        // errno of the call that kept the process from becoming the worker; 0: none
    char **arguments;   // owned array, NULL-terminated; strings: the caller's and the three below
    char **environment; // owned array of the strings of environ
    char name[32], rank_text[16], parent_text[16];
    _Alignas(64) char stack[STACK_BYTES];
};

// In the child --------------------------------------------------------------------------------------------------------

// Makes a system call; returns -errno if it fails. The child shares errno with its parent and must not change it.
static inline long kernel(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
    register long fourth __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long name __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(name), "r"(second), "r"(third), "r"(fourth) : "memory");
    return first;
#else
    long result = syscall(number, a, b, c, d); // errno may be written, but only by a worker that cannot start
    return result < 0 ? -errno : result;
#endif
}

static __attribute__((no_sanitize("address", "undefined"))) long place_descriptors(const SpawnPlan *plan) {
    for (uint32_t i = 0; i < plan->source_count; i++) {
        long result = kernel(SYS_dup3, plan->sources[i], plan->targets[i], 0, 0);
        if (result < 0) return result;
    }
    if (kernel(SYS_close_range, plan->first_closed, ~0U, 0, 0) == 0) return 0;
    for (unsigned fd = plan->first_closed; fd < plan->most_descriptors; fd++) // Linux before 5.9
        kernel(SYS_close, fd, 0, 0, 0);
    return 0;
}

// The stop signals are for the parent: even one that is pending already must not end the worker before its work begins.
static __attribute__((no_sanitize("address", "undefined"))) void open_signals(void) {
    static const int stopping[] = {STOP_SIGNALS};
    const uint64_t ignored[4] = {(uint64_t)(uintptr_t)SIG_IGN}, mask = 0; // the kernel's struct sigaction, no flags
    const uint64_t preset[4] = {0};                                       // SIG_DFL
    for (int number = 1; number <= 64; number++)
        kernel(SYS_rt_sigaction, number, (long)preset, 0, sizeof mask);
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++)
        kernel(SYS_rt_sigaction, stopping[i], (long)ignored, 0, sizeof mask);
    kernel(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask);
}

static __attribute__((no_sanitize("address", "undefined"))) int become_worker(void *context) {
    static const char self[] = "/proc/self/exe";
    SpawnPlan *plan = context;
    kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    if (kernel(SYS_getppid, 0, 0, 0, 0) != plan->parent) return EX_OSERR; // the parent died before PR_SET_PDEATHSIG
    kernel(SYS_setpgid, 0, 0, 0, 0);                                      // a group of its own
    long result = place_descriptors(plan);
    if (result == 0) {
        open_signals();
        result = kernel(SYS_execve, (long)self, (long)plan->arguments, (long)plan->environment, 0);
    }
    plan->problem = (int)-result;
    return EX_OSERR;
}

// In the parent -------------------------------------------------------------------------------------------------------

void spawn_explain(char *message, size_t bytes, const SpawnPlan *plan) {
    if (plan && plan->problem)
        snprintf(message, bytes, "it cannot be started from /proc/self/exe: %s", strerror(plan->problem));
}

void spawn_settle(SpawnPlan *plan) {
    if (!plan) return;
    free(plan->environment);
    free(plan->arguments);
    free(plan);
}

// Plans a descriptor at the number `target` in the worker. The parent's descriptor could have the number of another
// one's target and be overwritten before its turn, therefore the worker gets a duplicate above all targets.
static Status plan_descriptor(SpawnPlan *plan, int fd, int target, Error *err) {
    assert(plan->source_count < SOURCES_MAX);
    assert(fd >= 0 && target >= 0 && target < ABOVE_ALL_TARGETS);
    int source = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_ALL_TARGETS);
    if (source < 0) return fail_errno(err, STATUS_OS, "cannot hand descriptor %d to a worker", fd);
    assert(source >= ABOVE_ALL_TARGETS); // no target of a later one
    plan->targets[plan->source_count] = target;
    plan->sources[plan->source_count++] = source;
    return STATUS_OK;
}

static Status plan_descriptors(SpawnPlan *plan, const SpawnCommand *command, uint32_t rank, int startup_fd,
                               int arrival_fd, Error *err) {
    if (command->fd_count > WORKER_MAX_FDS)
        return fail(err, STATUS_SOFTWARE, "a worker inherits at most %d descriptors, not %u", WORKER_MAX_FDS,
                    command->fd_count);
    TRY(plan_descriptor(plan, startup_fd, WORKER_STARTUP_FD, err));
    TRY(plan_descriptor(plan, arrival_fd, WORKER_ARRIVAL_FD, err));
    for (uint32_t i = 0; i < command->fd_count; i++)
        TRY(plan_descriptor(plan, command->fds[i], WORKER_FIRST_FD + (int)i, err));
    plan->first_closed = WORKER_FIRST_FD + command->fd_count;
    if (command->rank_fds) TRY(plan_descriptor(plan, command->rank_fds[rank], (int)plan->first_closed++, err));
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) plan->most_descriptors = (unsigned)limit.rlim_cur;
    // Reading the terminal would stop a worker with SIGTTIN, so stdin is /dev/null.
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0) return fail_errno(err, STATUS_OS, "cannot open /dev/null for a worker");
    Status status = plan_descriptor(plan, nothing, STDIN_FILENO, err);
    close(nothing);
    return status;
}

// All texts are prepared in the parent: the child shares the parent's memory and must not allocate.
static Status plan_texts(SpawnPlan *plan, const SpawnCommand *command, uint32_t rank, Error *err) {
    size_t arguments = 0, variables = 0;
    while (command->arguments[arguments])
        arguments++;
    while (environ[variables])
        variables++;
    plan->arguments = calloc(arguments + 1, sizeof *plan->arguments);
    plan->environment = calloc(variables + 1, sizeof *plan->environment);
    if (!plan->arguments || !plan->environment) return fail(err, STATUS_OS, "out of memory for the start of a worker");
    memcpy(plan->environment, environ, variables * sizeof *environ); // a copy: setenv may move the array at any time
    plan->parent = getpid();
    assert(arguments > 0 && plan->source_count > 0);
    snprintf(plan->rank_text, sizeof plan->rank_text, "%u", rank);
    snprintf(plan->parent_text, sizeof plan->parent_text, "%d", plan->parent);
    for (size_t i = 0; i < arguments; i++) {
        char *argument = command->arguments[i];
        const char *rank_in_name = i == 0 ? strstr(argument, "@RANK") : NULL;
        if (rank_in_name) {
            snprintf(plan->name, sizeof plan->name, "%.*s%u", (int)(rank_in_name - argument), argument, rank);
            argument = plan->name;
        }
        if (strcmp(argument, "@RANK") == 0) argument = plan->rank_text;
        if (strcmp(argument, "@PARENT") == 0) argument = plan->parent_text;
        plan->arguments[i] = argument;
    }
    return STATUS_OK;
}

// All signals are blocked until the child is the worker: a handler in the child would run in the parent's memory.
static Status launch(WorkerProcess *process, SpawnPlan *plan, uint32_t rank, Error *err) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    process->pid = clone(become_worker, plan->stack + STACK_BYTES, CLONE_VM | SIGCHLD, plan);
    if (process->pid < 0 && errno == EINVAL) // an emulator of another processor, which supports only fork
        process->pid = clone(become_worker, plan->stack + STACK_BYTES, SIGCHLD, plan);
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (process->pid < 0)
        return fail(err, STATUS_OS, "cannot start worker %u: %s%s", rank, strerror(error),
                    error == EAGAIN
                        ? ", the limit of processes: give fewer --workers, or raise it (ulimit -u; pids.max "
                          "of the container)"
                        : "");
    process->pidfd = pidfd_open(process->pid, 0); // the pid cannot have been reused: only this process may reap it
    if (process->pidfd >= 0) return STATUS_OK;
    Status status =
        fail_errno(err, STATUS_OS,
                   "cannot watch worker %u: pidfd_open, which needs Linux 5.3 and a container whose seccomp "
                   "profile allows it",
                   rank);
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    return status;
}

// The parent keeps only the pidfd and the read end of the start-up pipe. If it kept the write end, it would never see
// that the worker has closed it.
Status spawn_worker(WorkerProcess *process, const SpawnCommand *command, uint32_t rank, int arrival_fd, Error *err) {
    assert(arrival_fd >= 0 && command->arguments);
    int startup[2];
    if (pipe2(startup, O_CLOEXEC | O_NONBLOCK) != 0)
        return fail_errno(err, STATUS_OS, "cannot create the start-up pipe of worker %u", rank);
    Status status = STATUS_OK;
    SpawnPlan *plan = aligned_alloc(_Alignof(SpawnPlan), sizeof *plan);
    if (!plan) {
        status = fail(err, STATUS_OS, "out of memory for the start of a worker");
        goto close_pipe;
    }
    memset(plan, 0, offsetof(SpawnPlan, stack));
    TRY_GOTO(close_sources, plan_descriptors(plan, command, rank, startup[1], arrival_fd, err));
    TRY_GOTO(close_sources, plan_texts(plan, command, rank, err));
    status = launch(process, plan, rank, err);

close_sources: // the started process has duplicates of its own
    for (uint32_t i = 0; i < plan->source_count; i++)
        close(plan->sources[i]); // the plan stays as it is: the child is still reading it
    if (status == STATUS_OK)
        process->plan = plan;
    else
        spawn_settle(plan);
close_pipe:
    close(startup[1]);
    if (status == STATUS_OK)
        process->startup_fd = startup[0];
    else
        close(startup[0]);
    return status;
}
