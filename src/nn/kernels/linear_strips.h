// What linear.c and linear_backward.c have in common. The vectors run along the inputs there, not along the samples: no
// lane is wasted however small the batch, and the weight is read where it lies. `rows` (N, row_floats) are the samples,
// one a row, with zeros behind the last input. Inputs beyond the last whole vector, at most SOUNDER_LANES - 1, are the
// tail.
#ifndef SOUNDER_NN_KERNELS_LINEAR_STRIPS_H
#define SOUNDER_NN_KERNELS_LINEAR_STRIPS_H

#include <stdbool.h>

#include "nn/kernels.h"
#include "nn/kernels/lanes.h"

// Floats of all rows' part that the inner loops go through again and again: half of what most cores have as second
// cache. Weights of a layer that has no room in it.
enum { STRIP_FLOATS = 64 * 1024, FAR_WEIGHTS = 1 << 18 };

static inline size_t inputs_of(const Layer *layer) {
    return shape_size(layer->in);
}

static inline size_t whole_of(size_t floats) {
    return floats / SOUNDER_LANES * SOUNDER_LANES;
}

// Inputs worked on together.
static inline size_t strip_of(int count) {
    size_t floats = STRIP_FLOATS / (size_t)count;
    return floats < 2 * SOUNDER_LANES ? 2 * SOUNDER_LANES : whole_of(floats);
}

static inline size_t at_most(size_t count, size_t limit) {
    return count < limit ? count : limit;
}

// Whether a layer's weight comes from the third cache or from memory, further away than a core looks ahead by itself.
static inline bool is_far(size_t outs, size_t ins) {
    return outs * ins > FAR_WEIGHTS;
}

// A line of a far weight sets out for the second cache. A line that is no weight's is no fault.
ALWAYS_INLINE void fetch_far(const float *line) {
    __builtin_prefetch(line, 0, 2);
}

// The part of each row that a strip takes: whole vectors from `from` to `to`, and the tail behind them if `tail`.
typedef struct Strip {
    size_t from, to;
    bool tail;
} Strip;

static inline Strip strip_at(size_t from, size_t ins, int count) {
    size_t to = from + strip_of(count), whole = whole_of(ins);
    return to < ins ? (Strip){from, to, false} : (Strip){from, whole, whole < ins};
}

#endif
