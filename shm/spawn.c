#include "shm/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DESCRIPTORS_PER_WORKER = 2, // pidfd, read end of the start-up pipe
    DESCRIPTORS_TO_SPARE = 64,  // the supervisor's own, those of one spawn, and the files a run opens later
    ABOVE_ALL_TARGETS = WORKER_FIRST_FD + WORKER_MAX_FDS,
    SOURCES_MAX = 2 + WORKER_MAX_FDS,
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

// Everything that posix_spawn wants to be given, released as one.
typedef struct SpawnPlan {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int sources[SOURCES_MAX]; // owned duplicates of what the worker inherits, numbered above all targets
    uint32_t source_count;
    char **arguments; // owned array, NULL-terminated; the strings are the caller's and the two below
    char rank_text[16], parent_text[16];
} SpawnPlan;

static Status plan_init(SpawnPlan *plan, Error *err) {
    *plan = (SpawnPlan){0};
    if (posix_spawn_file_actions_init(&plan->actions) != 0)
        return fail(err, STATUS_OS, "out of memory for the start of a worker");
    if (posix_spawnattr_init(&plan->attributes) != 0) {
        posix_spawn_file_actions_destroy(&plan->actions);
        return fail(err, STATUS_OS, "out of memory for the start of a worker");
    }
    return STATUS_OK;
}

static void plan_free(SpawnPlan *plan) {
    free(plan->arguments);
    for (uint32_t i = 0; i < plan->source_count; i++)
        close(plan->sources[i]);
    posix_spawnattr_destroy(&plan->attributes);
    posix_spawn_file_actions_destroy(&plan->actions);
}

// The worker shall find a descriptor at a number. A descriptor already standing at the target of another would be
// overwritten before its turn, therefore a duplicate above all targets is what is handed down.
static Status plan_descriptor(SpawnPlan *plan, int fd, int target, Error *err) {
    int source = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_ALL_TARGETS);
    if (source < 0) return fail_errno(err, STATUS_OS, "cannot hand descriptor %d to a worker", fd);
    plan->sources[plan->source_count++] = source;
    if (posix_spawn_file_actions_adddup2(&plan->actions, source, target) != 0)
        return fail(err, STATUS_OS, "out of memory for the start of a worker");
    return STATUS_OK;
}

static Status plan_descriptors(SpawnPlan *plan, const SupervisorConfig *config, int startup_fd, int arrival_fd,
                               Error *err) {
    if (config->fd_count > WORKER_MAX_FDS)
        return fail(err, STATUS_SOFTWARE, "a worker inherits at most %d descriptors, not %u", WORKER_MAX_FDS,
                    config->fd_count);
    TRY(plan_descriptor(plan, startup_fd, WORKER_STARTUP_FD, err));
    TRY(plan_descriptor(plan, arrival_fd, WORKER_ARRIVAL_FD, err));
    for (uint32_t i = 0; i < config->fd_count; i++)
        TRY(plan_descriptor(plan, config->fds[i], WORKER_FIRST_FD + (int)i, err));
    // A worker at the terminal's keyboard would be stopped by SIGTTIN; and whatever else this process has open, its
    // own parent's descriptors included, is none of the worker's business.
    if (posix_spawn_file_actions_addopen(&plan->actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_addclosefrom_np(&plan->actions, WORKER_FIRST_FD + (int)config->fd_count) != 0)
        return fail(err, STATUS_OS, "out of memory for the start of a worker");
    return STATUS_OK;
}

static void plan_signals(SpawnPlan *plan) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setpgroup(&plan->attributes, 0); // a group of its own
    posix_spawnattr_setsigmask(&plan->attributes, &none);
    posix_spawnattr_setsigdefault(&plan->attributes, &all);
    posix_spawnattr_setflags(&plan->attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static Status plan_arguments(SpawnPlan *plan, const SupervisorConfig *config, uint32_t rank, Error *err) {
    size_t count = 0;
    while (config->arguments[count])
        count++;
    plan->arguments = calloc(count + 1, sizeof *plan->arguments);
    if (!plan->arguments) return fail(err, STATUS_OS, "out of memory for the start of a worker");
    snprintf(plan->rank_text, sizeof plan->rank_text, "%u", rank);
    snprintf(plan->parent_text, sizeof plan->parent_text, "%d", getpid());
    for (size_t i = 0; i < count; i++) {
        char *argument = config->arguments[i];
        if (strcmp(argument, "@RANK") == 0) argument = plan->rank_text;
        if (strcmp(argument, "@PARENT") == 0) argument = plan->parent_text;
        plan->arguments[i] = argument;
    }
    return STATUS_OK;
}

static Status launch(WorkerProcess *process, const SpawnPlan *plan, uint32_t rank, Error *err) {
    int error =
        posix_spawn(&process->pid, "/proc/self/exe", &plan->actions, &plan->attributes, plan->arguments, environ);
    if (error != 0)
        return fail(err, STATUS_OS, "cannot start worker %u from /proc/self/exe: %s", rank, strerror(error));
    process->pidfd = pidfd_open(process->pid, 0); // the pid cannot be another's yet: only we may reap it
    if (process->pidfd >= 0) return STATUS_OK;
    Status status = fail_errno(err, STATUS_OS, "cannot watch worker %u (pid %d)", rank, process->pid);
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    return status;
}

Status spawn_worker(WorkerProcess *process, const SupervisorConfig *config, uint32_t rank, int arrival_fd, Error *err) {
    int startup[2];
    if (pipe2(startup, O_CLOEXEC | O_NONBLOCK) != 0)
        return fail_errno(err, STATUS_OS, "cannot create the start-up pipe of worker %u", rank);
    SpawnPlan plan;
    Status status = plan_init(&plan, err);
    if (status != STATUS_OK) goto close_pipe;
    TRY_GOTO(free_plan, plan_descriptors(&plan, config, startup[1], arrival_fd, err));
    TRY_GOTO(free_plan, plan_arguments(&plan, config, rank, err));
    plan_signals(&plan);
    status = launch(process, &plan, rank, err);

free_plan:
    plan_free(&plan);
close_pipe:
    close(startup[1]);
    if (status == STATUS_OK)
        process->startup_fd = startup[0];
    else
        close(startup[0]);
    return status;
}
