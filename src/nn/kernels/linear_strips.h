// The common part of linear.c and linear_backward.c. Their vectors run along the inputs, not along the samples: so no
// lane is wasted however small the batch, and the weight is read in place. `rows` (N, row_floats) holds one row per
// sample, with zeros after the last input. The tail is the inputs after the last whole vector, at most SOUNDER_LANES -
// 1.
#ifndef SOUNDER_NN_KERNELS_LINEAR_STRIPS_H
#define SOUNDER_NN_KERNELS_LINEAR_STRIPS_H

#include <stdbool.h>

#include "nn/kernels.h"
#include "nn/kernels/lanes.h"

// STRIP_FLOATS: floats of all rows that the inner loops read again and again: half of the second cache of most cores.
// FAR_WEIGHTS: number of weights from which on a layer does not fit that cache.
enum { STRIP_FLOATS = 64 * 1024, FAR_WEIGHTS = 1 << 18 };

static inline size_t whole_of(size_t floats) {
    return floats / SOUNDER_LANES * SOUNDER_LANES;
}

// Number of inputs that are worked on together.
static inline size_t strip_of(int count) {
    size_t floats = STRIP_FLOATS / (size_t)count;
    return floats < 2 * SOUNDER_LANES ? 2 * SOUNDER_LANES : whole_of(floats);
}

static inline size_t at_most(size_t count, size_t limit) {
    return count < limit ? count : limit;
}

// Whether a layer's weight is read from the third cache or memory, too far away for a core's own prefetching.
static inline bool is_far(size_t outs, size_t ins) {
    return outs * ins > FAR_WEIGHTS;
}

// Prefetches a line of a far weight into the second cache. A line outside the weight is harmless.
ALWAYS_INLINE void fetch_far(const float *line) {
    __builtin_prefetch(line, 0, 2);
}

// The part of each row in a strip: whole vectors from `from` to `to`, and the tail after them if `tail`.
typedef struct Strip {
    size_t from, to;
    bool tail;
} Strip;

static inline Strip strip_at(size_t from, size_t ins, int count) {
    size_t to = from + strip_of(count), whole = whole_of(ins);
    return to < ins ? (Strip){from, to, false} : (Strip){from, whole, whole < ins};
}

#endif
