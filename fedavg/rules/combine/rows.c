#include "rows.h"

#include <string.h>

#include "fedavg/rules/sum/aggregate.h"

// Columns -------------------------------------------------------------------------------------------------------------

// Two instructions per pair, because the compiler may assume that values are finite and that the sign of a zero does
// not matter (CMakeLists.txt).
static inline __attribute__((always_inline)) void exchange(float *restrict low, float *restrict high) {
    for (size_t l = 0; l < ROW_LANES; l++) {
        const float a = low[l], b = high[l];
        low[l] = a < b ? a : b;
        high[l] = a < b ? b : a;
    }
}

// Sorts every lane by Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2M). The sequence of comparisons does
// not depend on the values, so all lanes take the same one.
AGGREGATE_VECTORS static void sort_columns(float *columns, uint32_t count) {
    uint32_t top = 1;
    while (top * 2 < count)
        top *= 2;
    for (uint32_t p = count > 1 ? top : 0; p > 0; p /= 2)
        for (uint32_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (uint32_t i = 0; i + d < count; i++)
                if ((i & p) == r) exchange(columns + i * ROW_LANES, columns + (i + d) * ROW_LANES);
            if (q == p) break;
        }
}

AGGREGATE_VECTORS void column_mean(int64_t *total, const float *sorted, const float *from, uint32_t first,
                                   uint32_t end) {
    const double scale = AGGREGATE_UNIT / (end - first);
    for (size_t l = 0; l < ROW_LANES; l++)
        total[l] = 0;
    for (uint32_t row = first; row < end; row++)
        for (size_t l = 0; l < ROW_LANES; l++)
            total[l] += llrint(((double)sorted[row * ROW_LANES + l] - (double)from[l]) * scale);
}

// Lanes after the last weight are zeros.
static void load(float *columns, float *from, const Rows *rows, size_t first, size_t count) {
    for (uint32_t row = 0; row < rows->count; row++) {
        float *lanes = columns + row * ROW_LANES;
        memcpy(lanes, rows->values[row] + first, count * sizeof *lanes);
        memset(lanes + count, 0, (ROW_LANES - count) * sizeof *lanes);
    }
    memset(from, 0, ROW_LANES * sizeof *from);
    if (rows->from[0]) memcpy(from, rows->from[0] + first, count * sizeof *from);
}

void rows_columns(int64_t *total, const Rows *rows, RowColumn column, const double *number, float *workspace,
                  size_t count) {
    for (size_t done = 0; done < count; done += ROW_LANES) {
        const size_t lanes = count - done < ROW_LANES ? count - done : ROW_LANES;
        _Alignas(64) float from[ROW_LANES];
        _Alignas(64) int64_t of_lanes[ROW_LANES];
        load(workspace, from, rows, done, lanes);
        sort_columns(workspace, rows->count);
        column(of_lanes, workspace, from, rows->count, number);
        memcpy(total + done, of_lanes, lanes * sizeof *total);
    }
}

// Products ------------------------------------------------------------------------------------------------------------

enum { LANES = 16 }; // partial sums, regardless of the machine's vector width

AGGREGATE_VECTORS static void widen(double *restrict out, const float *restrict values, const float *restrict from,
                                    size_t count) {
    if (from)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)values[i] - (double)from[i];
    else
        for (size_t i = 0; i < count; i++)
            out[i] = (double)values[i];
}

AGGREGATE_VECTORS static double dot(const double *a, const double *b, size_t count) {
    double lanes[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] += a[i + l] * b[i + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

// Each block is padded with zeros to whole lanes.
void rows_products(double *products, const Rows *rows, const Blas *blas, double *workspace, size_t count) {
    const uint32_t all = rows->count;
    for (size_t done = 0; done < count; done += ROW_PRODUCT_BLOCK) {
        const size_t block = count - done < ROW_PRODUCT_BLOCK ? count - done : ROW_PRODUCT_BLOCK;
        const size_t whole = (block + LANES - 1) / LANES * LANES;
        for (uint32_t row = 0; row < all; row++) {
            double *wide = workspace + (size_t)row * ROW_PRODUCT_BLOCK;
            widen(wide, rows->values[row] + done, rows->from[row] ? rows->from[row] + done : NULL, block);
            memset(wide + block, 0, (whole - block) * sizeof *wide);
        }
        if (blas) blas_add_products(blas, products, workspace, ROW_PRODUCT_BLOCK, all, whole);
        for (uint32_t i = 0; i < all && !blas; i++)
            for (uint32_t j = i; j < all; j++)
                products[(size_t)i * all + j] +=
                    dot(workspace + (size_t)i * ROW_PRODUCT_BLOCK, workspace + (size_t)j * ROW_PRODUCT_BLOCK, whole);
    }
}

// Without OpenBLAS, this many products take tens of milliseconds, about the time it takes to load.
bool rows_want_blas(uint32_t rows, uint64_t parameters) {
    return (double)rows * rows * (double)parameters > 0x1p26;
}

AGGREGATE_VECTORS static void add_part(double *restrict sums, const float *values, const float *from, double part,
                                       size_t count) {
    for (size_t i = 0; i < count; i++)
        sums[i] += part * ((double)values[i] - (double)from[i]);
}

void rows_mix(float *mixed, const Rows *rows, const double *parts, size_t first, size_t count) {
    static const float nothing[ROW_BLOCK];
    double sums[ROW_BLOCK] = {0};
    for (uint32_t row = 0; row < rows->count; row++)
        if (parts[row] != 0)
            add_part(sums, rows->values[row] + first, rows->from[row] ? rows->from[row] + first : nothing, parts[row],
                     count);
    for (size_t i = 0; i < count; i++)
        mixed[i] = (float)sums[i];
}
