// Matrix products in which the elements of one factor are Lanes: the core of winograd.c and conv_columns.c and, for
// small batches, of the backward pass of linear layers.
//
// A row of the lanes factors is `columns` vectors, one after the other. Scalars are broadcast. The tiles keep their
// accumulators in registers: 32 of them with AVX-512, 16 otherwise.
#ifndef SOUNDER_NN_KERNELS_PRODUCT_H
#define SOUNDER_NN_KERNELS_PRODUCT_H

#include <stdbool.h>

#include "nn/kernels/lanes.h"

#if SOUNDER_LANES == 16
enum { PRODUCT_ROWS = 5, PRODUCT_COLUMNS = 4, OUTER_ROWS = 4, OUTER_COLUMNS = 4 };
#else
enum { PRODUCT_ROWS = 6, PRODUCT_COLUMNS = 2, OUTER_ROWS = 4, OUTER_COLUMNS = 2 };
#endif
enum { OUTER_TILE = OUTER_ROWS * OUTER_COLUMNS }; // a multiple of SOUNDER_LANES

// A matrix of scalars: element (r,c) is at[r * row_stride + c * column_stride], so that a transpose costs nothing.
typedef struct ScalarMatrix {
    const float *at;
    size_t row_stride, column_stride;
} ScalarMatrix;

// sums[r][c] += sum over k of scalars(r,k) * vector c of row k, for one register tile; rows are row_floats apart. rows
// and columns are constants wherever this is inlined. It prefetches the scalars of the next tile; for a transpose,
// whose cache lines hold the scalars of several tiles, it prefetches the last scalars of the tile after the next. Each
// vector that is loaded serves all rows of the tile, and each scalar that is broadcast all columns: 9 loads for 20
// products with AVX-512.
ALWAYS_INLINE void product_add_sums(Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS], ScalarMatrix scalars, const float *lanes,
                                    size_t inner, size_t row_floats, int rows, int columns) {
    const size_t rows_ahead = (size_t)(scalars.row_stride == 1 ? 3 * rows - 1 : rows);
    const char *ahead = (const char *)(scalars.at + rows_ahead * scalars.row_stride);
    const size_t ahead_step = (scalars.column_stride == 1 ? (size_t)rows : scalars.column_stride) * sizeof(float);
    for (size_t k = 0; k < inner; k++, ahead += ahead_step) {
        const float *scalar = scalars.at + k * scalars.column_stride;
        __builtin_prefetch(ahead);
        const LooseLanes *source = (const LooseLanes *)(lanes + k * row_floats);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            Lanes factor = lanes_of(scalar[(size_t)r * scalars.row_stride]);
#pragma GCC unroll 8
            for (int c = 0; c < columns; c++)
                sums[r][c] += factor * source[c];
        }
    }
}

// product_add_sums from zero.
ALWAYS_INLINE void product_sums(Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS], ScalarMatrix scalars, const float *lanes,
                                size_t inner, size_t row_floats, int rows, int columns) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            sums[r][c] = lanes_of(0);
    product_add_sums(sums, scalars, lanes, inner, row_floats, rows, columns);
}

// The destination of a product: its vectors (r,c) are stored at at[r * row_floats + c * SOUNDER_LANES]. adds: adds to
// the stored values; a constant wherever this is inlined. bias: one float per row, added to the finished sums; NULL:
// nothing. rectifies: negative sums with their bias become zero.
typedef struct ProductOut {
    float *at;
    size_t row_floats;
    bool adds;
    const float *bias;
    bool rectifies;
} ProductOut;

// Adds the bias to the sums of a tile, and rectifies them if the product does.
ALWAYS_INLINE void product_conclude(Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS], const ProductOut *out, int rows,
                                    int columns) {
    if (out->bias)
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int c = 0; c < columns; c++)
                sums[r][c] += lanes_of(out->bias[r]);
    if (out->rectifies)
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int c = 0; c < columns; c++)
                sums[r][c] = lanes_rectified(sums[r][c]);
}

// Starts from the stored values or zeros, adds the products in registers, and stores the tile once.
ALWAYS_INLINE void product_tile(ProductOut out, ScalarMatrix scalars, const float *lanes, size_t inner,
                                size_t row_floats, int rows, int columns) {
    Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS];
    if (out.adds) // prefetches what the next tile adds to
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            __builtin_prefetch(out.at + (size_t)(rows + r) * out.row_floats);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            sums[r][c] =
                out.adds ? *(Lanes *)(out.at + (size_t)r * out.row_floats + (size_t)c * SOUNDER_LANES) : lanes_of(0);
    product_add_sums(sums, scalars, lanes, inner, row_floats, rows, columns);
    if (out.bias || out.rectifies) product_conclude(sums, &out, rows, columns);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            *(Lanes *)(out.at + (size_t)r * out.row_floats + (size_t)c * SOUNDER_LANES) = sums[r][c];
}

