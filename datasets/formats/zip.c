#include "datasets/formats/zip.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

enum {
    END_BYTES = 22,       // the end of the directory, before its comment
    LOCATOR_BYTES = 20,   // zip64: location of the larger end, right before the end
    LARGE_END_BYTES = 56, // zip64: the larger end
    ENTRY_BYTES = 46,     // a member in the directory, before its name
    LOCAL_BYTES = 30,     // the header before a member, before its name
    GREATEST_COMMENT = 65535,
    GREATEST_DIRECTORY = 1 << 26,
    STORED = 0,
    DEFLATED = 8,
    ZIP64_FIELD = 1,
};

typedef struct Archive {
    const char *path;
    int fd;
    uint64_t bytes;
    uint64_t begin, directory_bytes; // the directory
} Archive;

static Status read_at(void *bytes, const Archive *archive, uint64_t begin, size_t count, Error *err) {
    if (begin > archive->bytes || count > archive->bytes - begin)
        return fail(err, STATUS_DATA, "%s: not a whole zip archive: %zu bytes at byte %" PRIu64 " lie behind its end",
                    archive->path, count, begin);
    ssize_t got = pread(archive->fd, bytes, count, (off_t)begin);
    if (got < 0) return fail_errno(err, STATUS_IO, "%s: byte %" PRIu64, archive->path, begin);
    if ((size_t)got != count) return fail(err, STATUS_DATA, "%s: truncated while it was read", archive->path);
    return STATUS_OK;
}

// The end of the directory is the last part of the file, followed only by a comment whose length it contains.
static Status find_end(uint8_t end[END_BYTES], uint64_t *place, const Archive *archive, Error *err) {
    uint8_t *tail = malloc(END_BYTES + GREATEST_COMMENT);
    if (!tail) return fail(err, STATUS_OS, "no memory for the end of %s", archive->path);
    const size_t room = END_BYTES + GREATEST_COMMENT, count = archive->bytes < room ? (size_t)archive->bytes : room;
    Status status = read_at(tail, archive, archive->bytes - count, count, err);
    bool found = false;
    for (size_t from = count < END_BYTES ? 0 : count - END_BYTES + 1; status == STATUS_OK && from-- > 0 && !found;) {
        if (memcmp(tail + from, "PK\5\6", 4) != 0 || from + END_BYTES + little_endian(tail + from + 20, 2) != count)
            continue;
        memcpy(end, tail + from, END_BYTES);
        *place = archive->bytes - count + from;
        found = true;
    }
    free(tail);
    if (status != STATUS_OK || found) return status;
    return fail(err, STATUS_DATA, "%s: not a zip archive, or truncated: no directory ends at byte %" PRIu64,
                archive->path, archive->bytes);
}

// If numbers of the directory do not fit 32 bits (zip64), the end contains 2^32 - 1 instead of them; a locator right
// before the end then points to a larger end that has them.
static Status find_directory(Archive *archive, Error *err) {
    uint8_t end[END_BYTES] = {0}, locator[LOCATOR_BYTES], large[LARGE_END_BYTES];
    uint64_t place = 0;
    TRY(find_end(end, &place, archive, err));
    archive->directory_bytes = little_endian(end + 12, 4);
    archive->begin = little_endian(end + 16, 4);
    const bool is_large = archive->directory_bytes == UINT32_MAX || archive->begin == UINT32_MAX;
    if (is_large && place >= LOCATOR_BYTES) {
        TRY(read_at(locator, archive, place - LOCATOR_BYTES, sizeof locator, err));
        if (memcmp(locator, "PK\6\7", 4) == 0) {
            TRY(read_at(large, archive, little_endian(locator + 8, 8), sizeof large, err));
            archive->directory_bytes = little_endian(large + 40, 8);
            archive->begin = little_endian(large + 48, 8);
        }
    }
    if (archive->begin <= place && archive->directory_bytes <= place - archive->begin &&
        archive->directory_bytes <= GREATEST_DIRECTORY)
        return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s: a corrupt zip archive: its end at byte %" PRIu64 " tells of a directory of %" PRIu64
                " bytes at byte %" PRIu64,
                archive->path, place, archive->directory_bytes, archive->begin);
}

// Sizes and the location of a member that do not fit four bytes are stored in a zip64 field, in this order.
static void read_large_numbers(uint64_t *const numbers[3], const uint8_t *fields, size_t bytes) {
    while (bytes >= 4) {
        const size_t length = (size_t)little_endian(fields + 2, 2);
        if (length > bytes - 4) return;
        if (little_endian(fields, 2) == ZIP64_FIELD) {
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*numbers[i] != UINT32_MAX || used + 8 > length) continue;
                *numbers[i] = little_endian(fields + 4 + used, 8);
                used += 8;
            }
            return;
        }
        fields += 4 + length;
        bytes -= 4 + length;
    }
}

