// NPY, the file format of NumPy's arrays (numpy.lib.format): a magic number, a version, a header that is a Python
// dictionary in one line, then the values. Supported: versions 1 to 3, whole and floating-point numbers of 1 to 8 bytes
// in either byte order, up to four dimensions, row by row.
//
//   NpyHeader header;
//   TRY(npy_header(&header, &stream, "y", true, err));    // checks that the stream can have the announced size
//   TRY(npy_read_reals(values, &header, &stream, err));    // or _bytes, or _wholes; every value is checked
//
// Failures are DATA and name the stream and the value.
#ifndef SOUNDER_DATASETS_FORMATS_NPY_H
#define SOUNDER_DATASETS_FORMATS_NPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/formats/byte_stream.h"

enum { NPY_MAX_RANK = 4, NPY_TYPE_BYTES = 32 };

typedef struct NpyHeader {
    char type[NPY_TYPE_BYTES];     // as in NumPy: "<f4"
    char kind;                     // 'u', 'i', 'f', or 'b' (bool)
    uint32_t item_bytes;           // 1, 2, 4 or 8
    bool is_swapped;               // the highest byte first
    int rank;                      // 0 to 4
    uint64_t extent[NPY_MAX_RANK]; // 1 beyond rank
    uint64_t count;                // of values; count * item_bytes fits in memory
    bool by_columns;               // stored column by column, as Fortran does
    uint64_t header_bytes;
} NpyHeader;

// Reads the header at the beginning of the stream. name and numbered are for the remedy if values of this type are not
// supported: the array's name ("x"), and whether its values are numbers of something (classes, clients) and not
// quantities: such strings need to be numbered, not converted.
Status npy_header(NpyHeader *header, ByteStream *stream, const char *name, bool numbered, Error *err);

// Reads values of one byte, unchanged. bytes: (count).
Status npy_read_bytes(uint8_t *bytes, const NpyHeader *header, ByteStream *stream, Error *err);

// Reads numbers of any type as floats. Fails with DATA for one that is not finite as a float. values: (count).
Status npy_read_reals(float *values, const NpyHeader *header, ByteStream *stream, Error *err);

// As npy_read_reals, but the numbers keep their digits.
Status npy_read_doubles(double *values, const NpyHeader *header, ByteStream *stream, Error *err);

// Says whether values of this type may have more digits than a float32.
bool npy_is_wide(const NpyHeader *header);

// Writes the sentence for a number that is not finite as a float. said: the array's name; place: index of the number;
// each: numbers per sample.
Status npy_not_finite(const char *said, uint64_t place, uint64_t each, float value, Error *err);

// Reads whole numbers of any size (or bool), from 0 to `greatest`. what: their name in a sentence. values: (count).
Status npy_read_wholes(uint32_t *values, const NpyHeader *header, ByteStream *stream, uint32_t greatest,
                       const char *what, Error *err);

#endif
