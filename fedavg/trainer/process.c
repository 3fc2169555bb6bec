#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include "base/clock.h"

enum { GOODBYE_MILLISECONDS = 1000, WAIT_MILLISECONDS = 100, EXEC_FAILED = 127 };

static Status split_words(wordexp_t *words, const TrainerPlan *plan, Error *err) {
    const int result = wordexp(plan->command, words, WRDE_NOCMD | WRDE_UNDEF);
    if (result == 0 && words->we_wordc > 0) return STATUS_OK;
    if (result == 0) wordfree(words);
    return fail(err, STATUS_USAGE,
                "%s %.200s: is no list of words (quotes as in a shell, but no pipes, no commands in it); write "
                "a script for more",
                plan->option, plan->command);
}

static void set_threads(const TrainerPlan *plan) {
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};
    char count[16];
    snprintf(count, sizeof count, "%u", plan->threads);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], count, 1);
}

// The child between fork and exec. An ignored TERM would be inherited by the trainer's own children, whose pools then
// never end; the other stop signals stay ignored, as in workers.
_Noreturn static void become_trainer(char **words, const int *fds, size_t fd_count, pid_t parent) {
    const struct sigaction preset = {.sa_handler = SIG_DFL};
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXEC_FAILED);
    sigaction(SIGTERM, &preset, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(STDERR_FILENO, STDOUT_FILENO); // the run's own output stays as it is
    for (size_t i = 0; i < fd_count; i++)
        fcntl(fds[i], F_SETFD, 0);
    execvp(words[0], words);
    _exit(EXEC_FAILED);
}

static Status find_program(const char *program, const char *option, Error *err) {
    char path[TRAINER_TEXT_BYTES];
    const char *folders = getenv("PATH");
    if (strchr(program, '/'))
        return access(program, X_OK) == 0 ? STATUS_OK : fail_errno(err, STATUS_NOINPUT, "%s: %.200s", option, program);
    for (const char *folder = folders ? folders : "/usr/bin:/bin"; *folder;) {
        const size_t length = strcspn(folder, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, program);
        if (access(path, X_OK) == 0) return STATUS_OK;
        folder += length + (folder[length] == ':');
    }
    return fail(err, STATUS_NOINPUT, "%s: there is no program %.200s on the PATH; name it with its folder", option,
                program);
}

Status trainer_process_start(TrainerProcess *process, const TrainerPlan *plan, const int *fds, size_t fd_count,
                             Error *err) {
    wordexp_t words;
    int ends[2], passed[8];
    *process = (TrainerProcess){.socket = -1};
    TRY(split_words(&words, plan, err));
    Status status = find_program(words.we_wordv[0], plan->option, err);
    if (status == STATUS_OK && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        status = fail_errno(err, STATUS_OS, "no socket for a trainer");
    if (status != STATUS_OK) {
        wordfree(&words);
        return status;
    }
    memcpy(passed, fds, fd_count * sizeof *fds);
    passed[fd_count] = ends[1];
    process->socket = ends[0];
    process->buffer = malloc(TRAINER_LINE_BYTES);
    char number[16];
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("SOUNDER_TRAINER", number, 1); // this process starts nothing else
    set_threads(plan);
    const pid_t parent = getpid();
    process->pid = process->buffer ? fork() : -1;
    if (process->pid == 0) become_trainer(words.we_wordv, passed, fd_count + 1, parent);
    if (process->pid > 0) setpgid(process->pid, process->pid); // in both processes, since either may run first
    if (process->pid < 0) status = fail_errno(err, STATUS_OS, "a trainer cannot be started");
    close(ends[1]);
    wordfree(&words);
    if (status != STATUS_OK) {
        process->pid = 0;
        trainer_process_end(process);
    }
    return status;
}

// A trainer that closed its socket has mostly ended: says how.
static Status say_end(TrainerProcess *process, const TrainerWait *wait, Error *err) {
    for (int waited = 0; waited < GOODBYE_MILLISECONDS; waited += 10) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
            if (info.si_code != CLD_EXITED)
                return fail(err, STATUS_UNAVAILABLE, "it was killed by signal %d (%s)", info.si_status,
                            strsignal(info.si_status));
            return fail(err, STATUS_UNAVAILABLE, "it ended with exit code %d and without an answer", info.si_status);
        }
        if (wait && wait->on_wait) wait->on_wait(wait->context);
        poll(NULL, 0, 10);
    }
    return fail(err, STATUS_UNAVAILABLE, "it closed its socket");
}

