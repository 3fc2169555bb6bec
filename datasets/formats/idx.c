#include "datasets/formats/idx.h"

#include <string.h>

#include "datasets/formats/byte_stream.h"

enum { IDX_TYPE_UINT8 = 0x08 };

static uint32_t big_endian(const uint8_t bytes[4]) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
}

// Reads the header and verifies, before memory is allocated, that the file can have the announced size.
static Status read_header(IdxHeader *header, ByteStream *stream, Error *err) {
    uint8_t magic[4], extents[4 * IDX_MAX_RANK];
    TRY(byte_stream_read(magic, stream, sizeof magic, err));
    if (magic[0] != 0 || magic[1] != 0)
        return fail(err, STATUS_DATA, "%s: not an IDX file: it starts with %02x %02x, not with two zero bytes",
                    stream->path, magic[0], magic[1]);
    if (magic[2] != IDX_TYPE_UINT8)
        return fail(err, STATUS_DATA, "%s: IDX type 0x%02x at byte 2; only 0x08 (unsigned bytes) is read", stream->path,
                    magic[2]);
    if (magic[3] < 1 || magic[3] > IDX_MAX_RANK)
        return fail(err, STATUS_DATA, "%s: IDX rank %d at byte 3; ranks 1 to %d are read", stream->path, magic[3],
                    IDX_MAX_RANK);
    *header = (IdxHeader){.rank = magic[3], .extent = {1, 1, 1, 1}, .payload_bytes = 1};
    header->header_bytes = sizeof magic + 4 * (size_t)header->rank;
    TRY(byte_stream_read(extents, stream, 4 * (size_t)header->rank, err));
    for (int d = 0; d < header->rank; d++) {
        header->extent[d] = big_endian(extents + 4 * d);
        if (header->extent[d] == 0)
            return fail(err, STATUS_DATA, "%s: the extent at byte %d is 0", stream->path, 4 + 4 * d);
        if (__builtin_mul_overflow(header->payload_bytes, header->extent[d], &header->payload_bytes) ||
            header->payload_bytes > PTRDIFF_MAX / 2)
            return fail(err, STATUS_DATA, "%s: the extents up to byte %d announce more than fits in memory",
                        stream->path, 8 + 4 * d);
    }
    return byte_stream_expect_size(stream, header->header_bytes + header->payload_bytes, err);
}

Status idx_header(IdxHeader *header, const char *path, Error *err) {
    ByteStream stream;
    TRY(byte_stream_open(&stream, path, err));
    Status status = read_header(header, &stream, err);
    byte_stream_close(&stream);
    return status;
}

Status idx_read(uint8_t *payload, const IdxHeader *header, const char *path, Error *err) {
    ByteStream stream;
    IdxHeader found;
    Status status;
    TRY(byte_stream_open(&stream, path, err));
    TRY_GOTO(close, read_header(&found, &stream, err));
    if (found.rank != header->rank || memcmp(found.extent, header->extent, sizeof found.extent) != 0) {
        status = fail(err, STATUS_DATA, "%s: the header at byte 4 changed while the data set was being read", path);
        goto close;
    }
    TRY_GOTO(close, byte_stream_read(payload, &stream, found.payload_bytes, err));
    TRY_GOTO(close, byte_stream_end(&stream, err));
close:
    byte_stream_close(&stream);
    return status;
}
