#include "process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/trainer/guard.h"

static const double WAIT_SECONDS = 0.1, MINUTE_SECONDS = 60;
static const double MOST_STARTS = 10;      // times as long as the first start a later one may take
static const double MOST_LOOK_SECONDS = 2; // from one look for a sign of life to the next
static const double GUARD_SECONDS = 3;     // in which a guard has given up what the kernel cannot kill

// Whether the descriptor has something to read, or has ended, before the seconds are over.
static bool wait_to_read(int fd, double seconds, const TrainerWait *wait) {
    const uint64_t begin = clock_nanoseconds();
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (;;) {
        // In slices, since on_wait is the worker's sign of life.
        const double left = seconds - clock_seconds_since(begin);
        if (left <= 0) return false;
        if (poll(&ready, 1, left < WAIT_SECONDS ? (int)(left * 1e3) + 1 : (int)(WAIT_SECONDS * 1e3)) > 0) return true;
        if (wait && wait->on_wait) wait->on_wait(wait->context);
    }
}

// Waits until the keeper tells how the trainer has ended. Empty: the keeper has died itself.
static bool wait_for_report(char report[GUARD_REPORT_BYTES], const TrainerProcess *process, double seconds,
                            const TrainerWait *wait) {
    if (!wait_to_read(process->leash, seconds, wait)) return false;
    const ssize_t bytes = recv(process->leash, report, GUARD_REPORT_BYTES - 1, 0);
    report[bytes > 0 ? bytes : 0] = '\0';
    return true;
}

// A trainer that closed its socket has mostly ended: says how.
static Status say_end(TrainerProcess *process, const TrainerWait *wait, Error *err) {
    char report[GUARD_REPORT_BYTES];
    int number;
    if (!wait_for_report(report, process, TRAINER_GOODBYE_SECONDS, wait))
        return fail(err, STATUS_UNAVAILABLE, "it closed its socket");
    if (sscanf(report, "fork %d", &number) == 1)
        return fail(err, STATUS_UNAVAILABLE,
                    "there is no process for it: %s; the system's limits of processes say how many there may be "
                    "(ulimit -u, pids.max)",
                    strerror(number));
    if (sscanf(report, "exit %d", &number) == 1)
        return fail(err, STATUS_UNAVAILABLE, "it ended with exit code %d and without an answer%s", number,
                    number == 0 ? "; a program of a run gives answers to its end, as sounder.serve(...) does" : "");
    // A keeper without a report was killed itself, and the kernel has killed its program. KILL and TERM are sent by
    // other processes (an operator, the kernel when memory runs out); a program that fails by its own mistake exits, or
    // gets another signal.
    if (sscanf(report, "signal %d", &number) != 1) number = SIGKILL;
    process->was_killed = number == SIGKILL || number == SIGTERM;
    return fail(err, STATUS_UNAVAILABLE, "it was killed by signal %d (%s)", number, strsignal(number));
}

// A first import on a cold disk may take minutes, which looks like a hang: the user is told, and decides.
static void say_minutes(TrainerProcess *process, const TrainerWait *wait) {
    const double seconds = clock_seconds_since(process->heard_nanoseconds);
    if (!wait->starts || seconds < MINUTE_SECONDS * (process->minutes + 1)) return;
    process->minutes++;
    if (wait->start_seconds > 0)
        log_warning("the program has started for %.0f s; after %.0f s it is given up", seconds, wait->start_seconds);
    else
        log_warning("the program has started for %.0f s; its first start has no limit", seconds);
}

double trainer_start_limit(const TrainerPlan *plan, double first_seconds) {
    if (plan->hang_seconds == 0) return 0;
    return first_seconds * MOST_STARTS > MINUTE_SECONDS ? first_seconds * MOST_STARTS : MINUTE_SECONDS;
}

Status trainer_process_check_start(const TrainerProcess *process, double seconds, Error *err) {
    if (seconds <= 0 || clock_seconds_since(process->heard_nanoseconds) <= seconds) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "it has started for %.0f s, and its first start took at most a tenth of that; does it wait for the "
                "network, a lock or a terminal?",
                seconds);
}

