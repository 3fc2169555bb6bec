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
    VECTORS_A_LINE = LINE_BYTES / sizeof(__m128i),
    WORTH_STREAMING_BYTES = 4096,
    WORTH_TRYING_BYTES = 384 << 10, // a slot of less is still in its reader's second-level cache when it comes round
    TRIAL_BYTES = 8192,             // more than the stores that a core can leave for later
    QUICK_NANOSECONDS = 2000        // for these: 0.2 to 1 us through a shared cache, 4.5 us without one
};

// Whole lines, the first of which is aligned.
static void stream_lines(__m128i *to, const __m128i *from, size_t lines) {
    for (size_t i = 0; i < lines * VECTORS_A_LINE; i++)
        _mm_stream_si128(&to[i], _mm_loadu_si128(&from[i]));
    _mm_sfence(); // streaming stores are ordered with later ones by this alone
}

static void stream(unsigned char *to, const unsigned char *from, size_t bytes) {
    size_t head = -(uintptr_t)to % LINE_BYTES, lines = (bytes - head) / LINE_BYTES, rest = head + lines * LINE_BYTES;
    memcpy(to, from, head);
    stream_lines((__m128i *)(to + head), (const __m128i *)(from + head), lines);
    memcpy(to + rest, from + rest, bytes - rest);
}

// Copies the first TRIAL_BYTES; whether the lines were won back quickly.
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
