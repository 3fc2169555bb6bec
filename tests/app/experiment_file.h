// An experiment file of a test: some text, as `sounder train FILE` would find it on disk.
#ifndef SOUNDER_TESTS_APP_EXPERIMENT_FILE_H
#define SOUNDER_TESTS_APP_EXPERIMENT_FILE_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/options.h"
#include "tests/check.h"

// The path of a new file that holds `length` bytes of text; the caller unlinks it.
static inline void write_file(char path[64], const char *text, size_t length) {
    strcpy(path, "/tmp/sounder-options-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    close(fd);
}

static inline Status read_text(Options *options, const char *text, size_t length, Error *err) {
    char path[64];
    write_file(path, text, length);
    Status status = options_read_yaml(options, path, err);
    unlink(path);
    // Sentences begin with the path, which is different each time.
    if (status != STATUS_OK && strncmp(err->message, path, strlen(path)) == 0)
        memmove(err->message, err->message + strlen(path), strlen(err->message + strlen(path)) + 1);
    return status;
}

#endif
