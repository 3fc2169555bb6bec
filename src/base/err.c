#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

Status fail(Error *err, Status status, const char *format, ...) {
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

static Status by_reason(Status status, int reason) {
    switch (reason) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return STATUS_OS;
    case EIO:
    case ESTALE:
        return STATUS_IO;
    default:
        return status;
    }
}

Status fail_errno(Error *err, Status status, const char *format, ...) {
    int saved_errno = errno;
    status = by_reason(status, saved_errno);
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(saved_errno));
    return status;
}

int status_exit_code(Status status) {
    static const int codes[] = {
#define X(name, code, when) code,
        STATUS_LIST(X)
#undef X
    };
    return codes[status];
}

const char *status_name(Status status) {
    static const char *const names[] = {
#define X(name, code, when) #name,
        STATUS_LIST(X)
#undef X
    };
    return names[status];
}
