// A trainer is a program of the user's that trains clients in place of the engine. This is its process and the socket
// on which both sides write one JSON object per line.
//
//   TRY(trainer_process_start(&process, &plan, fds, fd_count, output, err));
//   TRY(trainer_process_send(&process, &message, &wait, err));
//   TRY(trainer_process_receive(&answer, &process, &wait, err));   // the caller releases it with json_decref
//   trainer_process_end(&process, TRAINER_GOODBYE_SECONDS);
//
// The program is executed directly, without a shell, by a guard (guard.h), which ends all of its processes: the program
// may be a wrapper, and data loaders are processes of their own. They die with the process that started them.
// After any failure the connection is of no use any more: end the process and start another.
#ifndef SOUNDER_FEDAVG_TRAINER_PROCESS_H
#define SOUNDER_FEDAVG_TRAINER_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <wordexp.h>

#include "base/err.h"
#include "fedavg/rules/trainer_plan.h"
#include "io/json.h"

typedef struct TrainerProcess {
    int socket;   // owned
    int leash;    // owned: its other end is the keeper's, which ends the trainer when this end closes
    pid_t guard;  // the keeper; 0: the nursery is, or there is no trainer
    char *buffer; // owned (TRAINER_LINE_BYTES): what has been received beyond the last line
    size_t used;
    uint64_t heard_nanoseconds;    // of its last line, or of the last message to it; later by what does not count
    uint64_t looked_nanoseconds;   // of the last look for one
    uint64_t attended_nanoseconds; // when its caller was last given time (TrainerWait)
    uint32_t minutes;              // of its start, that have been said
    bool was_killed;               // the last failure was its death by a signal that others send: KILL or TERM
} TrainerProcess;

enum { TRAINER_MOST_PASSED = 8 };                // descriptors that a program inherits, its socket included
static const double TRAINER_GOODBYE_SECONDS = 1; // for a trainer to end by itself

enum { TRAINER_LINE_BYTES = 1 << 20 }; // the longest line, its newline included

// How the caller waits for a line. Both functions are called several times a second; they may be NULL.
typedef struct TrainerWait {
    bool starts;            // the trainer has just been started: once a minute the log says so
    double start_seconds;   // after which it is given up; 0: never
    double silence_seconds; // without a line until the trainer counts as hung; 0: never
    void (*on_wait)(void *context);
    bool (*is_cancelled)(void *context); // ends the wait with CANCELLED
    void *context;
} TrainerWait;

// Starts the plan's command; it inherits the descriptors (fds, fd_count) under their numbers, and writes its stdout and
// stderr to `output` (-1: to this process's stderr). Returns USAGE for a command that is no list of words, NOINPUT if
// there is no such program, OS if the kernel refuses. Nothing to end on failure.
Status trainer_process_start(TrainerProcess *process, const TrainerPlan *plan, const int *fds, size_t fd_count,
                             int output, Error *err);

// Writes the folder of the Python package in the clone in which this program was built; "": there is none.
void trainer_package(char folder[PATH_MAX]);

// Splits the plan's command as a shell would; the caller releases *words with wordfree. USAGE as above.
Status trainer_command_words(wordexp_t *words, const TrainerPlan *plan, Error *err);

// Starts a trainer by a fork of the program: asks the nursery (nursery.h) at its socket of requests. OS if the request
// cannot be sent. Nothing to end on failure.
enum { TRAINER_REQUEST_FDS = 4 }; // that a request brings: the socket, the leash, desk_fd, output
Status trainer_process_fork(TrainerProcess *process, int nursery, int desk_fd, int output, Error *err);

// Sends the message and frees it. Returns UNAVAILABLE if the trainer is gone, or does not read.
Status trainer_process_send(TrainerProcess *process, JsonObject *message, const TrainerWait *wait, Error *err);

// As trainer_process_receive, but without waiting: *answer is NULL if there is no line yet. Reads at most once, so that
// a caller is never held up by lines that keep arriving.
Status trainer_process_poll(json_t **answer, TrainerProcess *process, const TrainerWait *wait, Error *err);

// Returns UNAVAILABLE if the trainer has been silent for longer (0: may be silent for ever). To be called at least once
// in two seconds: a longer pause counts as none, since this process was stopped.
Status trainer_process_check_silence(TrainerProcess *process, double seconds, Error *err);

// Seconds that a later start of the plan's program may take: ten times as many as the first one took, and at least 60;
// 0: it has no limit, as nothing has with --hang-seconds 0.
double trainer_start_limit(const TrainerPlan *plan, double first_seconds);

// Returns UNAVAILABLE if the program, which was sent its first line, has not answered for longer (0: no limit).
Status trainer_process_check_start(const TrainerProcess *process, double seconds, Error *err);

// Receives the next line that is no sign of life. Returns UNAVAILABLE with what went wrong: the trainer's own sentence,
// its death, its silence, or a line that is no JSON object; DATA if the trainer says that trying again is of no use.
// *answer is NULL after a failure.
Status trainer_process_receive(json_t **answer, TrainerProcess *process, const TrainerWait *wait, Error *err);

// The same for the answer to the first line: UNAVAILABLE, too, if it does not say that the program is ready.
Status trainer_process_ready(json_t **ready, TrainerProcess *process, const TrainerWait *wait, Error *err);

// Whether the answer has the key with true or a whole number other than 0.
bool trainer_flag(const json_t *answer, const char *key);

// Closes the socket, gives the trainer goodbye_seconds to end, and kills whatever is left of it. Does nothing for a
// process that was never started or has been ended.
void trainer_process_end(TrainerProcess *process, double goodbye_seconds);

#endif
