// The reading side of the safetensors format.
#include "io/safetensors.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json.h"

enum { LENGTH_BYTES = 8, NOT_NATURAL = -1 };

// Maps the file and closes the descriptor.
static Status map_file(Safetensors *file, int fd, const char *path, Error *err) {
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
    struct stat about;
    Status status = STATUS_OK;
    if (fstat(fd, &about) != 0)
        status = fail_errno(err, STATUS_IO, "%s", path);
    else if (!S_ISREG(about.st_mode))
        status = fail(err, STATUS_DATA, "%s: not a regular file", path);
    else if (about.st_size < LENGTH_BYTES)
        status = fail(err, STATUS_DATA, "%s: truncated: ends at byte %lld, within the header's length", path,
                      (long long)about.st_size);
    else {
        file->mapping_bytes = (size_t)about.st_size;
        file->mapping = mmap(NULL, file->mapping_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (file->mapping == MAP_FAILED) status = fail_errno(err, STATUS_OS, "%s cannot be mapped", path);
    }
    close(fd);
    return status;
}

static Status check_header_length(size_t *header_bytes, const Safetensors *file, const char *path, Error *err) {
    const uint8_t *bytes = file->mapping;
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    if (length > SAFETENSORS_MAX_HEADER_BYTES && (file->mapping_bytes == LENGTH_BYTES || bytes[LENGTH_BYTES] != '{'))
        return fail(err, STATUS_DATA, "%s: is not a safetensors file", path);
    if (length > SAFETENSORS_MAX_HEADER_BYTES)
        return fail(err, STATUS_DATA, "%s: byte 0 announces a header of %" PRIu64 " bytes; at most %d are allowed",
                    path, length, SAFETENSORS_MAX_HEADER_BYTES);
    if (length > file->mapping_bytes - LENGTH_BYTES)
        return fail(err, STATUS_DATA, "%s: truncated: ends at byte %zu, within its header of %" PRIu64 " bytes", path,
                    file->mapping_bytes, length);
    if (length == 0 || bytes[LENGTH_BYTES] != '{')
        return fail(err, STATUS_DATA, "%s: the header at byte 8 does not start with '{'", path);
    *header_bytes = (size_t)length;
    return STATUS_OK;
}

static Status read_type(TensorType *type, const json_t *value, const char *name, const char *path, Error *err) {
    const char *text = json_string_value(value);
    for (*type = TENSOR_F32; text && *type < TENSOR_TYPES; (*type)++)
        if (strcmp(text, tensor_type_name(*type)) == 0) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s: the header at byte 8 gives tensor %s the dtype %s; F32, F64, F16, BF16 and whole numbers are read",
                path, name, text ? text : "(none)");
}

// Returns a whole number from 0 on, or NOT_NATURAL for any other value.
static int64_t natural(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : NOT_NATURAL;
}

// Checks everything that later code relies on: name, type, rank, and that shape and offsets give the same size.
static Status read_entry(TensorEntry *entry, const char *name, const json_t *value, const char *path, Error *err) {
    const json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
    size_t name_bytes = strlen(name), needed;
    if (name_bytes == 0 || name_bytes >= sizeof entry->name)
        return fail(err, STATUS_DATA,
                    "%s: the header at byte 8 has a tensor name of %zu bytes (%.32s); 1 to %d are read", path,
                    name_bytes, name, SAFETENSORS_NAME_BYTES - 1);
    memcpy(entry->name, name, name_bytes + 1);
    if (json_object_size(value) != 3 || !json_is_array(shape) || json_array_size(offsets) != 2)
        return fail(err, STATUS_DATA, "%s: the header at byte 8 gives tensor %s not just dtype, shape and data_offsets",
                    path, name);
    TRY(read_type(&entry->type, json_object_get(value, "dtype"), name, path, err));
    if (json_array_size(shape) > SAFETENSORS_MAX_RANK)
        return fail(err, STATUS_DATA, "%s: the header at byte 8 gives tensor %s the rank %zu; at most %d is read", path,
                    name, json_array_size(shape), SAFETENSORS_MAX_RANK);
    entry->rank = (int)json_array_size(shape);
    for (int d = 0; d < entry->rank; d++)
        entry->shape[d] = natural(json_array_get(shape, (size_t)d));
    int64_t first = natural(json_array_get(offsets, 0)), end = natural(json_array_get(offsets, 1));
    if (!tensor_entry_size(&needed, entry) || first < 0 || end < first || (uint64_t)(end - first) != needed)
        return fail(err, STATUS_DATA, "%s: the header at byte 8 gives tensor %s a shape and data_offsets that disagree",
                    path, name);
    entry->first_byte = (size_t)first;
    assert(entry->rank >= 0 && entry->rank <= SAFETENSORS_MAX_RANK && entry->type < TENSOR_TYPES);
    entry->bytes = needed;
    return STATUS_OK;
}

static Status read_notes(Safetensors *file, json_t *notes, const char *path, Error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(notes))
        return fail(err, STATUS_DATA, "%s: " SAFETENSORS_NOTES " in the header at byte 8 is not an object", path);
    json_object_foreach(notes, key, value) {
        if (!json_is_string(value))
            return fail(err, STATUS_DATA, "%s: the note %.64s in the header at byte 8 is not a string", path, key);
    }
    file->notes = json_incref(notes);
    return STATUS_OK;
}

