// Hands out one block of memory piece by piece. One walk over the pieces serves twice: with base NULL it measures the
// block, then it places the pieces, so that the two cannot disagree.
//
//   Carver carver = {.base = base, .alignment = 64};
//   float *values = carve(&carver, count * sizeof *values);     // NULL while base is NULL
//   return carver.used;                                         // bytes of all pieces
#ifndef SOUNDER_NN_CARVER_H
#define SOUNDER_NN_CARVER_H

#include <assert.h>
#include <stddef.h>

typedef struct Carver {
    char *base;       // aligned to `alignment`; NULL: only measures
    size_t alignment; // of every piece, in bytes
    size_t used;      // bytes
} Carver;

static inline void *carve(Carver *carver, size_t bytes) {
    assert(carver->alignment > 0);
    void *place = carver->base ? carver->base + carver->used : NULL;
    carver->used += (bytes + carver->alignment - 1) / carver->alignment * carver->alignment;
    return place;
}

#endif
