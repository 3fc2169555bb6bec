#include "npz.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Sizes of zip's records without their names, and the alignment of an array in the file, which NumPy gives its own.
enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, ALIGNMENT = 64, NPY_PREFIX = 10, NAME_BYTES = 1024 };
enum { LOCAL_CHECKSUM = 14, CENTRAL_CHECKSUM = 16 }; // where they have the checksum, before the two sizes

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)value, at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint64_t value) {
    put16(at, (uint32_t)(value & 0xffff));
    put16(at + 2, (uint32_t)(value >> 16 & 0xffff));
}

static void note(Npz *npz, Status status) {
    if (npz->status == STATUS_OK) npz->status = status;
}

static void write_bytes(Npz *npz, const void *bytes, size_t count) {
    if (npz->status != STATUS_OK || fwrite(bytes, 1, count, npz->file) == count) return;
    note(npz, fail_errno(&npz->why, STATUS_IO, "%.500s cannot be written", npz->path));
}

static uint64_t position(const Npz *npz) {
    const long at = ftell(npz->file);
    return at < 0 ? 0 : (uint64_t)at;
}

Status npz_create(Npz *npz, const char *path, Error *err) {
    *npz = (Npz){.status = STATUS_OK};
    snprintf(npz->path, sizeof npz->path, "%s", path);
    npz->file = fopen(path, "wxe");
    return npz->file ? STATUS_OK : fail_errno(err, STATUS_CANTCREATE, "%.500s cannot be made", path);
}

// Makes room in the directory; NULL after a failure.
static uint8_t *directory_extend(Npz *npz, size_t bytes) {
    if (npz->directory_bytes + bytes > npz->directory_capacity) {
        const size_t capacity = 2 * npz->directory_capacity + bytes + 1024;
        uint8_t *longer = realloc(npz->directory, capacity);
        if (!longer) {
            note(npz, fail(&npz->why, STATUS_OS, "no memory for the list of arrays in %.500s", npz->path));
            return NULL;
        }
        npz->directory = longer;
        npz->directory_capacity = capacity;
    }
    uint8_t *at = npz->directory + npz->directory_bytes;
    assert(npz->directory_bytes + bytes <= npz->directory_capacity);
    memset(at, 0, bytes);
    npz->directory_bytes += bytes;
    return at;
}

// Version 1.0 of the format: the dictionary is padded so that the array begins at a multiple of 64 bytes.
static size_t npy_head(uint8_t head[NPZ_OVERHEAD_BYTES], const char *type, int rank, const int64_t *shape) {
    char text[NPZ_OVERHEAD_BYTES - NPY_PREFIX];
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int i = 0; i < rank; i++)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, "%lld,%s", (long long)shape[i], i + 1 < rank ? " " : "");
    used += snprintf(text + used, sizeof text - (size_t)used, "), }");
    const size_t bytes = (NPY_PREFIX + (size_t)used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    assert(bytes % ALIGNMENT == 0 && bytes <= NPZ_OVERHEAD_BYTES);
    memset(head, ' ', bytes);
    memcpy(head, "\x93NUMPY\x01", 7);
    head[7] = 0;
    put16(head + 8, (uint32_t)(bytes - NPY_PREFIX));
    memcpy(head + NPY_PREFIX, text, (size_t)used);
    head[bytes - 1] = '\n';
    return bytes;
}

