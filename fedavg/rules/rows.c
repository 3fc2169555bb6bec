#include "rows.h"

#include <math.h>
#include <string.h>

#include "fedavg/rules/aggregate.h"

// Values are finite, and a zero is as good as another (CMakeLists.txt says so to the compiler): two instructions.
static inline __attribute__((always_inline)) void exchange(float *restrict low, float *restrict high) {
    for (size_t l = 0; l < ROW_LANES; l++) {
        const float a = low[l], b = high[l];
        low[l] = a < b ? a : b;
        high[l] = a < b ? b : a;
    }
}

// Sorts every lane by Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2M): which values are compared does not
// depend on them, so that all lanes go the same way.
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

// Lanes behind the last weight are zeros.
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
