// The arrays that a struct owns: each is noted as it is allocated, so that one question tells whether any is missing,
// and one call frees them all.
//
//   self->order = own(&self->owned, count, sizeof *self->order);
//   self->sums = own(&self->owned, count, sizeof *self->sums);
//   if (self->owned.lacks_memory) ... owned_free(&self->owned); return fail(err, STATUS_OS, "no memory for ...");
//   owned_free(&self->owned);
#ifndef SOUNDER_BASE_OWNED_H
#define SOUNDER_BASE_OWNED_H

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// All zeros: nothing is owned.
typedef struct Owned {
    void *arrays[16];
    int count;
    bool lacks_memory; // one of the arrays is NULL for lack of memory
} Owned;

// An array (count) of zeros that begins on a cache line; NULL for a count of 0, which is no lack of memory.
static inline void *own(Owned *owned, size_t count, size_t item_bytes) {
    if (count == 0) return NULL;
    assert(owned->count < (int)(sizeof owned->arrays / sizeof *owned->arrays));
    const size_t bytes = (count * item_bytes + 63) / 64 * 64;
    void *array = aligned_alloc(64, bytes);
    owned->arrays[owned->count++] = array;
    owned->lacks_memory |= !array;
    return array ? memset(array, 0, bytes) : NULL;
}

static inline void owned_free(Owned *owned) {
    while (owned->count > 0)
        free(owned->arrays[--owned->count]);
    owned->lacks_memory = false;
}

#endif
