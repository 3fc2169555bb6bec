// Sets of NumPy arrays on disk, as .npy files of a folder or members of a .npz archive.
#ifndef SOUNDER_TESTS_DATASETS_ARRAY_FILES_H
#define SOUNDER_TESTS_DATASETS_ARRAY_FILES_H

#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "idx_files.h"
#include "tests/scratch.h"

enum { ARRAY_ROOM = 512, ARRAYS_MOST = 8, ARCHIVE_ROOM = 1 << 14 };

typedef struct ArrayFile {
    const char *name;  // "x_train"; NULL ends a set
    const char *type;  // "|u1"
    const char *shape; // "(3, 2, 3)"
    const void *values;
    size_t bytes; // of the values
} ArrayFile;

typedef enum ArrayPacking { ARRAYS_IN_FOLDER, ARRAYS_STORED, ARRAYS_DEFLATED } ArrayPacking;

// The file as it stands on disk; returns its size.
static inline size_t array_bytes(uint8_t bytes[ARRAY_ROOM], const ArrayFile *array) {
    const int length = snprintf((char *)bytes + 10, ARRAY_ROOM - 10,
                                "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", array->type, array->shape);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (uint8_t)length;
    bytes[9] = 0;
    assert_in_range(length, 1, 255);
    assert_in_range(10 + (size_t)length + array->bytes, 1, ARRAY_ROOM);
    memcpy(bytes + 10 + length, array->values, array->bytes);
    return 10 + (size_t)length + array->bytes;
}

static inline uint8_t *put_number(uint8_t *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (uint8_t)(value >> 8 * i);
    return to;
}

// What the head of a member and its entry in the directory have in common, from the version on.
static inline uint8_t *put_member(uint8_t *to, const ArrayFile *array, bool deflated, uint32_t checksum, size_t packed,
                                  size_t bytes) {
    to = put_number(to, 20, 2);
    to = put_number(to, 0, 2);
    to = put_number(to, deflated ? 8 : 0, 2);
    to = put_number(to, 0, 4);
    to = put_number(to, checksum, 4);
    to = put_number(to, (uint32_t)packed, 4);
    to = put_number(to, (uint32_t)bytes, 4);
    return put_number(to, (uint32_t)strlen(array->name) + 4, 4); // with nothing behind the name
}

static inline uint8_t *put_name(uint8_t *to, const ArrayFile *array) {
    return to + sprintf((char *)to, "%s.npy", array->name);
}

static inline size_t deflated(uint8_t *packed, size_t room, const uint8_t *bytes, size_t count) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (uint8_t *)(uintptr_t)bytes;
    stream.avail_in = (uInt)count;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return room - stream.avail_out;
}

// An archive as zip writes it; returns its size.
static inline size_t archive_bytes(uint8_t archive[ARCHIVE_ROOM], const ArrayFile *set, bool packs) {
    uint8_t *to = archive, directory[ARCHIVE_ROOM], *entry = directory, bytes[ARRAY_ROOM], packed[2 * ARRAY_ROOM];
    uint32_t count = 0;
    for (; set[count].name; count++) {
        const ArrayFile *array = &set[count];
        const size_t whole = array_bytes(bytes, array);
        const size_t stored = packs ? deflated(packed, sizeof packed, bytes, whole) : whole;
        const uint32_t checksum = (uint32_t)crc32(0, bytes, (uInt)whole), place = (uint32_t)(to - archive);
        memcpy(entry, "PK\1\2\24\0", 6);
        entry = put_member(entry + 6, array, packs, checksum, stored, whole);
        memset(entry, 0, 10); // comment, disk, attributes
        entry = put_name(put_number(entry + 10, place, 4), array);
        memcpy(to, "PK\3\4", 4);
        to = put_name(put_member(to + 4, array, packs, checksum, stored, whole), array);
        memcpy(to, packs ? packed : bytes, stored);
        to += stored;
    }
    const uint32_t place = (uint32_t)(to - archive), length = (uint32_t)(entry - directory);
    memcpy(to, directory, length);
    to += length;
    memcpy(to, "PK\5\6\0\0\0\0", 8);
    to = put_number(put_number(to + 8, count, 2), count, 2);
    to = put_number(put_number(to, length, 4), place, 4);
    return (size_t)(put_number(to, 0, 2) - archive);
}

// Writes the set to parent/name (and .npz) and returns that path, new or not.
static inline const char *arrays_write(char path[SCRATCH_PATH_BYTES], const char *parent, const char *name,
                                       const ArrayFile *set, ArrayPacking packing) {
    uint8_t bytes[ARCHIVE_ROOM];
    char file[SCRATCH_PATH_BYTES], full[SCRATCH_PATH_BYTES];
    if (packing != ARRAYS_IN_FOLDER) {
        snprintf(full, sizeof full, "%s.npz", name);
        scratch_write(scratch_path(path, parent, full), bytes, archive_bytes(bytes, set, packing == ARRAYS_DEFLATED));
        return path;
    }
    mkdir(scratch_path(path, parent, name), 0700);
    for (; set->name; set++) {
        snprintf(full, sizeof full, "%s.npy", set->name);
        scratch_write(scratch_path(file, path, full), bytes, array_bytes(bytes, set));
    }
    return path;
}

// Sets that are ready ------------------------------------------------------------------------------------------------

static const int64_t TRAIN_LABELS[3] = {0, 2, 1}, TEST_LABELS[2] = {1, 2};

// The gray set of idx_files.h.
static const ArrayFile GRAY_ARRAYS[] = {
    {"x_train", "|u1", "(3, 2, 3)", GRAY_SET[0].bytes + 16, 18},
    {"y_train", "<i8", "(3,)", TRAIN_LABELS, sizeof TRAIN_LABELS},
    {"x_test", "|u1", "(2, 2, 3)", GRAY_SET[2].bytes + 16, 12},
    {"y_test", "<i8", "(2,)", TEST_LABELS, sizeof TEST_LABELS},
    {0},
};

// A set of which arrays are replaced or added before it is written.
typedef struct Altered {
    ArrayFile files[ARRAYS_MOST + 1];
} Altered;

static inline Altered altered(const ArrayFile *set) {
    Altered copy = {0};
    for (int i = 0; set[i].name; i++)
        copy.files[i] = set[i];
    return copy;
}

static inline void put(Altered *set, const char *name, const char *type, const char *shape, const void *values,
                       size_t bytes) {
    int i = 0;
    while (set->files[i].name && strcmp(set->files[i].name, name) != 0)
        i++;
    assert_in_range(i, 0, ARRAYS_MOST - 1);
    set->files[i] = (ArrayFile){name, type, shape, values, bytes};
}

static const float TRAIN_NUMBERS[6] = {1, 10, 2, 20, 3, 30}, TEST_NUMBERS[4] = {4, 40, 5, 50};
static const double TRAIN_TARGETS[3] = {0.5, -1.5, 2.5}, TEST_TARGETS[2] = {3.5, -4.5};

// Two features and a target.
static inline Altered numbers_set(void) {
    const ArrayFile set[] = {{"x_train", "<f4", "(3, 2)", TRAIN_NUMBERS, sizeof TRAIN_NUMBERS},
                             {"y_train", "<f8", "(3, 1)", TRAIN_TARGETS, sizeof TRAIN_TARGETS},
                             {"x_test", "<f4", "(2, 2)", TEST_NUMBERS, sizeof TEST_NUMBERS},
                             {"y_test", "<f8", "(2, 1)", TEST_TARGETS, sizeof TEST_TARGETS},
                             {0}};
    return altered(set);
}

#endif
