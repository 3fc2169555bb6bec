// What the fuzz targets share: inputs as files, and properties that end the process when they do not hold. A target is
// run by fuzz.py, which makes its first inputs.
#ifndef SOUNDER_TESTS_FUZZ_FUZZ_H
#define SOUNDER_TESTS_FUZZ_FUZZ_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

#define must(property)                                                                                                 \
    do {                                                                                                               \
        if (!(property)) {                                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #property);                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

// Every refusal has a sentence; if it has a sketch, too, that has a line of text and one of carets below it.
static inline Status refused_with_a_sentence(Status status, const Error *err) {
    if (status == STATUS_OK) return status;
    must(err->message[0] && memchr(err->message, 0, sizeof err->message));
    must(memchr(err->sketch, 0, sizeof err->sketch));
    if (err->sketch[0]) {
        const char *carets = strchr(err->sketch, '\n');
        must(carets && strspn(carets + 1, " ") + strspn(strchr(carets, '^'), "^") == strlen(carets + 1));
        must((size_t)(carets - err->sketch) + 1 >= strcspn(carets + 1, "^"));
    }
    return status;
}

// A file of the bytes, in the process's own folder.
static inline void write_file(const char *path, const void *bytes, size_t count) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    close(fd);
}

// The input as a string of its own, so that a reader that goes on behind its end is caught.
static inline char *text_of(const uint8_t *input, size_t bytes) {
    char *text = malloc(bytes + 1);
    must(text);
    memcpy(text, input, bytes);
    text[bytes] = 0;
    return text;
}

#endif
