// Packs bytes as the gzip program does, for tests of what reads them.
#ifndef SOUNDER_TESTS_DATASETS_GZIP_BYTES_H
#define SOUNDER_TESTS_DATASETS_GZIP_BYTES_H

#include <stdint.h>
#include <zlib.h>

#include "tests/check.h"

// Returns the number of packed bytes, at most `room`. level: 0 (stored) to 9; header: what stands in the wrapper, or
// NULL for the least.
static inline size_t gzip_bytes_with(uint8_t *packed, size_t room, const uint8_t *bytes, size_t count, int level,
                                     gz_header *header) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    if (header) assert_int_equal(deflateSetHeader(&stream, header), Z_OK);
    stream.next_in = (uint8_t *)(uintptr_t)bytes;
    stream.avail_in = (uInt)count;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t packed_count = room - stream.avail_out;
    deflateEnd(&stream);
    return packed_count;
}

static inline size_t gzip_bytes(uint8_t *packed, size_t room, const uint8_t *bytes, size_t count) {
    return gzip_bytes_with(packed, room, bytes, count, 9, NULL);
}

#endif
