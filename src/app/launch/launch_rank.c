#include "launch_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/launch/launch_output.h"

// torchrun treats every program file as Python, so a file that cannot be executed is a script here, too. A name without
// a slash is searched for in PATH.
static bool is_script(const char *name) {
    struct stat about;
    return strchr(name, '/') && stat(name, &about) == 0 && S_ISREG(about.st_mode) && access(name, R_OK) == 0 &&
           (about.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0;
}

Status rank_arguments(char ***arguments, const LaunchOptions *options, Error *err) {
    enum { PYTHON_WORDS = 3 }; // python3 -u -m
    char **words = calloc((size_t)options->program_count + PYTHON_WORDS + 1, sizeof *words);
    if (!words) return fail(err, STATUS_OS, "out of memory for the command line of the ranks");
    char *python = getenv("PYTHON_EXEC");
    const char *name = options->program[0], *dot = strrchr(name, '.');
    size_t count = 0;
    if (options->module || (!options->no_python && ((dot && strcmp(dot, ".py") == 0) || is_script(name)))) {
        words[count++] = python && python[0] ? python : "python3";
        words[count++] = "-u"; // unbuffered: otherwise lines appear only when the rank ends
        if (options->module) words[count++] = "-m";
    }
    memcpy(words + count, options->program, (size_t)options->program_count * sizeof *words);
    *arguments = words;
    return STATUS_OK;
}

// In the child --------------------------------------------------------------------------------------------------------

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

// Sets torchrun's environment, with one role and one group per machine.
static void set_environment(const Rank *rank, int local_rank, const RankPlan *plan, pid_t launcher) {
    const LaunchOptions *options = plan->options;
    const int world_size = options->nnodes * options->ranks;
    set_number("LOCAL_RANK", local_rank);
    set_number("RANK", rank->number);
    set_number("GROUP_RANK", options->node_rank);
    set_number("ROLE_RANK", rank->number);
    set_number("LOCAL_WORLD_SIZE", options->ranks);
    set_number("WORLD_SIZE", world_size);
    set_number("GROUP_WORLD_SIZE", options->nnodes);
    set_number("ROLE_WORLD_SIZE", world_size);
    setenv("ROLE_NAME", options->role, 1);
    setenv("MASTER_ADDR", options->master_addr, 1);
    set_number("MASTER_PORT", plan->port);
    set_number("TORCHELASTIC_RESTART_COUNT", plan->attempt);
    set_number("TORCHELASTIC_MAX_RESTARTS", options->max_restarts);
    setenv("TORCHELASTIC_RUN_ID", plan->run_id, 1);
    unsetenv("SOUNDER_LAUNCH_ID"); // it may be left over from a launch that started this one
    if (plan->id[0]) setenv("SOUNDER_LAUNCH_ID", plan->id, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1); // rank 0 opens the port itself: the launcher has no store
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", launcher, rank->error_fd);
    if (rank->error_fd >= 0) setenv("TORCHELASTIC_ERROR_FILE", path, 1);
    if (options->ranks > 1) setenv("OMP_NUM_THREADS", "1", 0); // 0: keeps a value that the user has set
}

// A user who debugs starts a single rank and types into it, so that rank gets the terminal.
static bool is_alone(const LaunchOptions *options) {
    return options->ranks == 1 && options->nnodes == 1;
}

enum { RANK_FDS = 1 + RANK_STREAMS }; // stdin, stdout, stderr

// Turns the child into the program. fds: its stdin, stdout and stderr; -1: the launcher's own. Returns only on failure,
// with errno.
static void become_program(const Rank *rank, int local_rank, const RankPlan *plan, pid_t launcher,
                           const int fds[RANK_FDS]) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
    if (getppid() != launcher) _exit(EXIT_FAILURE); // the launcher died before that call
    if (!rank->shares_terminal) setpgid(0, 0);
    for (int i = 0; i < RANK_FDS; i++)
        if (fds[i] >= 0 && dup2(fds[i], i) < 0) return;
    set_environment(rank, local_rank, plan, launcher);
    setrlimit(RLIMIT_NOFILE, &plan->inheritance->descriptors);
    sigaction(SIGPIPE, &plan->inheritance->pipe_action, NULL);
    sigprocmask(SIG_SETMASK, &plan->inheritance->signal_mask, NULL);
    execvp(plan->arguments[0], plan->arguments);
}

