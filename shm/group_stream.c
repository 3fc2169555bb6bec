#include "shm/group_stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE_BYTES = 64, VECTORS_A_LINE = LINE_BYTES / sizeof(__m128i), WORTH_STREAMING_BYTES = 4096 };

// Whole lines, the first of which is aligned.
static void stream_lines(__m128i *to, const __m128i *from, size_t lines) {
    for (size_t i = 0; i < lines * VECTORS_A_LINE; i++)
        _mm_stream_si128(&to[i], _mm_loadu_si128(&from[i]));
    _mm_sfence(); // streaming stores are ordered with later ones by this alone
}

void group_stream(void *to, const void *from, size_t bytes) {
    if (bytes < WORTH_STREAMING_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    unsigned char *target = to;
    const unsigned char *source = from;
    size_t head = -(uintptr_t)to % LINE_BYTES, lines = (bytes - head) / LINE_BYTES, rest = head + lines * LINE_BYTES;
    memcpy(target, source, head);
    stream_lines((__m128i *)(target + head), (const __m128i *)(source + head), lines);
    memcpy(target + rest, source + rest, bytes - rest);
}

#else

void group_stream(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#endif