// All rows of one strip of columns. The rows are shared evenly among tiles: a tile of few rows has so few sums that
// each addition would wait for the one before. A tile's number of rows must be a constant for its sums to stay in
// registers, hence the cases.
ALWAYS_INLINE void product_strip(ProductOut out, ScalarMatrix scalars, const float *lanes, int rows, size_t inner,
                                 size_t row_floats, int columns) {
    const int tiles = (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
    for (int t = 0; t < tiles; t++) {
        const int count = rows / tiles + (t < rows % tiles);
        switch (count) {
#if SOUNDER_LANES < 16
        case 6:
            product_tile(out, scalars, lanes, inner, row_floats, 6, columns);
            break;
#endif
        case 5:
            product_tile(out, scalars, lanes, inner, row_floats, 5, columns);
            break;
        case 4:
            product_tile(out, scalars, lanes, inner, row_floats, 4, columns);
            break;
        case 3:
            product_tile(out, scalars, lanes, inner, row_floats, 3, columns);
            break;
        case 2:
            product_tile(out, scalars, lanes, inner, row_floats, 2, columns);
            break;
        default:
            product_tile(out, scalars, lanes, inner, row_floats, 1, columns);
            break;
        }
        out.at += (size_t)count * out.row_floats;
        if (out.bias) out.bias += count;
        scalars.at += (size_t)count * scalars.row_stride;
    }
}

// out (rows, columns) = scalars (rows, inner) * lanes (inner, columns). Rows of lanes are row_floats apart. Rows of out
// are aligned; rows of lanes need not be.
ALWAYS_INLINE void product(ProductOut out, ScalarMatrix scalars, const float *lanes, int rows, size_t inner,
                           int columns, size_t row_floats) {
    int c = 0;
    for (; c + PRODUCT_COLUMNS <= columns; c += PRODUCT_COLUMNS) {
        product_strip(out, scalars, lanes, rows, inner, row_floats, PRODUCT_COLUMNS);
        out.at += PRODUCT_COLUMNS * SOUNDER_LANES;
        lanes += PRODUCT_COLUMNS * SOUNDER_LANES;
    }
    switch (columns - c) {
#if SOUNDER_LANES == 16
    case 3:
        product_strip(out, scalars, lanes, rows, inner, row_floats, 3);
        break;
    case 2:
        product_strip(out, scalars, lanes, rows, inner, row_floats, 2);
        break;
#endif
    case 1:
        product_strip(out, scalars, lanes, rows, inner, row_floats, 1);
        break;
    default:
        break;
    }
}

// Panels store a lanes factor in the order in which its strips are read, one strip (inner, PANEL) after the other, so
// that no two rows of a strip compete for one set of a cache.
enum { PANEL = PRODUCT_COLUMNS * SOUNDER_LANES };

// Floats of a row in whole panels.
static inline size_t in_panels(int floats) {
    return ((size_t)floats + PANEL - 1) / PANEL * PANEL;
}

// product for lanes that are stored in panels.
ALWAYS_INLINE void product_of_panels(ProductOut out, ScalarMatrix scalars, const float *panels, int rows, size_t inner,
                                     int columns) {
    for (; columns > 0; columns -= PRODUCT_COLUMNS, out.at += PANEL, panels += inner * PANEL)
        product(out, scalars, panels, rows, inner, columns < PRODUCT_COLUMNS ? columns : PRODUCT_COLUMNS, PANEL);
}

// Number of tiles that cover a matrix of sums.
static inline size_t outer_tiles(int rows, int columns) {
    return (size_t)((rows + OUTER_ROWS - 1) / OUTER_ROWS) * (size_t)((columns + OUTER_COLUMNS - 1) / OUTER_COLUMNS);
}

// The index of element (r,c) in the sums of outer_product: tiles row by row, each tile row-major.
static inline size_t outer_place(int r, int c, int columns) {
    size_t tile = (size_t)(r / OUTER_ROWS) * (size_t)((columns + OUTER_COLUMNS - 1) / OUTER_COLUMNS) +
                  (size_t)(c / OUTER_COLUMNS);
    return tile * OUTER_TILE + (size_t)(r % OUTER_ROWS * OUTER_COLUMNS + c % OUTER_COLUMNS);
}

// sums(r,c) += the sum over k < inner and over lanes of left[r][k] * right[c][k], for one tile that begins at row r0
// and column c0. Rows and columns beyond the edge repeat the last one; the places of their sums are never read.
ALWAYS_INLINE void outer_tile(float *sums, const Lanes *left, const Lanes *right, int r0, int c0, int rows, int columns,
                              int inner, size_t row_lanes) {
    const Lanes *l[OUTER_ROWS], *r[OUTER_COLUMNS];
    for (int i = 0; i < OUTER_ROWS; i++)
        l[i] = left + (size_t)(r0 + i < rows ? r0 + i : rows - 1) * row_lanes;
    for (int j = 0; j < OUTER_COLUMNS; j++)
        r[j] = right + (size_t)(c0 + j < columns ? c0 + j : columns - 1) * row_lanes;
    Lanes products[OUTER_TILE];
#pragma GCC unroll 16
    for (int t = 0; t < OUTER_TILE; t++)
        products[t] = lanes_of(0);
    for (int k = 0; k < inner; k++)
#pragma GCC unroll 8
        for (int i = 0; i < OUTER_ROWS; i++) {
            Lanes factor = l[i][k];
            IN_REGISTER(factor);
#pragma GCC unroll 8
            for (int j = 0; j < OUTER_COLUMNS; j++)
                products[i * OUTER_COLUMNS + j] += factor * r[j][k];
        }
#pragma GCC unroll 4
    for (int t = 0; t < OUTER_TILE; t += SOUNDER_LANES)
        *(Lanes *)(sums + t) += lanes_sums(products + t);
}

// sums (outer_tiles * OUTER_TILE floats, laid out as outer_place says) += left (rows, inner) * right (columns, inner)
// transposed, summed over the lanes. Unlike product, both factors are Lanes and the lanes are summed at the end: for
// gradients of weights whose samples are the lanes.
ALWAYS_INLINE void outer_product(float *sums, const Lanes *left, const Lanes *right, int rows, int columns, int inner,
                                 size_t row_lanes) {
    for (int r0 = 0; r0 < rows; r0 += OUTER_ROWS)
        for (int c0 = 0; c0 < columns; c0 += OUTER_COLUMNS, sums += OUTER_TILE)
            outer_tile(sums, left, right, r0, c0, rows, columns, inner, row_lanes);
}

// Writes from (rows, vectors), whose rows are from_floats apart, transposed to panels (vectors * SOUNDER_LANES, PANEL).
// The last vector is zero after `rows`.
ALWAYS_INLINE void transpose_to_panels(float *to, const float *from, size_t from_floats, int rows, int vectors) {
    const size_t panel = (size_t)vectors * SOUNDER_LANES * PANEL;
    for (int r = 0; r < rows; r += SOUNDER_LANES)
        for (int v = 0; v < vectors; v++) {
            float *place = to + (size_t)(r / PANEL) * panel + (size_t)v * SOUNDER_LANES * PANEL + (size_t)(r % PANEL);
            Lanes square[SOUNDER_LANES];
#pragma GCC unroll 16
            for (int i = 0; i < SOUNDER_LANES; i++) {
                const float *row = from + (size_t)(r + i) * from_floats + (size_t)v * SOUNDER_LANES;
                square[i] = r + i < rows ? *(const Lanes *)row : lanes_of(0);
            }
            lanes_transpose(square);
#pragma GCC unroll 16
            for (int i = 0; i < SOUNDER_LANES; i++)
                *(Lanes *)(place + i * PANEL) = square[i];
        }
}

// to (columns, rows) = from (rows, columns), square by square, so that both are read and written in whole vectors; rows
// of each are its floats apart.
static inline void transpose(float *to, size_t to_floats, const float *from, size_t from_floats, size_t rows,
                             size_t columns) {
    for (size_t r = 0; r < rows; r += SOUNDER_LANES)
        for (size_t c = 0; c < columns; c += SOUNDER_LANES) {
            const size_t high = rows - r < SOUNDER_LANES ? rows - r : SOUNDER_LANES;
            const size_t wide = columns - c < SOUNDER_LANES ? columns - c : SOUNDER_LANES;
            const bool whole = high == SOUNDER_LANES && wide == SOUNDER_LANES;
            Lanes square[SOUNDER_LANES];
            for (size_t i = 0; i < SOUNDER_LANES; i++) {
                const float *row = from + (r + i) * from_floats + c;
                if (whole)
                    square[i] = *(const LooseLanes *)row;
                else
                    square[i] = i < high ? lanes_part(row, wide) : lanes_of(0);
            }
            lanes_transpose(square);
            for (size_t i = 0; i < wide; i++) {
                float *row = to + (c + i) * to_floats + r;
                if (whole)
                    *(LooseLanes *)row = square[i];
                else
                    lanes_store_part(row, square[i], high);
            }
        }
}

// Floats of a row of `floats`, in whole vectors.
static inline size_t in_vectors(int floats) {
    return ((size_t)floats + SOUNDER_LANES - 1) / SOUNDER_LANES * SOUNDER_LANES;
}

// A weight's gradient: gradient += outs (output channels, vectors) * ins (input channels or taps, vectors) transposed,
// whose rows are row_floats apart. With room for the panels of outs in `transposed`, output channels become the lanes
// and gradient is (inputs, in_vectors(outputs)); that needs many outputs or inputs to pay for the transposition. If it
// is NULL, lanes are summed at the end and gradient is laid out as in outer_place.
ALWAYS_INLINE void weight_product(float *gradient, float *transposed, const float *outs, const float *ins,
                                  size_t row_floats, int outputs, int inputs, int vectors) {
    if (!transposed) {
        outer_product(gradient, (const Lanes *)outs, (const Lanes *)ins, outputs, inputs, vectors,
                      row_floats / SOUNDER_LANES);
        return;
    }
    const size_t row = in_vectors(outputs);
    transpose_to_panels(transposed, outs, row_floats, outputs, vectors);
    product_of_panels((ProductOut){gradient, row, .adds = true}, (ScalarMatrix){ins, row_floats, 1}, transposed, inputs,
                      (size_t)(vectors * SOUNDER_LANES), (int)row / SOUNDER_LANES);
}

#endif