// In the launcher -----------------------------------------------------------------------------------------------------

// Opens the write end that becomes the rank's stdout or stderr, and the stream that reads the other end.
static Status open_output(RankStream *stream, int *output, const Rank *rank, int local_rank, int which,
                          const RankPlan *plan, Error *err) {
    static const char *const names[RANK_STREAMS] = {"stdout", "stderr"};
    const int bit = which == 0 ? STREAM_STDOUT : STREAM_STDERR;
    const bool is_teed = plan->options->teed[local_rank] & bit, is_logged = plan->options->redirected[local_rank] & bit;
    int log_fd = -1, ends[2];
    if (is_teed || is_logged)
        TRY(launch_log_open(&log_fd, plan->log_folder, plan->attempt, local_rank, names[which], err));
    const bool is_hidden = plan->options->hidden[local_rank];
    if (is_hidden && log_fd < 0) log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (is_hidden || (is_logged && !is_teed)) {
        rank_stream_init(stream, -1, -1, &plan->consoles[which], rank->number);
        *output = log_fd;
        return log_fd >= 0 ? STATUS_OK : fail_errno(err, STATUS_OS, "cannot open /dev/null for rank %d", rank->number);
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        Status status = fail_errno(err, STATUS_OS, "cannot create a pipe for rank %d", rank->number);
        if (log_fd >= 0) close(log_fd);
        return status;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK); // the launcher's end only: the program expects a blocking pipe
    rank_stream_init(stream, ends[0], log_fd, &plan->consoles[which], rank->number);
    stream->shows_parts = is_alone(plan->options);
    *output = ends[1];
    return STATUS_OK;
}

