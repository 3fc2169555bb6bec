// The bytes of a file in order; a gzip file (recognised by its first two bytes) is unpacked.
//
//   ByteStream stream;
//   TRY(byte_stream_open(&stream, path, err));
//   TRY_GOTO(close, byte_stream_read(header, &stream, sizeof header, err));
//   TRY_GOTO(close, byte_stream_expect_size(&stream, sizeof header + payload_bytes, err));  // before any allocation
//   TRY_GOTO(close, byte_stream_read(payload, &stream, payload_bytes, err));                // straight into place
//   TRY_GOTO(close, byte_stream_end(&stream, err));                 // checks the checksum and that nothing follows
//
// Every failure is DATA and names the file and the byte of the problem. A gzip file may have several members (RFC 1952,
// 2.2), as `cat a.gz b.gz` writes it; they are read one after another. A part of a file, such as a member of an archive
// (zip.h), is read in the same way.
#ifndef SOUNDER_DATASETS_FORMATS_BYTE_STREAM_H
#define SOUNDER_DATASETS_FORMATS_BYTE_STREAM_H

#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { BYTE_STREAM_BUFFER_BYTES = 1 << 16 };

// Location of a part of a file, and its size and checksum after unpacking.
typedef struct BytePart {
    uint64_t begin, packed_bytes; // in the file
    uint64_t bytes;               // unpacked
    uint32_t checksum;            // CRC-32 of the unpacked bytes
    bool deflated;                // otherwise stored unchanged
} BytePart;

typedef struct ByteStream {
    const char *path;              // borrowed, for sentences
    int fd;                        // owned
    bool is_part;                  // reads a part of the file; otherwise all of it
    BytePart part;                 // the part, if is_part
    uint32_t checksum;             // of a part: CRC-32 of the bytes returned so far
    bool packed;                   // a gzip file, or a deflated part
    bool ended;                    // packed: the end (of a gzip file's member) was reached, and its checksum was right
    uint64_t file_bytes;           // size of the file when it was opened
    uint64_t file_offset;          // bytes read from the file
    uint64_t offset;               // (unpacked) bytes returned so far
    struct inflate_state inflater; // ISA-L's; reads from buffer
    uint8_t buffer[BYTE_STREAM_BUFFER_BYTES];
} ByteStream;

// The number of `count` bytes, the lowest first.
static inline uint64_t little_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

// Fails with NOINPUT if the file does not exist or may not be read.
Status byte_stream_open(ByteStream *stream, const char *path, Error *err);
void byte_stream_close(ByteStream *stream);

// Opens a part of the file at `path`; sentences name it `said` (borrowed).
Status byte_stream_open_part(ByteStream *stream, const char *said, const char *path, const BytePart *part, Error *err);

// Reads exactly `count` bytes.
Status byte_stream_read(void *bytes, ByteStream *stream, size_t count, Error *err);

// Reads at most `count` bytes, for a stream of unknown length. *got is 0 at the end, whose checksum is then verified.
Status byte_stream_read_some(size_t *got, void *bytes, ByteStream *stream, size_t count, Error *err);

// Fails unless the whole stream can have `bytes` bytes: according to the file's size, a gzip file's trailer (which
// stores the size of its last member modulo 2^32) or the part's description, and deflate's greatest ratio of 1032 to 1.
Status byte_stream_expect_size(const ByteStream *stream, uint64_t bytes, Error *err);

// Fails unless all bytes were read and their checksum, if there is one, is right.
Status byte_stream_end(ByteStream *stream, Error *err);

#endif
