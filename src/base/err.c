#include "err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void disarm_text(char *text) {
    while (*text) {
        const size_t letter = text_letter(text), bytes = letter ? letter : 1;
        if (text_is_raw(text, letter)) memset(text, '?', bytes);
        text += bytes;
    }
}

static void write_sentence(Error *err, const char *format, va_list args) {
    vsnprintf(err->message, sizeof err->message, format, args);
    disarm_text(err->message);
    err->sketch[0] = '\0';
}

Status fail(Error *err, Status status, const char *format, ...) {
    assert(status != STATUS_OK); // a failure without a failing status would be overlooked
    if (!err) return status;
    va_list args;
    va_start(args, format);
    write_sentence(err, format, args);
    va_end(args);
    return status;
}

static bool begins_letter(char c) { // first byte of a UTF-8 letter
    return ((unsigned char)c & 0xc0) != 0x80;
}

// From a long text it shows at most MOST bytes, from BEFORE bytes before the place on. Both ends are moved to the
// beginning of a UTF-8 letter, and the carets count letters, not bytes.
void error_sketch(Error *err, const char *text, size_t at, size_t length) {
    enum { BEFORE = 40, MOST = 72 };
    assert(!err || at <= strlen(text));
    if (!err) return;
    size_t begin = at > BEFORE && strlen(text) > MOST ? at - BEFORE : 0, used = 0;
    while (begin > 0 && !begins_letter(text[begin]))
        begin--;
    size_t shown = strlen(text + begin);
    const bool is_cut = shown > MOST;
    if (is_cut)
        for (shown = MOST; shown > 0 && !begins_letter(text[begin + shown]);)
            shown--;
    char *sketch = err->sketch;
    snprintf(sketch, sizeof err->sketch, "%s%.*s%s", begin > 0 ? "..." : "", (int)shown, text + begin,
             is_cut ? "..." : "");
    for (char *c = sketch; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    disarm_text(sketch);
    used = strlen(sketch);
    sketch[used++] = '\n';
    for (int i = 0; i < (begin > 0 ? 3 : 0); i++)
        sketch[used++] = ' ';
    for (size_t i = begin; i < begin + shown && i < at + length; i++)
        if (begins_letter(text[i])) sketch[used++] = i < at ? ' ' : '^';
    if (sketch[used - 1] != '^') sketch[used++] = '^'; // a part is missing at `at`, or the byte there is no letter
    sketch[used] = '\0';
}

void error_keep_sketch(Error *err, const Error *why) {
    if (err) memcpy(err->sketch, why->sketch, sizeof err->sketch);
}

Status status_by_errno(Status otherwise) {
    switch (errno) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return STATUS_OS;
    case EIO:
    case ESTALE:
        return STATUS_IO;
    default:
        return otherwise;
    }
}

// Returns a remedy for those values of errno that have one, whatever was being done.
static const char *remedy_of(int reason) {
    if (reason == EMFILE) return "; raise the limit of open files (ulimit -n)";
    if (reason == ENFILE) return "; raise the machine's limit of open files (fs.file-max)";
    if (reason == ENOLCK) return "; a network file system without a lock service? Give a folder on another file system";
    return "";
}

Status fail_errno(Error *err, Status status, const char *format, ...) {
    int saved_errno = errno;
    assert(status != STATUS_OK);
    status = status_by_errno(status);
    if (!err) return status;
    va_list args;
    va_start(args, format);
    write_sentence(err, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s%s", strerror(saved_errno), remedy_of(saved_errno));
    return status;
}

int status_exit_code(Status status) {
    assert(status <= STATUS_MISMATCH);
    static const int codes[] = {
#define X(name, code, when) code,
        STATUS_LIST(X)
#undef X
    };
    return codes[status];
}

const char *status_name(Status status) {
    assert(status <= STATUS_MISMATCH);
    static const char *const names[] = {
#define X(name, code, when) #name,
        STATUS_LIST(X)
#undef X
    };
    return names[status];
}