Status trainer_process_send(TrainerProcess *process, JsonObject *message, Error *err) {
    char *text;
    size_t bytes;
    TRY(json_text(&text, &bytes, message, JSON_COMPACT, "a line for a trainer", err));
    text[bytes++] = '\n'; // in the place of the terminator
    Status status =
        bytes > TRAINER_LINE_BYTES ? fail(err, STATUS_USAGE, "a line for a trainer has %zu bytes", bytes) : STATUS_OK;
    for (size_t sent = 0; sent < bytes && status == STATUS_OK;) {
        const ssize_t part = send(process->socket, text + sent, bytes - sent, MSG_NOSIGNAL);
        if (part > 0) sent += (size_t)part;
        if (part < 0 && errno != EINTR) status = say_end(process, NULL, err);
    }
    free(text);
    return status;
}

// Waits for bytes, and for as long as the trainer gives signs of life.
static Status wait_for_bytes(TrainerProcess *process, const TrainerWait *wait, uint64_t since, Error *err) {
    for (;;) {
        struct pollfd readable = {.fd = process->socket, .events = POLLIN};
        const int ready = poll(&readable, 1, WAIT_MILLISECONDS);
        if (ready > 0) return STATUS_OK;
        if (wait->on_wait) wait->on_wait(wait->context);
        if (wait->is_cancelled && wait->is_cancelled(wait->context)) return fail(err, STATUS_CANCELLED, "stopped");
        if (wait->silence_seconds > 0 && clock_seconds_since(since) > wait->silence_seconds)
            return fail(err, STATUS_UNAVAILABLE,
                        "it has not said anything for %g s; give it more time (--hang-seconds), or let it call "
                        "turn.progress()",
                        wait->silence_seconds);
    }
}

static Status receive_line(char **line, size_t *bytes, TrainerProcess *process, const TrainerWait *wait, Error *err) {
    const uint64_t since = clock_nanoseconds();
    for (;;) {
        char *end = memchr(process->buffer, '\n', process->used);
        if (end) {
            *line = process->buffer, *bytes = (size_t)(end - process->buffer);
            return STATUS_OK;
        }
        if (process->used == TRAINER_LINE_BYTES)
            return fail(err, STATUS_UNAVAILABLE, "it sent a line of more than %d bytes", TRAINER_LINE_BYTES);
        TRY(wait_for_bytes(process, wait, since, err));
        const ssize_t part =
            recv(process->socket, process->buffer + process->used, TRAINER_LINE_BYTES - process->used, 0);
        if (part == 0 || (part < 0 && errno == ECONNRESET)) return say_end(process, wait, err);
        if (part > 0) process->used += (size_t)part;
    }
}

Status trainer_process_receive(json_t **answer, TrainerProcess *process, const TrainerWait *wait, Error *err) {
    for (;;) {
        char *line = NULL;
        size_t bytes = 0;
        Error why;
        TRY(receive_line(&line, &bytes, process, wait, err));
        const Status status = json_read_object(answer, line, bytes, "its line", 0, &why);
        if (status != STATUS_OK) return fail(err, STATUS_UNAVAILABLE, "%s", why.message);
        process->used -= bytes + 1;
        memmove(process->buffer, line + bytes + 1, process->used);
        if (json_object_get(*answer, "progress")) {
            json_decref(*answer);
            continue;
        }
        const char *error = json_string_value(json_object_get(*answer, "error"));
        if (!error) return STATUS_OK;
        const bool fatal = json_integer_value(json_object_get(*answer, "fatal")) != 0;
        fail(err, STATUS_UNAVAILABLE, "%s", error);
        json_decref(*answer);
        return fatal ? STATUS_DATA : STATUS_UNAVAILABLE;
    }
}

void trainer_process_end(TrainerProcess *process) {
    if (process->socket >= 0) close(process->socket);
    process->socket = -1;
    free(process->buffer);
    process->buffer = NULL;
    if (process->pid <= 0) return;
    for (int waited = 0; waited < GOODBYE_MILLISECONDS; waited += 5) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) break;
        poll(NULL, 0, 5);
    }
    kill(-process->pid, SIGKILL); // the trainer, if it is dead, still pins the number of its group
    while (waitpid(-process->pid, NULL, 0) > 0 || errno == EINTR) // its children, too, where this process is the reaper
        ;
    process->pid = 0;
}
