#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void disarm_text(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        bool second_of_c1 = *c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f;
        if (*c < ' ' || *c == 0x7f || second_of_c1) *c = '?';
        if (second_of_c1) *++c = '?';
    }
}

Status fail(Error *err, Status status, const char *format, ...) {
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    disarm_text(err->message);
    return status;
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

Status fail_errno(Error *err, Status status, const char *format, ...) {
    int saved_errno = errno;
    status = status_by_errno(status);
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    disarm_text(err->message);
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