void npz_begin(Npz *npz, const char *name, const char *type, int rank, const int64_t *shape, size_t item_bytes) {
    char member[NAME_BYTES];
    uint8_t local[LOCAL_BYTES] = {'P', 'K', 3, 4, 20}, head[NPZ_OVERHEAD_BYTES];
    const int length = snprintf(member, sizeof member, "%.1000s.npy", name);
    assert(*name && rank >= 0 && item_bytes > 0 && length < NAME_BYTES);
    if (npz->status != STATUS_OK) return;
    npz->begin = position(npz);
    npz->last = npz->directory_bytes;
    npz->due = item_bytes;
    for (int i = 0; i < rank; i++)
        npz->due *= (uint64_t)shape[i];
    if (npz->begin > UINT32_MAX || npz->due > UINT32_MAX || npz->count == UINT16_MAX)
        return note(npz, fail(&npz->why, STATUS_IO, "%.500s would be larger than 4 GiB", npz->path));
    put16(local + 26, (uint32_t)length);
    uint8_t *entry = directory_extend(npz, CENTRAL_BYTES + (size_t)length);
    if (!entry) return;
    memcpy(entry, (uint8_t[]){'P', 'K', 1, 2, 20, 0, 20}, 7);
    put16(entry + 28, (uint32_t)length);
    put32(entry + 42, npz->begin);
    memcpy(entry + CENTRAL_BYTES, member, (size_t)length);
    npz->count++;
    npz->checksum = 0;
    npz->size = 0;
    write_bytes(npz, local, sizeof local);
    write_bytes(npz, member, (size_t)length);
    const size_t head_bytes = npy_head(head, type, rank, shape);
    npz->due += head_bytes;
    npz_put(npz, head, head_bytes);
}

void npz_put(Npz *npz, const void *bytes, size_t count) {
    if (npz->status != STATUS_OK) return;
    npz->checksum = crc32_gzip_refl(npz->checksum, bytes, count);
    npz->size += count;
    write_bytes(npz, bytes, count);
}

// Checksum and sizes are known only now: they are written into the record before the array, and into the directory.
void npz_end(Npz *npz) {
    uint8_t facts[12];
    if (npz->status != STATUS_OK) return;
    if (npz->size != npz->due)
        return note(npz, fail(&npz->why, STATUS_SOFTWARE, "%.500s: an array of %llu bytes got %llu", npz->path,
                              (unsigned long long)npz->due, (unsigned long long)npz->size));
    put32(facts, npz->checksum);
    put32(facts + 4, npz->size);
    put32(facts + 8, npz->size);
    assert(npz->last + CENTRAL_BYTES <= npz->directory_bytes);
    memcpy(npz->directory + npz->last + CENTRAL_CHECKSUM, facts, sizeof facts);
    if (fseek(npz->file, (long)npz->begin + LOCAL_CHECKSUM, SEEK_SET) == 0) write_bytes(npz, facts, sizeof facts);
    if (fseek(npz->file, 0, SEEK_END) != 0)
        note(npz, fail_errno(&npz->why, STATUS_IO, "%.500s cannot be written", npz->path));
}

void npz_add(Npz *npz, const char *name, const char *type, int rank, const int64_t *shape, size_t item_bytes,
             const void *items) {
    size_t bytes = item_bytes;
    for (int i = 0; i < rank; i++)
        bytes *= (size_t)shape[i];
    npz_begin(npz, name, type, rank, shape, item_bytes);
    npz_put(npz, items, bytes);
    npz_end(npz);
}

Status npz_close(Npz *npz, Error *err) {
    uint8_t end[END_BYTES] = {'P', 'K', 5, 6};
    const uint64_t begin = npz->status == STATUS_OK ? position(npz) : 0;
    if (begin + npz->directory_bytes > UINT32_MAX)
        note(npz, fail(&npz->why, STATUS_IO, "%.500s would be larger than 4 GiB", npz->path));
    put16(end + 8, npz->count);
    put16(end + 10, npz->count);
    put32(end + 12, npz->directory_bytes);
    put32(end + 16, begin);
    write_bytes(npz, npz->directory, npz->directory_bytes);
    write_bytes(npz, end, sizeof end);
    if (fclose(npz->file) != 0) note(npz, fail_errno(&npz->why, STATUS_IO, "%.500s cannot be written", npz->path));
    free(npz->directory);
    if (npz->status == STATUS_OK) return STATUS_OK;
    unlink(npz->path);
    return fail(err, npz->status, "%s", npz->why.message);
}
