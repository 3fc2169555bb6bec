// The bytes of a file in order, unpacked on the way when it is a gzip file (told by its first two bytes).
//
//   ByteStream stream;
//   TRY(byte_stream_open(&stream, path, err));
//   TRY_GOTO(close, byte_stream_read(header, &stream, sizeof header, err));
//   TRY_GOTO(close, byte_stream_expect_size(&stream, sizeof header + payload_bytes, err));  // before any allocation
//   TRY_GOTO(close, byte_stream_read(payload, &stream, payload_bytes, err));                // straight into place
//   TRY_GOTO(close, byte_stream_end(&stream, err));                                         // checksum, nothing
//   follows
//
// Every failure is DATA and names the file and the byte where it went wrong. A gzip file must be one member, as gzip
// and pigz write it: only then does its trailer tell the size before anything is unpacked. A part of a file that others
// describe, such as a member of an archive (zip.h), is read the same way.
#ifndef SOUNDER_DATASETS_FORMATS_BYTE_STREAM_H
#define SOUNDER_DATASETS_FORMATS_BYTE_STREAM_H

#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { BYTE_STREAM_BUFFER_BYTES = 1 << 16 };

// Where a part of a file lies, and what it is once unpacked.
typedef struct BytePart {
    uint64_t begin, packed_bytes; // in the file
    uint64_t bytes;               // unpacked
    uint32_t checksum;            // CRC-32 of the unpacked bytes
    bool deflated;                // otherwise stored as it is
} BytePart;

typedef struct ByteStream {
    const char *path;              // borrowed, for sentences
    int fd;                        // owned
    bool is_part;                  // of a file; otherwise the whole
    BytePart part;                 // of a part
    uint32_t checksum;             // of a part: CRC-32 of what has been handed out
    bool packed;                   // a gzip file, or a deflated part
    bool ended;                    // packed: the end has been seen, and a gzip file's checksum was right
    uint64_t file_bytes;           // size of the file when it was opened
    uint64_t file_offset;          // bytes taken from the file
    uint64_t offset;               // (unpacked) bytes handed out
    struct inflate_state inflater; // ISA-L's; reads from buffer
    uint8_t buffer[BYTE_STREAM_BUFFER_BYTES];
} ByteStream;

// NOINPUT when the file is not there or may not be read.
Status byte_stream_open(ByteStream *stream, const char *path, Error *err);
void byte_stream_close(ByteStream *stream);

// The same for a part of the file at `path`, which sentences call `said` (borrowed).
Status byte_stream_open_part(ByteStream *stream, const char *said, const char *path, const BytePart *part, Error *err);

// Hands out exactly `count` bytes.
Status byte_stream_read(void *bytes, ByteStream *stream, size_t count, Error *err);

// Fails unless the whole stream can be `bytes` long: by the file's size, or by a gzip file's trailer (which holds the
// size modulo 2^32), or by what is known of a part, and by deflate's greatest ratio of 1032 to 1.
Status byte_stream_expect_size(const ByteStream *stream, uint64_t bytes, Error *err);

// Fails unless everything has been handed out, and with the right checksum if there is one.
Status byte_stream_end(ByteStream *stream, Error *err);

#endif
