#include "datasets/formats/byte_stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GZIP_FIRST_BYTE = 0x1f, GZIP_SMALLEST_BYTES = 18, DEFLATE_GREATEST_RATIO = 1032, READ_AT_MOST_BYTES = 1 << 30 };

static Status read_some(size_t *got, ByteStream *stream, void *bytes, size_t count, Error *err) {
    ssize_t result;
    if (stream->is_part) {
        const uint64_t left = stream->part.begin + stream->part.packed_bytes - stream->file_offset;
        if (count > left) count = (size_t)left;
    }
    do {
        result = read(stream->fd, bytes, count < READ_AT_MOST_BYTES ? count : READ_AT_MOST_BYTES);
    } while (result < 0 && errno == EINTR);
    if (result < 0) return fail_errno(err, STATUS_IO, "%s: byte %" PRIu64, stream->path, stream->file_offset);
    *got = (size_t)result;
    assert(*got <= count);
    stream->file_offset += (uint64_t)result;
    return STATUS_OK;
}

Status byte_stream_open(ByteStream *stream, const char *path, Error *err) {
    *stream = (ByteStream){.path = path};
    // Without O_NONBLOCK, opening a FIFO would wait for its writer. Regular files ignore the flag.
    stream->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (stream->fd < 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
    Status status;
    struct stat about;
    uint8_t magic[2] = {0};
    if (fstat(stream->fd, &about) != 0) {
        status = fail_errno(err, STATUS_IO, "%s", path);
        goto fail;
    }
    if (!S_ISREG(about.st_mode)) {
        status = fail(err, STATUS_DATA, "%s: not a regular file", path);
        goto fail;
    }
    stream->file_bytes = (uint64_t)about.st_size;
    stream->packed =
        pread(stream->fd, magic, sizeof magic, 0) == sizeof magic && magic[0] == GZIP_FIRST_BYTE && magic[1] == 0x8b;
    isal_inflate_init(&stream->inflater);
    stream->inflater.crc_flag = ISAL_GZIP; // a gzip wrapper, whose checksum is verified
    return STATUS_OK;
fail:
    close(stream->fd);
    return status;
}

Status byte_stream_open_part(ByteStream *stream, const char *said, const char *path, const BytePart *part, Error *err) {
    TRY(byte_stream_open(stream, path, err));
    stream->path = said;
    stream->is_part = true;
    stream->part = *part;
    stream->packed = part->deflated;
    stream->file_offset = part->begin;
    stream->inflater.crc_flag = ISAL_DEFLATE; // no wrapper
    Status status = STATUS_OK;
    if (part->begin > stream->file_bytes || part->packed_bytes > stream->file_bytes - part->begin)
        status = fail(err, STATUS_DATA, "%s: truncated: it lies up to byte %" PRIu64 " of a file of %" PRIu64 " bytes",
                      said, part->begin + part->packed_bytes, stream->file_bytes);
    else if (lseek(stream->fd, (off_t)part->begin, SEEK_SET) < 0)
        status = fail_errno(err, STATUS_IO, "%s: byte %" PRIu64, said, part->begin);
    if (status != STATUS_OK) close(stream->fd);
    return status;
}

void byte_stream_close(ByteStream *stream) {
    close(stream->fd);
}

static const char *inflate_problem(int code) {
    switch (code) {
    case ISAL_INVALID_BLOCK:
        return "invalid block";
    case ISAL_INVALID_SYMBOL:
        return "invalid symbol";
    case ISAL_INVALID_LOOKBACK:
        return "a distance that reaches too far back";
    case ISAL_INVALID_WRAPPER:
        return "invalid gzip header";
    case ISAL_UNSUPPORTED_METHOD:
        return "unknown compression method";
    case ISAL_INCORRECT_CHECKSUM:
        return "wrong checksum";
    default:
        return "bad stream";
    }
}

static const char *packing_of(const ByteStream *stream) {
    return stream->is_part ? "deflated" : "gzip";
}

static Status refill(ByteStream *stream, Error *err) {
    size_t taken = 0;
    TRY(read_some(&taken, stream, stream->buffer, sizeof stream->buffer, err));
    if (taken == 0)
        return fail(err, STATUS_DATA, "%s: truncated: the %s data break off at byte %" PRIu64, stream->path,
                    packing_of(stream), stream->file_offset);
    stream->inflater.next_in = stream->buffer;
    stream->inflater.avail_in = (uint32_t)taken;
    return STATUS_OK;
}

// Unpacks at least one byte, or sets stream->ended.
static Status inflate_some(size_t *got, ByteStream *stream, void *bytes, size_t count, Error *err) {
    struct inflate_state *inflater = &stream->inflater;
    const uint32_t room = (uint32_t)(count < READ_AT_MOST_BYTES ? count : READ_AT_MOST_BYTES);
    inflater->next_out = bytes;
    inflater->avail_out = room;
    for (;;) {
        int code = isal_inflate(inflater); // before refilling: it may hold bytes that are unpacked already
        if (code < 0)
            return fail(err, STATUS_DATA, "%s: corrupt %s data before byte %" PRIu64 " (%s)", stream->path,
                        packing_of(stream), stream->file_offset - inflater->avail_in, inflate_problem(code));
        stream->ended = inflater->block_state == ISAL_BLOCK_FINISH;
        if (inflater->avail_out < room || stream->ended) break;
        if (inflater->avail_in == 0) TRY(refill(stream, err));
    }
    *got = room - inflater->avail_out;
    assert(inflater->avail_out <= room && (*got > 0 || stream->ended));
    return STATUS_OK;
}

// After the end of a gzip file's member: begins the next one, if the file has more that begins as a member does.
static Status begin_member(ByteStream *stream, Error *err) {
    struct inflate_state *inflater = &stream->inflater;
    if (stream->is_part) return STATUS_OK;
    if (inflater->avail_in == 0) {
        size_t taken = 0;
        TRY(read_some(&taken, stream, stream->buffer, sizeof stream->buffer, err));
        inflater->next_in = stream->buffer;
        inflater->avail_in = (uint32_t)taken;
    }
    if (inflater->avail_in == 0 || *inflater->next_in != GZIP_FIRST_BYTE) return STATUS_OK;
    isal_inflate_reset(inflater);
    stream->ended = false;
    return STATUS_OK;
}

// The next bytes, at least one; *got is 0 at the end of the file, and of packed data, whose checksum is then verified.
static Status next_some(size_t *got, ByteStream *stream, void *bytes, size_t count, Error *err) {
    *got = 0;
    if (!stream->packed) return read_some(got, stream, bytes, count, err);
    while (*got == 0 && count > 0) {
        if (stream->ended) TRY(begin_member(stream, err));
        if (stream->ended) break;
        TRY(inflate_some(got, stream, bytes, count, err));
    }
    return STATUS_OK;
}

Status byte_stream_read(void *bytes, ByteStream *stream, size_t count, Error *err) {
    uint8_t *next = bytes;
    while (count > 0) {
        size_t got;
        TRY(next_some(&got, stream, next, count, err));
        if (stream->is_part) stream->checksum = crc32_gzip_refl(stream->checksum, next, got);
        stream->offset += got;
        next += got;
        count -= got;
        if (got == 0)
            return fail(err, STATUS_DATA, "%s: truncated: the%s data end at byte %" PRIu64 ", %zu bytes too early",
                        stream->path, stream->packed ? " unpacked" : "", stream->offset, count);
    }
    return STATUS_OK;
}

Status byte_stream_read_some(size_t *got, void *bytes, ByteStream *stream, size_t count, Error *err) {
    TRY(next_some(got, stream, bytes, count, err));
    stream->offset += *got;
    return *got > 0 || count == 0 ? STATUS_OK : byte_stream_end(stream, err);
}

static Status expect_packed_size(const ByteStream *stream, uint64_t bytes, Error *err) {
    uint8_t size[4] = {0};
    uint64_t trailer = stream->file_bytes - sizeof size;
    if (stream->file_bytes < GZIP_SMALLEST_BYTES ||
        pread(stream->fd, size, sizeof size, (off_t)trailer) != (ssize_t)sizeof size)
        return fail(err, STATUS_DATA, "%s: truncated: a gzip file of %" PRIu64 " bytes", stream->path,
                    stream->file_bytes);
    const uint32_t announced = (uint32_t)little_endian(size, sizeof size);
    if (announced > (uint32_t)bytes) // less: the last of several members
        return fail(err, STATUS_DATA,
                    "%s: truncated or corrupt: the gzip trailer at byte %" PRIu64 " tells of %" PRIu32
                    " unpacked bytes, the header inside of %" PRIu64,
                    stream->path, trailer, announced, bytes);
    if (bytes / DEFLATE_GREATEST_RATIO > stream->file_bytes)
        return fail(err, STATUS_DATA,
                    "%s: corrupt header: no gzip file of %" PRIu64 " bytes can hold the announced %" PRIu64 " bytes",
                    stream->path, stream->file_bytes, bytes);
    return STATUS_OK;
}

static Status expect_part_size(const ByteStream *stream, uint64_t bytes, Error *err) {
    const BytePart *part = &stream->part;
    if (bytes != part->bytes)
        return fail(err, STATUS_DATA,
                    "%s: truncated or corrupt: the archive tells of %" PRIu64 " bytes, the header inside of %" PRIu64,
                    stream->path, part->bytes, bytes);
    if (part->deflated ? bytes / DEFLATE_GREATEST_RATIO > part->packed_bytes : bytes != part->packed_bytes)
        return fail(err, STATUS_DATA, "%s: corrupt: %" PRIu64 " bytes of the archive cannot hold %" PRIu64,
                    stream->path, part->packed_bytes, bytes);
    return STATUS_OK;
}

Status byte_stream_expect_size(const ByteStream *stream, uint64_t bytes, Error *err) {
    if (stream->is_part) return expect_part_size(stream, bytes, err);
    if (stream->packed) return expect_packed_size(stream, bytes, err);
    if (stream->file_bytes < bytes)
        return fail(err, STATUS_DATA, "%s: truncated: ends at byte %" PRIu64 ", its header announces %" PRIu64 " bytes",
                    stream->path, stream->file_bytes, bytes);
    if (stream->file_bytes > bytes)
        return fail(err, STATUS_DATA, "%s: has %" PRIu64 " bytes too many, from byte %" PRIu64 " on", stream->path,
                    stream->file_bytes - bytes, bytes);
    return STATUS_OK;
}

static Status end_part(const ByteStream *stream, uint64_t consumed, Error *err) {
    const BytePart *part = &stream->part;
    if (consumed != part->begin + part->packed_bytes)
        return fail(err, STATUS_DATA, "%s: corrupt: its data end at byte %" PRIu64 ", and the archive says %" PRIu64,
                    stream->path, consumed, part->begin + part->packed_bytes);
    if (stream->checksum != part->checksum)
        return fail(err, STATUS_DATA, "%s: corrupt: checksum %08" PRIx32 ", and the archive says %08" PRIx32,
                    stream->path, stream->checksum, part->checksum);
    return STATUS_OK;
}

Status byte_stream_end(ByteStream *stream, Error *err) {
    uint8_t surplus;
    size_t got;
    TRY(next_some(&got, stream, &surplus, 1, err));
    if (got > 0)
        return fail(err, STATUS_DATA, "%s: has too many%s bytes, from byte %" PRIu64 " on", stream->path,
                    stream->packed ? " unpacked" : "", stream->offset);
    uint64_t consumed = stream->file_offset - (stream->packed ? stream->inflater.avail_in : 0);
    assert(consumed <= stream->file_offset);
    if (stream->is_part) return end_part(stream, consumed, err);
    if (stream->packed && consumed != stream->file_bytes)
        return fail(err, STATUS_DATA, "%s: bytes follow the end of the gzip data at byte %" PRIu64, stream->path,
                    consumed);
    return STATUS_OK;
}
