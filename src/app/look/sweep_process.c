#include "sweep_process.h"
#include "app/train/train.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "fedavg/nodes/nodes.h"
#include "shm/stop_signals.h"

bool sweep_process_begin(const SweepStart *start, int stderr_fd, pid_t parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) return false;
    setpgid(0, 0);
    prctl(PR_SET_NAME, "sounder:run");
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
        dup2(stderr_fd, STDERR_FILENO) < 0)
        return false;
    close(nothing);
    close(start->signal_fd);
    sigprocmask(SIG_SETMASK, start->mask, NULL);
    return true;
}

// Body of a run's process: does what `sounder train` does.
static void become_run(int count, char **arguments, int cores, const SweepStart *start, int stderr_fd, pid_t parent) {
    Error err = {.message = ""};
    int exit_code = EX_OSERR;
    if (!sweep_process_begin(start, stderr_fd, parent)) _exit(exit_code);
    nodes_stay_alone();
    const Status status = train_with(count, arguments, start->ready, cores, &exit_code, &err);
    if (status != STATUS_OK) fprintf(stderr, "sounder: error: %s\n", err.message);
    fflush(NULL);
    _exit(status == STATUS_OK ? exit_code : status_exit_code(status));
}

Status sweep_process_start(Job *job, const SweepStart *start, Error *err) {
    const int count = job_argument_count(job);
    char **arguments = calloc((size_t)count + 2, sizeof *arguments);
    if (!arguments) return fail(err, STATUS_OS, "no memory to start a run");
    memcpy(arguments, job->arguments, (size_t)count * sizeof *arguments);
    arguments[count] = (char *)"--quiet";
    job->stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    const pid_t parent = getpid();
    fflush(stdout);
    job->pid = job->stderr_fd >= 0 ? fork() : -1;
    if (job->pid == 0) become_run(count + 1, arguments, job->cores, start, job->stderr_fd, parent);
    free(arguments);
    if (job->pid > 0) return STATUS_OK;
    Status status = fail_errno(err, STATUS_OS,
                               job->stderr_fd < 0 ? "a run needs a file descriptor"
                                                  : "a run needs processes; raise their limit (ulimit -u, a control "
                                                    "group's pids.max)");
    if (job->stderr_fd >= 0) close(job->stderr_fd);
    job->stderr_fd = -1;
    job->pid = 0;
    return status;
}

void sweep_process_tell(Job *job) {
    char *line = NULL;
    size_t room = 0;
    FILE *file = fdopen(job->stderr_fd, "r");
    if (!file) return;
    rewind(file);
    while (getline(&line, &room, file) > 0)
        if (*line != '\n') fprintf(stderr, "%s: %.*s\n", job->name, (int)strcspn(line, "\n"), line);
    free(line);
    fclose(file);
    job->stderr_fd = -1;
}

const char *sweep_process_words(char *text, int stderr_fd, int wait_status, uint64_t kills) {
    static const char usual[] = "sounder: error: ";
    if (WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        char name[SIGNAL_NAME_BYTES];
        snprintf(text, SWEEP_WORDS_BYTES, "killed by %s%s", signal_name(name, number),
                 memory_killed(number, kills)
                     ? " by the kernel, as memory ran out; lower --parallel or take a smaller --model"
                     : "");
        return text;
    }
    const off_t bytes = lseek(stderr_fd, 0, SEEK_END), most = SWEEP_WORDS_BYTES - 1,
                first = bytes > most ? bytes - most : 0;
    ssize_t count = pread(stderr_fd, text, (size_t)(bytes - first), first);
    if (count < 0) count = 0;
    while (count > 0 && text[count - 1] == '\n')
        count--;
    text[count] = '\0';
    const char *line = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
    return strncmp(line, usual, sizeof usual - 1) == 0 ? line + sizeof usual - 1 : line;
}
