// The arrays that a struct owns: each is noted as it is allocated, so that one question tells whether any is missing,
// and one call frees them all. Each array has a cache line before it, which holds the address of the one allocated
// before: there may be any number of them.
//
//   self->order = own(&self->owned, count, sizeof *self->order);
//   self->sums = own(&self->owned, count, sizeof *self->sums);
//   if (self->owned.lacks_memory) ... owned_free(&self->owned); return fail(err, STATUS_OS, "no memory for ...");
//   owned_free(&self->owned);
#ifndef SOUNDER_BASE_OWNED_H
#define SOUNDER_BASE_OWNED_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// All zeros: nothing is owned.
typedef struct Owned {
    void *last;        // the line before the array that was allocated last
    bool lacks_memory; // one of the arrays is NULL for lack of memory
} Owned;

enum { OWNED_LINE_BYTES = 64 };

// An array (count) of zeros that begins on a cache line; NULL for a count of 0, which is no lack of memory.
static inline void *own(Owned *owned, size_t count, size_t item_bytes) {
    if (count == 0) return NULL;
    assert(item_bytes > 0 && count <= SIZE_MAX / 2 / item_bytes); // options and headers are checked before
    const size_t bytes = (count * item_bytes + 63) / 64 * 64;
    void **line = (void **)aligned_alloc(OWNED_LINE_BYTES, OWNED_LINE_BYTES + bytes);
    owned->lacks_memory |= !line;
    if (!line) return NULL;
    *line = owned->last;
    owned->last = line;
    return memset((char *)line + OWNED_LINE_BYTES, 0, bytes);
}

// Returns the array that was allocated before this one; the last one for NULL; NULL for the first.
static inline void *owned_before(const Owned *owned, const void *array) {
    char *line = array ? *(char *const *)((const char *)array - OWNED_LINE_BYTES) : (char *)owned->last;
    return line ? line + OWNED_LINE_BYTES : NULL;
}

static inline void owned_free(Owned *owned) {
    for (void *line = owned->last, *before; line; line = before) {
        before = *(void **)line;
        free(line);
    }
    owned->last = NULL;
    owned->lacks_memory = false;
}

#endif