// Finds a member's bytes from its entry in the directory; the member's own header gives the offset.
static Status locate(BytePart *part, const char *name, const uint8_t *entry, const Archive *archive, Error *err) {
    uint8_t head[LOCAL_BYTES];
    const uint64_t method = little_endian(entry + 10, 2), name_bytes = little_endian(entry + 28, 2);
    uint64_t place = little_endian(entry + 42, 4);
    *part = (BytePart){.packed_bytes = little_endian(entry + 20, 4),
                       .bytes = little_endian(entry + 24, 4),
                       .checksum = (uint32_t)little_endian(entry + 16, 4),
                       .deflated = method == DEFLATED};
    read_large_numbers((uint64_t *const[]){&part->bytes, &part->packed_bytes, &place}, entry + ENTRY_BYTES + name_bytes,
                       (size_t)little_endian(entry + 30, 2));
    if (little_endian(entry + 8, 2) & 1)
        return fail(err, STATUS_DATA, "%s: %s is encrypted; save it without a password", archive->path, name);
    if (method != STORED && method != DEFLATED)
        return fail(err, STATUS_DATA,
                    "%s: %s is packed by method %" PRIu64 "; only stored and deflated members (numpy.savez, "
                    "numpy.savez_compressed) are read",
                    archive->path, name, method);
    TRY(read_at(head, archive, place, sizeof head, err));
    if (memcmp(head, "PK\3\4", 4) != 0)
        return fail(err, STATUS_DATA, "%s: corrupt: no member %s at byte %" PRIu64, archive->path, name, place);
    part->begin = place + LOCAL_BYTES + little_endian(head + 26, 2) + little_endian(head + 28, 2);
    if (part->begin <= archive->begin && part->packed_bytes <= archive->begin - part->begin) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: corrupt: %s of %" PRIu64 " bytes at byte %" PRIu64 " runs into the directory",
                archive->path, name, part->packed_bytes, part->begin);
}

// Locates the wanted members and collects the names of all others for a sentence.
static Status look_through(BytePart *parts, bool *found, char *others, const char *const *names, int count,
                           const Archive *archive, const uint8_t *directory, Error *err) {
    for (uint64_t at = 0; at < archive->directory_bytes;) {
        const uint8_t *entry = directory + at;
        const uint64_t left = archive->directory_bytes - at;
        uint64_t whole = ENTRY_BYTES, name_bytes = 0;
        if (left >= ENTRY_BYTES) {
            name_bytes = little_endian(entry + 28, 2);
            whole += name_bytes + little_endian(entry + 30, 2) + little_endian(entry + 32, 2);
        }
        if (left < whole || memcmp(entry, "PK\1\2", 4) != 0)
            return fail(err, STATUS_DATA, "%s: a corrupt zip archive: no member at byte %" PRIu64 " of its directory",
                        archive->path, at);
        bool is_wanted = false;
        for (int i = 0; i < count; i++)
            if (strlen(names[i]) == name_bytes && memcmp(entry + ENTRY_BYTES, names[i], name_bytes) == 0) {
                TRY(locate(&parts[i], names[i], entry, archive, err));
                found[i] = is_wanted = true;
            }
        if (!is_wanted) text_list(others, ZIP_OTHERS_BYTES, (const char *)entry + ENTRY_BYTES, name_bytes);
        at += whole;
    }
    return STATUS_OK;
}

Status zip_look_up(BytePart *parts, bool *found, char others[ZIP_OTHERS_BYTES], const char *const *names, int count,
                   const char *path, Error *err) {
    struct stat about;
    Archive archive = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (archive.fd < 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
    memset(found, 0, (size_t)count * sizeof *found);
    *others = '\0';
    Status status = STATUS_OK;
    uint8_t *directory = NULL;
    if (fstat(archive.fd, &about) != 0) TRY_GOTO(done, fail_errno(err, STATUS_IO, "%s", path));
    if (!S_ISREG(about.st_mode)) TRY_GOTO(done, fail(err, STATUS_DATA, "%s: not a regular file", path));
    archive.bytes = (uint64_t)about.st_size;
    TRY_GOTO(done, find_directory(&archive, err));
    directory = malloc((size_t)archive.directory_bytes + 1);
    if (!directory) TRY_GOTO(done, fail(err, STATUS_OS, "no memory for the directory of %s", path));
    TRY_GOTO(done, read_at(directory, &archive, archive.begin, (size_t)archive.directory_bytes, err));
    TRY_GOTO(done, look_through(parts, found, others, names, count, &archive, directory, err));
done:
    free(directory);
    close(archive.fd);
    return status;
}