static Status read_entries(Safetensors *file, json_t *header, const char *path, Error *err) {
    const char *key;
    json_t *value, *notes = json_object_get(header, SAFETENSORS_NOTES);
    size_t count = json_object_size(header) - (notes != NULL);
    if (notes) TRY(read_notes(file, notes, path, err));
    if (count > SAFETENSORS_MAX_TENSORS)
        return fail(err, STATUS_DATA, "%s: the header at byte 8 has %zu tensors; at most %d are read", path, count,
                    SAFETENSORS_MAX_TENSORS);
    file->entries = calloc(count + 1, sizeof *file->entries); // + 1: calloc(0) may return NULL
    if (!file->entries) return fail(err, STATUS_OS, "%s: no memory for %zu tensors", path, count);
    json_object_foreach(header, key, value) {
        if (value == notes) continue;
        TRY(read_entry(&file->entries[file->count], key, value, path, err));
        file->count++;
    }
    return STATUS_OK;
}

// Empty tensors come before the one that starts at the same byte, in the order of their names.
static int compare_entries(const void *left, const void *right) {
    const TensorEntry *a = left, *b = right;
    if (a->first_byte != b->first_byte) return a->first_byte < b->first_byte ? -1 : 1;
    if ((a->bytes == 0) != (b->bytes == 0)) return a->bytes == 0 ? -1 : 1;
    return strcmp(a->name, b->name);
}

static Status check_offsets(Safetensors *file, size_t header_bytes, const char *path, Error *err) {
    const size_t start = LENGTH_BYTES + header_bytes;
    size_t end = 0;
    qsort(file->entries, file->count, sizeof *file->entries, compare_entries);
    for (size_t i = 0; i < file->count; i++) {
        const TensorEntry *entry = &file->entries[i];
        if (entry->first_byte != end)
            return fail(err, STATUS_DATA, "%s: tensor %s starts at payload byte %zu, but the one before it ends at %zu",
                        path, entry->name, entry->first_byte, end);
        end = entry->first_byte + entry->bytes;
    }
    if (end != file->mapping_bytes - start)
        return fail(err, STATUS_DATA, "%s: %s: the tensors end at byte %zu, the file at byte %zu", path,
                    end > file->mapping_bytes - start ? "truncated" : "has too many bytes", start + end,
                    file->mapping_bytes);
    file->payload = (const uint8_t *)file->mapping + start;
    file->payload_bytes = end;
    assert(file->payload + end ==
           (const uint8_t *)file->mapping + file->mapping_bytes); // tensors are all of the payload
    return STATUS_OK;
}

static Status read_file(Safetensors *file, int fd, const char *path, Error *err) {
    size_t header_bytes = 0;
    json_t *header = NULL;
    Status status;
    *file = (Safetensors){0};
    TRY(map_file(file, fd, path, err));
    TRY_GOTO(fail, check_header_length(&header_bytes, file, path, err));
    TRY_GOTO(fail, json_read_object(&header, (const char *)file->mapping + LENGTH_BYTES, header_bytes, path,
                                    LENGTH_BYTES, err));
    TRY_GOTO(fail, read_entries(file, header, path, err));
    TRY_GOTO(fail, check_offsets(file, header_bytes, path, err));
    json_decref(header);
    return STATUS_OK;
fail:
    json_decref(header);
    safetensors_close(file);
    return status;
}

// Without O_NONBLOCK, opening a FIFO would wait for its writer. Regular files ignore the flag.
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK };

Status safetensors_open(Safetensors *file, const char *path, Error *err) {
    return read_file(file, open(path, OPEN_FLAGS), path, err);
}

Status safetensors_open_at(Safetensors *file, const Folder *folder, const char *name, Error *err) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return read_file(file, openat(folder->fd, name, OPEN_FLAGS), path, err);
}

void safetensors_close(Safetensors *file) {
    free(file->entries);
    json_decref(file->notes);
    munmap(file->mapping, file->mapping_bytes);
    *file = (Safetensors){0};
}

static bool all_begin_with(const Safetensors *file, const char *prefix, size_t bytes) {
    bool all = file->count > 0;
    for (size_t i = 0; i < file->count && all; i++)
        all = strncmp(file->entries[i].name, prefix, bytes) == 0 && file->entries[i].name[bytes];
    return all;
}

void safetensors_unwrap(Safetensors *file) {
    static const char *const prefixes[] = {"module.", "_orig_mod."};
    enum { PREFIXES = sizeof prefixes / sizeof *prefixes };
    for (size_t p = 0; p < PREFIXES; p++) {
        const size_t bytes = strlen(prefixes[p]);
        if (!all_begin_with(file, prefixes[p], bytes)) continue;
        for (size_t i = 0; i < file->count; i++)
            memmove(file->entries[i].name, file->entries[i].name + bytes, strlen(file->entries[i].name + bytes) + 1);
        p = (size_t)-1; // one may be within the other, in any order
    }
}

const TensorEntry *safetensors_find(const Safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
    return NULL;
}

const char *safetensors_note(const Safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->notes, key));
}