// Gives the caller its time, by the clock and not by silence. A trainer that says something all the time would keep a
// worker from its signs of life, until the parent takes it for hung.
static Status attend(TrainerProcess *process, const TrainerWait *wait, Error *err) {
    if (clock_seconds_since(process->attended_nanoseconds) < WAIT_SECONDS) return STATUS_OK;
    process->attended_nanoseconds = clock_nanoseconds();
    if (wait->on_wait) wait->on_wait(wait->context);
    if (wait->is_cancelled && wait->is_cancelled(wait->context)) return fail(err, STATUS_CANCELLED, "stopped");
    return STATUS_OK;
}

// Waits until the socket is ready for `events`, and for as long as the trainer gives signs of life.
static Status wait_for_socket(TrainerProcess *process, short events, const TrainerWait *wait, Error *err) {
    for (;;) {
        struct pollfd ready = {.fd = process->socket, .events = events};
        const bool is_ready = poll(&ready, 1, (int)(WAIT_SECONDS * 1e3)) > 0;
        TRY(attend(process, wait, err));
        if (is_ready) return STATUS_OK;
        say_minutes(process, wait);
        TRY(trainer_process_check_silence(process, wait->silence_seconds, err));
        if (wait->starts) TRY(trainer_process_check_start(process, wait->start_seconds, err));
    }
}

// Only time in which this process has looked counts: Ctrl-Z stops it together with its trainer.
Status trainer_process_check_silence(TrainerProcess *process, double seconds, Error *err) {
    const uint64_t now = clock_nanoseconds(), heard = process->heard_nanoseconds;
    const uint64_t looked = process->looked_nanoseconds > heard ? process->looked_nanoseconds : heard;
    if (clock_seconds_since(looked) > MOST_LOOK_SECONDS) process->heard_nanoseconds += now - looked;
    process->looked_nanoseconds = now;
    if (seconds <= 0 || clock_seconds_since(process->heard_nanoseconds) <= seconds) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "it has not said anything for %g s; give it more time (--hang-seconds), or let it call turn.progress()",
                seconds);
}

// A trainer that has failed may have sent its sentence before it ended. The sentence says more than the end does, and
// decides whether the turn is tried again.
static Status say_last_words(TrainerProcess *process, const TrainerWait *wait, Error *err) {
    json_t *line;
    TRY(trainer_process_poll(&line, process, wait, err));
    json_decref(line);
    return say_end(process, wait, err);
}

