// Part of group_shared.h: copies into shared memory past the cache where that is faster.
#include "shm/group/group_shared.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#include <stdbool.h>

#include "base/clock.h"

enum {
    LINE_BYTES = 64,
    VECTORS_PER_LINE = LINE_BYTES / sizeof(__m128i),
    WORTH_STREAMING_BYTES = 4096,
    WORTH_TRYING_BYTES = 384 << 10, // slots that are reused sooner are still in their reader's second-level cache
    TRIAL_BYTES = 8192,             // more than a core's store buffer can defer
    QUICK_NANOSECONDS = 2000        // for TRIAL_BYTES: 0.2 to 1 us through a shared cache, 4.5 us without one
};

// Copies past the caches: whole lines of `to` by streaming stores, its unaligned head and rest by memcpy.
static void stream(unsigned char *to, const unsigned char *from, size_t bytes) {
    const size_t head = -(uintptr_t)to % LINE_BYTES, lines = (bytes - head) / LINE_BYTES,
                 rest = head + lines * LINE_BYTES;
    __m128i *target = (__m128i *)(to + head);
    const __m128i *source = (const __m128i *)(from + head);
    memcpy(to, from, head);
    for (size_t i = 0; i < lines * VECTORS_PER_LINE; i++)
        _mm_stream_si128(&target[i], _mm_loadu_si128(&source[i]));
    _mm_sfence(); // streaming stores are ordered with later ones only by this
    memcpy(to + rest, from + rest, bytes - rest);
}

// Copies the first TRIAL_BYTES. Returns whether the cache lines were obtained quickly.
static bool try_stores(unsigned char *to, const unsigned char *from) {
    uint64_t start = clock_nanoseconds();
    memcpy(to, from, TRIAL_BYTES);
    return clock_nanoseconds() - start < QUICK_NANOSECONDS;
}

void group_stream(void *to, const void *from, size_t bytes) {
    size_t tried = bytes < WORTH_TRYING_BYTES ? 0 : TRIAL_BYTES;
    bool stores_are_quick = tried > 0 ? try_stores(to, from) : bytes < WORTH_STREAMING_BYTES;
    unsigned char *target = (unsigned char *)to + tried;
    const unsigned char *source = (const unsigned char *)from + tried;
    if (stores_are_quick)
        memcpy(target, source, bytes - tried);
    else
        stream(target, source, bytes - tried);
}

#else

void group_stream(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#endif
