// NPY, the file format of NumPy's arrays (numpy.lib.format): a magic, a version, a header that is a Python dictionary
// in one line, then the values. Read here: versions 1 to 3, little-endian whole and floating-point numbers, up to four
// dimensions, row by row.
//
//   NpyHeader header;
//   TRY(npy_header(&header, &stream, "y", true, err));    // the stream (or file) can hold what is announced
//   TRY(npy_read_reals(values, &header, &stream, err));    // or _bytes, or _wholes: whatever it is, each checked
//
// Failures are DATA and name the stream and the value.
#ifndef SOUNDER_DATASETS_FORMATS_NPY_H
#define SOUNDER_DATASETS_FORMATS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/formats/byte_stream.h"

enum { NPY_MAX_RANK = 4, NPY_TYPE_BYTES = 32 };

typedef struct NpyHeader {
    char type[NPY_TYPE_BYTES];     // as NumPy has it: "<f4"
    char kind;                     // 'u', 'i', 'f', or 'b' for truth
    uint32_t item_bytes;           // 1, 2, 4 or 8
    int rank;                      // 0 to 4
    uint64_t extent[NPY_MAX_RANK]; // those beyond rank are 1
    uint64_t count;                // of values; with item_bytes no more than fits in memory
    bool by_columns;               // stored column by column, as Fortran does
    uint64_t header_bytes;
} NpyHeader;

// Reads the header at the beginning of the stream. name, numbered: for the remedy when values of this type are not
// read, what the array is called ("x") and whether its values are numbers of something (classes, clients) rather than
// quantities: strings of those are numbered, not converted.
Status npy_header(NpyHeader *header, ByteStream *stream, const char *name, bool numbered, Error *err);

// Values of one byte, as they are. bytes: (count).
Status npy_read_bytes(uint8_t *bytes, const NpyHeader *header, ByteStream *stream, Error *err);

// Floating-point numbers of four or eight bytes. DATA for one that is not finite as a float. values: (count).
Status npy_read_reals(float *values, const NpyHeader *header, ByteStream *stream, Error *err);

// The sentence for a number that is not finite as a float. said: what the array is called; place: of the number;
// each: numbers of one sample.
Status npy_not_finite(const char *said, uint64_t place, uint64_t each, float value, Error *err);

// Whole numbers of any size (or truth), from 0 to `greatest`. `what` says in a sentence what they are. values: (count).
Status npy_read_wholes(uint32_t *values, const NpyHeader *header, ByteStream *stream, uint32_t greatest,
                       const char *what, Error *err);

#endif
