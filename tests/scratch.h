// A folder of its own for a test, whole files in one call, and gzip.
#ifndef SOUNDER_TESTS_SCRATCH_H
#define SOUNDER_TESTS_SCRATCH_H

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { SCRATCH_PATH_BYTES = 512 };

// cmocka set-up: *state becomes the path of a new folder.
static inline int scratch_set_up(void **state) {
    char path[] = "/tmp/sounder-test-XXXXXX";
    *state = mkdtemp(path) ? strdup(path) : NULL;
    return *state ? 0 : -1;
}

static inline int scratch_remove_one(const char *path, const struct stat *about, int type, struct FTW *walk) {
    (void)about, (void)type, (void)walk;
    return remove(path);
}

static inline int scratch_tear_down(void **state) {
    int result = nftw(*state, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return result;
}

// path = folder/name
static inline const char *scratch_path(char path[SCRATCH_PATH_BYTES], const char *folder, const char *name) {
    assert_in_range(snprintf(path, SCRATCH_PATH_BYTES, "%s/%s", folder, name), 1, SCRATCH_PATH_BYTES - 1);
    return path;
}

static inline void scratch_write(const char *path, const void *bytes, size_t count) {
    unlink(path); // ext4 writes a truncated file to the disk when it is closed, a new one later
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

// The bytes of a file, malloc'ed and terminated.
static inline char *scratch_read(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
    bytes[length] = '\0';
    fclose(file);
    *count = (size_t)length;
    return bytes;
}

#endif
