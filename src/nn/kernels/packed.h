// Products of one matrix of weights with many blocks of samples: the steps of a sequence. The weights are packed once
// per pass, PACK_ROWS of them side by side, so that a tile reads them in the order of memory and each serves all of the
// tile's samples. Samples are the lanes: nothing is transposed, and no sum runs across lanes.
#ifndef SOUNDER_NN_KERNELS_PACKED_H
#define SOUNDER_NN_KERNELS_PACKED_H

#include "nn/kernels/product.h"
#include "nn/kernels/sequence.h"

// Vectors of samples in a tile: with AVX-512, 12 rows by 2 vectors are 24 sums of the 32 registers. Otherwise 12 sums
// of 16.
#if SOUNDER_LANES == 16
enum { PACK_COLUMNS = 2 };
#else
enum { PACK_COLUMNS = 1 };
#endif

// to (packs, inner, PACK_ROWS) = from (rows, inner), with zeros after the last row: packed_floats.
static inline void pack_rows(float *to, ScalarMatrix from, size_t rows, size_t inner) {
    for (size_t first = 0; first < rows; first += PACK_ROWS)
        for (size_t k = 0; k < inner; k++, to += PACK_ROWS)
            for (size_t r = 0; r < PACK_ROWS; r++)
                to[r] = first + r < rows ? from.at[(first + r) * from.row_stride + k * from.column_stride] : 0;
}

// One pack's rows, of which `rows` are stored, for `columns` vectors of samples, which is a constant wherever this is
// inlined.
ALWAYS_INLINE void packed_tile(ProductOut out, const float *packed, const float *lanes, size_t rows, size_t inner,
                               size_t row_floats, int columns) {
    Lanes sums[PACK_ROWS][PACK_COLUMNS];
#pragma GCC unroll 16
    for (int r = 0; r < PACK_ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++)
            sums[r][c] = lanes_of(0);
    for (size_t k = 0; k < inner; k++, packed += PACK_ROWS, lanes += row_floats) {
        const Lanes *values = (const Lanes *)lanes;
#pragma GCC unroll 16
        for (int r = 0; r < PACK_ROWS; r++) {
            const Lanes factor = lanes_of(packed[r]);
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++)
                sums[r][c] += factor * values[c];
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < PACK_ROWS; r++)
        if ((size_t)r < rows)
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++) {
                Lanes *to = (Lanes *)(out.at + (size_t)r * out.row_floats) + c;
                Lanes sum = sums[r][c];
                if (out.bias) sum += lanes_of(out.bias[r]);
                if (out.adds) sum += *to;
                *to = sum;
            }
}

// Functions of their own, so that the compiler has all registers for the loop of a tile.
static __attribute__((noinline)) void packed_many(ProductOut out, const float *packed, const float *lanes, size_t rows,
                                                  size_t inner, size_t row_floats) {
    packed_tile(out, packed, lanes, rows, inner, row_floats, PACK_COLUMNS);
}

static __attribute__((noinline)) void packed_one(ProductOut out, const float *packed, const float *lanes, size_t rows,
                                                 size_t inner, size_t row_floats) {
    packed_tile(out, packed, lanes, rows, inner, row_floats, 1);
}

// out (rows, samples) = packed (rows, inner) * lanes (inner, samples); rows of lanes are row_floats apart. samples: a
// multiple of SOUNDER_LANES.
static inline void packed_product(ProductOut out, const float *packed, const float *lanes, size_t rows, size_t inner,
                                  size_t row_floats, size_t samples) {
    for (size_t first = 0; first < rows; first += PACK_ROWS, packed += PACK_ROWS * inner) {
        const size_t count = rows - first < PACK_ROWS ? rows - first : PACK_ROWS;
        ProductOut to = out;
        for (size_t s = 0; s < samples; s += PACK_COLUMNS * SOUNDER_LANES, to.at += PACK_COLUMNS * SOUNDER_LANES)
            if (samples - s >= PACK_COLUMNS * SOUNDER_LANES)
                packed_many(to, packed, lanes + s, count, inner, row_floats);
            else
                packed_one(to, packed, lanes + s, count, inner, row_floats);
        out.at += PACK_ROWS * out.row_floats;
        if (out.bias) out.bias += PACK_ROWS;
    }
}

#endif
