// The updates of a cohort side by side, one row per client, for rules that have to see all of them (combine_rule.h).
//
//   rows_products(products, &rows, blas, workspace, count);        // for rules that use distances between updates
//   rows_columns(total, &rows, column, number, workspace, count);  // for rules that combine each weight on its own
//
// A row holds the weights that a client hands in. Where an update is meant, the weights that the client began with are
// subtracted, so that updates are as exact here as in a sum. Rows are in ascending order of clients; every result is a
// function of the rows alone, whichever process wrote them and when.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_ROWS_H
#define SOUNDER_FEDAVG_RULES_COMBINE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "nn/blas.h"

enum {
    ROW_LANES = 64,           // weights side by side
    ROW_BLOCK = 4096,         // weights whose totals stay in the cache; each row is read in runs of this length
    ROW_PRODUCT_BLOCK = 1024, // weights whose updates are multiplied at once
};

typedef struct Rows {
    const float *const *values; // (count) of (parameters) each
    const float *const *from;   // (count) of (parameters) each: subtracted; a NULL element subtracts nothing
    uint32_t count;
} Rows;

// Combines ROW_LANES weights, each on its own: total (ROW_LANES) = the combined update in units of 2^-40.
// sorted (count, ROW_LANES): ascending values; from (ROW_LANES): subtracted from each.
typedef void (*RowColumn)(int64_t *total, const float *sorted, const float *from, uint32_t count, const double *number);

// total (count): of the first `count` weights. All rows have the same `from`. workspace: (rows, ROW_LANES).
void rows_columns(int64_t *total, const Rows *rows, RowColumn column, const double *number, float *workspace,
                  size_t count);

// products (rows, rows), upper half, += the inner products of the updates' first `count` weights, in double, block by
// block: the result does not depend on which process computes it. blas NULL: without OpenBLAS, with other last bits.
// workspace: (rows, ROW_PRODUCT_BLOCK).
void rows_products(double *products, const Rows *rows, const Blas *blas, double *workspace, size_t count);

// Whether these products are large enough to load OpenBLAS for them.
bool rows_want_blas(uint32_t rows, uint64_t parameters);

// mixed (count) = the weighted sum of the updates, with weights parts (rows), for the weights first to first + count -
// 1; count <= ROW_BLOCK.
void rows_mix(float *mixed, const Rows *rows, const double *parts, size_t first, size_t count);

// For the rules: total (ROW_LANES) = the exact mean of the sorted values from index `first` to before `end`.
void column_mean(int64_t *total, const float *sorted, const float *from, uint32_t first, uint32_t end);

#endif
