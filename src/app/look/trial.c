#include "trial.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/look/past_run.h"
#include "app/look/sweep_process.h"
#include "base/clock.h"
#include "io/safetensors.h"

enum { MOST_WORDS = 32 };

// Not a fork: a process that has called CUDA must not have forks which do.
static int spawn(pid_t *pid, char *const *arguments, int stderr_fd) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
    const int error = posix_spawn(pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Workers and trainers end with the process that is killed.
static Status wait_for_end(pid_t pid, int stderr_fd, Error *err) {
    char text[SWEEP_WORDS_BYTES];
    int end = 0;
    const uint64_t begin = clock_nanoseconds();
    struct pollfd death = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    const int error = errno;
    bool in_time = false;
    for (double left = TRIAL_SECONDS; death.fd >= 0 && !in_time && left > 0;
         left = TRIAL_SECONDS - clock_seconds_since(begin))
        in_time = poll(&death, 1, (int)(left * 1e3) + 1) > 0; // a signal interrupts it
    if (death.fd >= 0) close(death.fd);
    if (!in_time) kill(pid, SIGKILL);
    waitpid(pid, &end, 0);
    if (death.fd < 0) return fail(err, STATUS_OS, "a short run cannot be waited for: %s", strerror(error));
    if (!in_time) return fail(err, STATUS_UNAVAILABLE, "a short run has not ended within %d s", TRIAL_SECONDS);
    if (WIFEXITED(end) && WEXITSTATUS(end) == 0) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "%.900s", sweep_process_words(text, stderr_fd, end, UINT64_MAX));
}

static Status train(char *const *arguments, Error *err) {
    pid_t pid;
    const int stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    if (stderr_fd < 0) return fail_errno(err, STATUS_OS, "a short run needs a file descriptor");
    const int error = spawn(&pid, arguments, stderr_fd);
    const Status status = error == 0 ? wait_for_end(pid, stderr_fd, err)
                                     : fail(err, STATUS_OS, "a short run cannot be started: %s", strerror(error));
    close(stderr_fd);
    return status;
}

Status trial_run(Trial *trial, const char *folder, const char *name, char *const *options, Error *err) {
    char path[TRIAL_PATH_BYTES - 24];
    char *arguments[MOST_WORDS] = {(char *)"sounder", (char *)"train",
                                   (char *)"--model", (char *)"lenet",
                                   (char *)"--quiet", (char *)"--tensorboard=false",
                                   (char *)"--out",   path};
    PastRun run;
    int count = 0;
    while (arguments[count])
        count++;
    for (; *options; options++) {
        assert(count < MOST_WORDS - 1);
        arguments[count++] = *options;
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(trial->model, sizeof trial->model, "%s/model.safetensors", path);
    TRY(train(arguments, err));
    TRY(past_run_read(&run, path, err));
    trial->samples_per_second = past_run_number(run.values, "samples_per_second");
    trial->start_seconds = past_run_number(run.summary, "cold_start_seconds");
    past_run_free(&run);
    return STATUS_OK;
}

Status trial_compare(double *difference, const Trial *a, const Trial *b, Error *err) {
    Safetensors left, right;
    TRY(safetensors_open(&left, a->model, err));
    Status status = safetensors_open(&right, b->model, err);
    if (status == STATUS_OK) {
        const float *of_a = (const float *)(const void *)left.payload,
                    *of_b = (const float *)(const void *)right.payload;
        if (left.payload_bytes != right.payload_bytes)
            status = fail(err, STATUS_DATA, "%s and %s are of different nets", a->model, b->model);
        *difference = 0;
        for (size_t i = 0; i < left.payload_bytes / sizeof *of_a && status == STATUS_OK; i++) {
            const double apart = fabs((double)of_a[i] - (double)of_b[i]);
            if (apart > *difference || isnan(apart)) *difference = apart;
        }
        safetensors_close(&right);
    }
    safetensors_close(&left);
    return status;
}
