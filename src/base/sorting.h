// Orders of plain numbers for qsort, and a quantile of sorted ones. A NaN has no place in an order: the caller replaces
// it before.
//
//   qsort(losses, count, sizeof *losses, ascending_reals);
//   const double median = sorted_quantile(losses, count, 0.5);
#ifndef SOUNDER_BASE_SORTING_H
#define SOUNDER_BASE_SORTING_H

#include <stddef.h>
#include <stdint.h>

// The elements are doubles.
static inline int ascending_reals(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline int descending_reals(const void *a, const void *b) {
    return ascending_reals(b, a);
}

// The elements are uint32_t.
static inline int ascending_wholes(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static inline int descending_wholes(const void *a, const void *b) {
    return ascending_wholes(b, a);
}

// sorted (count >= 1), ascending; part: from 0 to 1. Linear between two neighbours, as NumPy's default.
static inline double sorted_quantile(const double *sorted, size_t count, double part) {
    const double place = part * (double)(count - 1);
    const size_t below = (size_t)place;
    if (below + 1 == count) return sorted[below];
    return sorted[below] + (sorted[below + 1] - sorted[below]) * (place - (double)below);
}

#endif
