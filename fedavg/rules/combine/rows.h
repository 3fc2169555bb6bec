// The updates of a cohort side by side, for rules that have to see them all (combine_rule.h): a row a client.
//
//   rows_products(products, &rows, blas, workspace, count);        // for rules that ask how far updates are apart
//   rows_columns(total, &rows, column, number, workspace, count);  // a rule that looks at each weight on its own
//
// A row is what a client hands in: its weights, from which those that it began with are subtracted wherever an update
// is meant, so that an update is as exact here as in a sum. Rows stand in ascending order of clients; all that is
// computed from them is a function of the rows alone, whoever wrote them and when.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_ROWS_H
#define SOUNDER_FEDAVG_RULES_COMBINE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "nn/blas.h"

enum {
    ROW_LANES = 64,           // weights side by side
    ROW_BLOCK = 4096,         // weights whose totals stay in the cache, and of which each row is read in long runs
    ROW_PRODUCT_BLOCK = 1024, // weights whose updates are multiplied at once
};

typedef struct Rows {
    const float *const *values; // (count) of (parameters) each
    const float *const *from;   // (count) of (parameters) each: what is subtracted; a NULL among them: nothing
    uint32_t count;
} Rows;

// What becomes of ROW_LANES weights, each on its own: total (ROW_LANES) = the combined update in units of 2^-40.
// sorted (count, ROW_LANES): ascending values; from (ROW_LANES): subtracted from each.
typedef void (*RowColumn)(int64_t *total, const float *sorted, const float *from, uint32_t count, const double *number);

// total (count): of the first `count` weights. All rows are of one `from`. workspace: (rows, ROW_LANES).
void rows_columns(int64_t *total, const Rows *rows, RowColumn column, const double *number, float *workspace,
                  size_t count);

// products (rows, rows), the upper half, grows by those of the first `count` weights of the updates, in double, block
// by block: what comes out does not depend on who computes it. blas NULL: without OpenBLAS, to other last bits.
// workspace: (rows, ROW_PRODUCT_BLOCK).
void rows_products(double *products, const Rows *rows, const Blas *blas, double *workspace, size_t count);

// Whether products of so many updates are large enough for OpenBLAS to be loaded.
bool rows_want_blas(uint32_t rows, uint64_t parameters);

// mixed (count) = the sum of each row's part (rows) of its update, of the weights first to first + count - 1; count <=
// ROW_BLOCK.
void rows_mix(float *mixed, const Rows *rows, const double *parts, size_t first, size_t count);

// For the rules: total (ROW_LANES) = the exact mean of the sorted values from `first` to before `end`.
void column_mean(int64_t *total, const float *sorted, const float *from, uint32_t first, uint32_t end);

#endif
