// Errors: a status code says what kind of failure it was, an Error carries the sentence for the user.
//
//   Status idx_open(Idx *idx, const char *path, Error *err) {
//       if (rank > 4)
//           return fail(err, STATUS_DATA, "%s: an IDX file of rank %d; at most 4 is read", path, rank);
//       TRY(regular_file_open(&idx->file, path, err));
//       return STATUS_OK;
//   }
//
// Library code never exits and never prints: it returns a Status and leaves one clear sentence (name, value, remedy)
// in *err. Only main turns a Status into an exit code (sysexits.h). The first failure wins: callers add nothing to it.
#ifndef SOUNDER_BASE_ERR_H
#define SOUNDER_BASE_ERR_H

#include <stddef.h>
#include <sysexits.h>

// name, exit code, meaning
#define STATUS_LIST(X)                                                                                                 \
    X(OK, EX_OK, "no error")                                                                                           \
    X(USAGE, EX_USAGE, "an option is unknown, out of range or contradicts another")                                    \
    X(DATA, EX_DATAERR, "a file is corrupt or truncated")                                                              \
    X(NOINPUT, EX_NOINPUT, "a file or data set is not there")                                                          \
    X(UNAVAILABLE, EX_UNAVAILABLE, "a device or service is missing, or too many workers died")                         \
    X(SOFTWARE, EX_SOFTWARE, "training itself failed: an internal fault, or a model that is no longer finite")         \
    X(OS, EX_OSERR, "the operating system refused memory, descriptors or processes")                                   \
    X(CANTCREATE, EX_CANTCREAT, "an output cannot be created")                                                         \
    X(IO, EX_IOERR, "reading or writing failed, for example on a full disk")                                           \
    X(TIMEOUT, EX_TEMPFAIL, "a wait passed its deadline")                                                              \
    X(CANCELLED, EX_TEMPFAIL, "the wait was called off by the supervisor")                                             \
    X(PEER_DIED, EX_TEMPFAIL, "a process this one was waiting for is dead")                                            \
    X(MISMATCH, EX_SOFTWARE, "the ranks of a group made calls that do not fit together")

typedef enum Status {
#define X(name, code, when) STATUS_##name,
    STATUS_LIST(X)
#undef X
} Status;

enum { ERROR_MESSAGE_BYTES = 1024, ERROR_SKETCH_BYTES = 512 };

// The sentence that explains a failed Status. The caller owns it, usually on its stack; empty until a failure.
typedef struct Error {
    char message[ERROR_MESSAGE_BYTES];
    char sketch[ERROR_SKETCH_BYTES]; // two lines: a text, and carets below the wrong part; empty: no sketch
} Error;

// Writes the sentence (printf style, truncated to fit) and returns `status`, so that a failure is one return statement.
// err may be NULL if the caller does not need the sentence.
Status fail(Error *err, Status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Works as fail, then appends ": ", the text of errno as it is on entry, and a remedy if too many files are open or a
// file system has no locks. Some values of errno decide the status, whatever the caller passes: OS if memory or
// descriptors have run out, IO for a broken disk or file server.
Status fail_errno(Error *err, Status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Returns the status that the value of errno decides, or `otherwise`; fail_errno returns the same.
Status status_by_errno(Status otherwise);

// Adds a sketch for main to show on a terminal, after a failure about `length` bytes from `at` on of a text that a user
// wrote. From a long text it shows only the part around those bytes.
void error_sketch(Error *err, const char *text, size_t at, size_t length);

// Copies the sketch of `why`, for a new sentence that quotes the sentence of `why`.
void error_keep_sketch(Error *err, const Error *why);

// Replaces with '?' each byte of what text_is_raw names: control characters that a terminal would obey, signs that turn
// text around, and bytes that are not UTF-8, which JSON refuses. fail and the log pass all sentences through it: names
// in them may come from other people's files, and a long name may have been cut within a letter.
void disarm_text(char *text);

int status_exit_code(Status status);    // the code of sysexits.h
const char *status_name(Status status); // "DATA"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        Status try_status_ = (call);                                                                                   \
        if (try_status_ != STATUS_OK) return try_status_;                                                              \
    } while (0)

// For functions that release resources at a label; `status` must be a local variable of type Status.
#define TRY_GOTO(label, call)                                                                                          \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != STATUS_OK) goto label;                                                                           \
    } while (0)

#endif