// Does not block, since a trainer that hangs does not read: a full socket is waited for as an answer is, with a limit.
Status trainer_process_send(TrainerProcess *process, JsonObject *message, const TrainerWait *wait, Error *err) {
    char *text;
    size_t bytes;
    TRY(json_text(&text, &bytes, message, JSON_COMPACT, "a line for a trainer", err));
    text[bytes++] = '\n'; // in the place of the terminator
    process->heard_nanoseconds = clock_nanoseconds();
    Status status =
        bytes > TRAINER_LINE_BYTES ? fail(err, STATUS_USAGE, "a line for a trainer has %zu bytes", bytes) : STATUS_OK;
    for (size_t sent = 0; sent < bytes && status == STATUS_OK;) {
        const ssize_t part = send(process->socket, text + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (part > 0)
            sent += (size_t)part;
        else if (errno == EAGAIN)
            status = wait_for_socket(process, POLLOUT, wait, err);
        else if (errno != EINTR)
            status = say_last_words(process, wait, err);
    }
    free(text);
    return status;
}

bool trainer_flag(const json_t *answer, const char *key) {
    const json_t *flag = json_object_get(answer, key);
    return json_is_true(flag) || json_integer_value(flag) != 0;
}

// Takes the next whole line that has been received. *answer NULL: there is none, or only signs of life.
static Status take_line(json_t **answer, TrainerProcess *process, Error *err) {
    *answer = NULL;
    // Signs of life are taken here and are no answer: they only say when the trainer was last heard of.
    for (char *end; !*answer && (end = memchr(process->buffer, '\n', process->used));) {
        const size_t bytes = (size_t)(end - process->buffer);
        Error why;
        if (json_read_object(answer, process->buffer, bytes, "its line", 0, &why) != STATUS_OK)
            return fail(err, STATUS_UNAVAILABLE, "%s", why.message);
        process->heard_nanoseconds = clock_nanoseconds();
        process->used -= bytes + 1;
        memmove(process->buffer, end + 1, process->used);
        if (!json_object_get(*answer, "progress")) continue;
        json_decref(*answer);
        *answer = NULL;
    }
    const json_t *error = json_object_get(*answer, "error");
    if (!error || json_is_null(error)) return STATUS_OK;
    const char *sentence = json_string_value(error);
    // The program knows whether another try could help: a wrong option will be wrong again.
    const bool fatal = trainer_flag(*answer, "fatal");
    fail(err, STATUS_UNAVAILABLE, "%s", sentence && *sentence ? sentence : "it failed, and its error says no more");
    json_decref(*answer);
    *answer = NULL;
    return fatal ? STATUS_DATA : STATUS_UNAVAILABLE;
}

Status trainer_process_poll(json_t **answer, TrainerProcess *process, const TrainerWait *wait, Error *err) {
    // Whole lines first: one read may have brought several, and poll would not wake for what has been read. One read
    // and no more: lines that arrive as fast as they are read would keep the caller here.
    TRY(take_line(answer, process, err));
    if (*answer) return STATUS_OK;
    if (process->used == TRAINER_LINE_BYTES)
        return fail(err, STATUS_UNAVAILABLE, "it sent a line of more than %d bytes", TRAINER_LINE_BYTES);
    const ssize_t part =
        recv(process->socket, process->buffer + process->used, TRAINER_LINE_BYTES - process->used, MSG_DONTWAIT);
    if (part < 0 && (errno == EAGAIN || errno == EINTR)) return STATUS_OK;
    if (part <= 0) return say_end(process, wait, err);
    process->used += (size_t)part;
    return take_line(answer, process, err);
}

Status trainer_process_receive(json_t **answer, TrainerProcess *process, const TrainerWait *wait, Error *err) {
    for (;;) {
        TRY(trainer_process_poll(answer, process, wait, err));
        if (*answer) return STATUS_OK;
        TRY(wait_for_socket(process, POLLIN, wait, err));
    }
}

// Closing the leash makes the guard kill the trainer and exit. Waits for that: only then are memory and GPU free. Gives
// up after GUARD_SECONDS: a process stuck in the kernel must not hold up the run.
static void end_guard(pid_t guard) {
    const int ended = pidfd_open(guard, 0); // its number is this process's to reap, and therefore still its own
    if (!wait_to_read(ended, GUARD_SECONDS, NULL)) {
        kill(guard, SIGKILL);
        wait_to_read(ended, GUARD_SECONDS, NULL);
    }
    waitpid(guard, NULL, WNOHANG);
    if (ended >= 0) close(ended);
}

Status trainer_process_ready(json_t **ready, TrainerProcess *process, const TrainerWait *wait, Error *err) {
    TRY(trainer_process_receive(ready, process, wait, err));
    if (trainer_flag(*ready, "ready")) return STATUS_OK;
    json_decref(*ready);
    *ready = NULL;
    return fail(err, STATUS_UNAVAILABLE, "its first answer is not {\"ready\":1}");
}

// A trainer that is asked to end must be dead before another one may use its desk.
void trainer_process_end(TrainerProcess *process, double goodbye_seconds) {
    char report[GUARD_REPORT_BYTES];
    if (process->socket >= 0) close(process->socket);
    if (process->leash >= 0) {
        // A program that reads the end of its socket ends by itself, closes its files and its trackers. Only one that
        // does not is killed: by its keeper, which sees the end of this side of the leash.
        if (!wait_for_report(report, process, goodbye_seconds, NULL)) {
            shutdown(process->leash, SHUT_WR);
            wait_for_report(report, process, GUARD_SECONDS, NULL);
        }
        close(process->leash);
    }
    if (process->guard > 0) end_guard(process->guard);
    free(process->buffer);
    *process = (TrainerProcess){.socket = -1, .leash = -1};
}
