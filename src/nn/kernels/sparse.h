// Matrix products for scalars of which many are zeros, as the gradients before a relu are for every unit that rests.
// Each row of scalars becomes a list of its nonzero ones, so that a product takes time for these alone. The scalars
// left out would have added zeros: results are those of product.h.
#ifndef SOUNDER_NN_KERNELS_SPARSE_H
#define SOUNDER_NN_KERNELS_SPARSE_H

#include <stdint.h>

#include "nn/kernels/product.h"

// Vectors of a tile, whose sums stay in registers.
enum { SPARSE_COLUMNS = 12 };

// Most rows, and most scalars, of a SparseMatrix.
enum { SPARSE_ROWS = 128, SPARSE_SCALARS = 30 * SPARSE_ROWS };

// A scalar, and the row of lanes that it multiplies.
typedef struct Factor {
    float value;
    uint32_t place; // floats between the first row's begin and this row's
} Factor;

typedef struct SparseMatrix {
    size_t inner; // room of a row's list, in factors
    uint32_t counts[SPARSE_ROWS];
    Factor factors[SPARSE_SCALARS];
} SparseMatrix;

// Makes the lists of scalars (rows, inner), where rows of lanes are row_floats apart. Returns false, and leaves the
// lists meaningless, if they have too many scalars or do not pay: a sum over a list loads a vector for each
// multiplication, product.h loads half a vector. The list is written without a branch: every scalar is stored, but only
// a nonzero one moves the end of the list.
static inline bool sparse_of(SparseMatrix *sparse, ScalarMatrix scalars, size_t rows, size_t inner, size_t row_floats) {
    if (rows > SPARSE_ROWS || rows * inner > SPARSE_SCALARS || inner * row_floats > UINT32_MAX) return false;
    sparse->inner = inner;
    size_t total = 0;
    for (size_t r = 0; r < rows; r++) {
        const float *scalar = scalars.at + r * scalars.row_stride;
        Factor *list = sparse->factors + r * inner;
        uint32_t count = 0;
        for (size_t k = 0; k < inner; k++, scalar += scalars.column_stride) {
            list[count] = (Factor){*scalar, (uint32_t)(k * row_floats)};
            count += *scalar != 0;
        }
        sparse->counts[r] = count;
        total += count;
    }
    return 5 * total < 3 * rows * inner;
}

// sums[c] += the sum over row r's list of scalar * vector c of its row of lanes. columns is a constant wherever this is
// inlined.
ALWAYS_INLINE void sparse_add_sums(Lanes *sums, const SparseMatrix *sparse, size_t r, const float *lanes, int columns) {
    const Factor *factor = sparse->factors + r * sparse->inner, *end = factor + sparse->counts[r];
    for (; factor < end; factor++) {
        const Lanes value = lanes_of(factor->value);
        const LooseLanes *row = (const LooseLanes *)(lanes + factor->place);
        FORGET_ORIGIN(row);
#pragma GCC unroll 16
        for (int c = 0; c < columns; c++)
            sums[c] += value * row[c];
    }
}

ALWAYS_INLINE void sparse_tile(ProductOut out, const SparseMatrix *sparse, size_t r, size_t c, const float *lanes,
                               int columns) {
    Lanes *to = (Lanes *)(out.at + r * out.row_floats + c * SOUNDER_LANES), sums[SPARSE_COLUMNS];
#pragma GCC unroll 16
    for (int k = 0; k < columns; k++)
        sums[k] = out.adds ? to[k] : lanes_of(0);
    sparse_add_sums(sums, sparse, r, lanes + c * SOUNDER_LANES, columns);
#pragma GCC unroll 16
    for (int k = 0; k < columns; k++)
        to[k] = sums[k];
}

// As product: out (rows, columns) = sparse (rows, inner) * lanes (inner, columns).
static inline void sparse_product(ProductOut out, const SparseMatrix *sparse, const float *lanes, size_t rows,
                                  size_t columns) {
    size_t c = 0;
    for (; c + SPARSE_COLUMNS <= columns; c += SPARSE_COLUMNS)
        for (size_t r = 0; r < rows; r++)
            sparse_tile(out, sparse, r, c, lanes, SPARSE_COLUMNS);
    for (; c + 4 <= columns; c += 4)
        for (size_t r = 0; r < rows; r++)
            sparse_tile(out, sparse, r, c, lanes, 4);
    for (; c < columns; c++)
        for (size_t r = 0; r < rows; r++)
            sparse_tile(out, sparse, r, c, lanes, 1);
}

#endif
