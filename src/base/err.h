// Errors: a status code says what kind of failure it was, an Error carries the sentence for the user.
//
//   Status idx_open(Idx *idx, const char *path, Error *err) {
//       if (rank > 4)
//           return fail(err, STATUS_DATA, "%s: an IDX file of rank %d; at most 4 is read", path, rank);
//       TRY(file_map(&idx->file, path, err));
//       return STATUS_OK;
//   }
//
// Library code never exits and never prints: it returns a Status and leaves one clear sentence (name, value, remedy)
// in *err. Only main turns a Status into an exit code (sysexits.h). The first failure wins: callers add nothing to it.
#ifndef SOUNDER_BASE_ERR_H
#define SOUNDER_BASE_ERR_H

#include <stddef.h>
#include <sysexits.h>

// name, exit code, when
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

// The sentence that goes with a failed Status. Owned by the caller, usually on its stack; empty until a failure.
typedef struct Error {
    char message[ERROR_MESSAGE_BYTES];
    char sketch[ERROR_SKETCH_BYTES]; // two lines, a text and carets below what is wrong in it; empty: none
} Error;

// Writes the sentence (printf style, truncated to fit) and returns status, so that a failure is one return statement.
// err may be NULL when nobody will read the sentence.
Status fail(Error *err, Status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

// The same, followed by ": " and the text of errno as it is on entry, and by a remedy for too many open files and for a
// file system without locks. Some reasons decide the status themselves, whatever was being done: no memory or
// descriptors are OS, a broken disk or file server is IO.
Status fail_errno(Error *err, Status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

// The status that errno's reason decides, or `otherwise`: what fail_errno returns.
Status status_by_errno(Status otherwise);

// After a failure that is about `length` bytes of a text that somebody wrote, from `at` on: the sketch, for main to
// show on a terminal. Of a long text it is what stands around them.
void error_sketch(Error *err, const char *text, size_t at, size_t length);

// After a failure whose sentence repeats that of `why`: its sketch goes along.
void error_keep_sketch(Error *err, const Error *why);

// Puts '?' for what a terminal would obey, control characters, C1's as UTF-8 included, and for each byte that is not
// UTF-8, which JSON refuses. All sentences of fail and of the log go through it, because names in them may come from
// files of others, and a long name may be cut.
void disarm_text(char *text);

int status_exit_code(Status status);    // sysexits value
const char *status_name(Status status); // "DATA"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        Status try_status_ = (call);                                                                                   \
        if (try_status_ != STATUS_OK) return try_status_;                                                              \
    } while (0)

// For functions that release what they hold at a label; `status` must be a local of type Status.
#define TRY_GOTO(label, call)                                                                                          \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != STATUS_OK) goto label;                                                                           \
    } while (0)

#endif