bool rank_read_reason(char reason[RANK_REASON_BYTES], const Rank *rank) {
    reason[0] = '\0';
    if (rank->error_fd < 0 || lseek(rank->error_fd, 0, SEEK_SET) != 0) return false;
    json_t *root = json_loadfd(rank->error_fd, 0, NULL), *message = json_object_get(root, "message");
    if (json_is_object(message)) message = json_object_get(message, "message");
    if (json_is_string(message)) snprintf(reason, RANK_REASON_BYTES, "%s", json_string_value(message));
    for (char *c = reason; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = ' '; // one line, and no escapes for the terminal
    json_decref(root);
    return reason[0] != '\0';
}

// Forks. The child execs at once; if that fails, it writes errno to the report pipe, which otherwise closes at exec.
// The launcher does not wait for it here: a child that is stopped before its exec must not stop the launcher.
static Status start_process(Rank *rank, int local_rank, const RankPlan *plan, const int fds[RANK_FDS], Error *err) {
    int report[2];
    if (pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0)
        return fail_errno(err, STATUS_OS, "cannot start rank %d", rank->number);
    const pid_t launcher = getpid();
    rank->shares_terminal = is_alone(plan->options) && isatty(STDIN_FILENO);
    // A new error file for every attempt. If that fails, the rank's message is lost, but the rank can still start.
    if (rank->error_fd >= 0) close(rank->error_fd);
    rank->error_fd = memfd_create("rank-error", MFD_CLOEXEC);
    rank->pid = fork();
    if (rank->pid == 0) {
        become_program(rank, local_rank, plan, launcher, fds);
        const int problem = errno;
        ssize_t written = write(report[1], &problem, sizeof problem);
        _exit(written == sizeof problem ? EXIT_FAILURE : EXIT_FAILURE + 1);
    }
    const int reason = errno;
    close(report[1]);
    if (rank->pid < 0) {
        close(report[0]);
        return fail(err, STATUS_OS, "cannot start rank %d: %s%s", rank->number, strerror(reason),
                    reason == EAGAIN ? ", the limit of processes: start fewer ranks, or raise it (ulimit -u; pids.max "
                                       "of the container)"
                                     : "");
    }
    if (!rank->shares_terminal)
        setpgid(rank->pid,
                rank->pid); // as it does itself; whichever comes first, its group can be signalled from now on
    rank->report_fd = report[0];
    rank->pidfd = pidfd_open(rank->pid, 0); // the pid cannot be reused until we reap it
    if (rank->pidfd >= 0) return STATUS_OK;
    Status status = fail_errno(err, STATUS_OS,
                               "cannot watch rank %d: pidfd_open, which needs Linux 5.3 and a container whose seccomp "
                               "profile allows it",
                               rank->number);
    close(rank->report_fd);
    rank->report_fd = -1;
    kill(rank->pid, SIGKILL);
    waitpid(rank->pid, NULL, 0);
    return status;
}

// Says what to do about a program that is not found.
static const char *search_hint(const char *program, int problem) {
    const bool has_slash = strchr(program, '/'), is_there = access(program, F_OK) == 0;
    if (problem != ENOENT) return "";
    if (!has_slash) return is_there ? " in PATH; write it with its folder: ./" : " in PATH";
    return is_there ? ": the interpreter in its first line, or its loader" : "";
}

Status rank_take_report(Rank *rank, const char *program, Error *err) {
    int problem = 0;
    ssize_t count = read(rank->report_fd, &problem, sizeof problem);
    close(rank->report_fd);
    rank->report_fd = -1;
    if (count != sizeof problem) return STATUS_OK; // it has become the program, or died before
    const char *hint = search_hint(program, problem);
    return fail(err, STATUS_NOINPUT, "%.400s: cannot be started: %s%s%.400s", program, strerror(problem), hint,
                hint[0] && hint[strlen(hint) - 1] == '/' ? program : "");
}

Status rank_start(Rank *rank, int local_rank, const RankPlan *plan, Error *err) {
    int fds[RANK_FDS] = {-1, -1, -1}, *outputs = fds + 1, opened = 0;
    Status status = STATUS_OK;
    rank->number = plan->options->node_rank * plan->options->ranks + local_rank;
    rank->pidfd = rank->report_fd = -1;
    for (; opened < RANK_STREAMS && status == STATUS_OK; opened += status == STATUS_OK)
        status = open_output(&rank->streams[opened], &outputs[opened], rank, local_rank, opened, plan, err);
    if (status == STATUS_OK && !is_alone(plan->options)) {
        fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fds[0] < 0)
            status = fail_errno(err, STATUS_OS, "cannot open /dev/null, the stdin of rank %d", rank->number);
    }
    if (status == STATUS_OK) status = start_process(rank, local_rank, plan, fds, err);
    if (fds[0] >= 0) close(fds[0]);
    for (int i = 0; i < opened; i++) {
        close(outputs[i]);
        if (status != STATUS_OK) rank_stream_close(&rank->streams[i]);
    }
    return status;
}

void rank_ask(const Rank *rank, int signal_number) {
    kill(signal_number == SIGINT && !rank->shares_terminal ? -rank->pid : rank->pid, signal_number);
    rank_signal(rank, SIGCONT);
}

void rank_signal(const Rank *rank, int signal_number) {
    kill(rank->shares_terminal ? rank->pid : -rank->pid, signal_number);
}

bool rank_died_of(const Rank *rank, int signal_number) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == rank->pid &&
           info.si_code != CLD_EXITED && info.si_status == signal_number;
}

void rank_reap(Rank *rank) {
    // Kill the group before waitpid: until then no other group can get this group's number.
    rank_signal(rank, SIGKILL);
    while (waitpid(rank->pid, &rank->wait_status, 0) < 0 && errno == EINTR)
        ;
    close(rank->pidfd);
    rank->pidfd = -1;
    rank->lingers = false;
}

int rank_exit_code(const Rank *rank) {
    return WIFEXITED(rank->wait_status) ? WEXITSTATUS(rank->wait_status) : 128 + WTERMSIG(rank->wait_status);
}
