// Part of ops.h: from bytes of a data set to normalised lanes.
#include "ops.h"

#include <assert.h>
#include <string.h>

enum { CACHE_LINE_BYTES = 64, ROWS_AHEAD = 4 };

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first of four pixels is a word's lowest byte");

// Gathers one channel of one vector of samples: `plane` pixels of each source. It reads four pixels of every sample as
// one vector of words, which makes the transpose cheap: each shift moves the next pixel of all samples to the low byte.
static void gather_plane(Lanes *out, const uint8_t *const source[SOUNDER_LANES], size_t plane, Lanes scale, Lanes shift,
                         size_t vectors) {
    for (size_t p = 0; p < plane; p += 4) {
        size_t bytes = plane - p < 4 ? plane - p : 4;
        uint32_t words[SOUNDER_LANES] = {0};
        for (int s = 0; s < SOUNDER_LANES; s++)
            if (source[s]) {
                if (bytes == 4)
                    memcpy(&words[s], source[s] + p, 4);
                else
                    memcpy(&words[s], source[s] + p, bytes);
            }
        WordLanes four;
        memcpy(&four, words, sizeof four);
        for (size_t i = 0; i < bytes; i++, four >>= 8)
            out[(p + i) * vectors] = __builtin_convertvector((IntLanes)(four & 255), Lanes) * scale + shift;
    }
}

// Lanes without a sample get a scale and a shift of zero, so the loop needs no condition. All channels of a vector of
// samples are gathered in a row, so that each sample's bytes are read once, in order.
void ISA_NAME(gather)(float *out, const uint8_t *pixels, const uint32_t *indices, uint32_t first, const float *scale,
                      const float *shift, Shape shape, int count, int samples) {
    size_t plane = (size_t)shape.rows * (size_t)shape.columns, size = shape_size(shape);
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    for (size_t v = 0; v < vectors; v++) {
        const uint8_t *source[SOUNDER_LANES];
        Lanes real = lanes_of(0); // 1 for samples, 0 beyond the last one
        for (int i = 0; i < SOUNDER_LANES; i++) {
            int s = (int)v * SOUNDER_LANES + i;
            source[i] = NULL;
            if (s >= count) continue;
            source[i] = pixels + (size_t)(indices ? indices[s] : first + (uint32_t)s) * size;
            real[i] = 1;
        }
        for (size_t c = 0; c < (size_t)shape.channels; c++) {
            gather_plane((Lanes *)out + c * plane * vectors + v, source, plane, lanes_of(scale[c]) * real,
                         lanes_of(shift[c]) * real, vectors);
            for (int i = 0; i < SOUNDER_LANES; i++)
                if (source[i]) source[i] += plane;
        }
    }
}

static const uint8_t *row_of(const uint8_t *pixels, const uint32_t *indices, uint32_t first, int s, size_t size) {
    return pixels + (size_t)(indices ? indices[s] : first + (uint32_t)s) * size;
}

// Shuffled samples are scattered over a data set that no cache holds. Prefetched some rows ahead, they arrive from
// memory in parallel.
static void prefetch_row(const uint8_t *row, size_t bytes) {
    for (size_t i = 0; i < bytes; i += CACHE_LINE_BYTES)
        __builtin_prefetch(row + i);
}

// A function of its own for `restrict`: only since the arrays cannot overlap does the compiler make a vector loop.
static void normalise(float *restrict to, const uint8_t *restrict from, size_t count, float scale, float shift) {
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i] * scale + shift;
}

// Linear layers read samples as rows, and a data set stores them so: here nothing is transposed.
void ISA_NAME(gather_rows)(float *rows, const uint8_t *pixels, const uint32_t *indices, uint32_t first,
                           const float *scale, const float *shift, Shape shape, size_t row_floats, int count) {
    size_t plane = (size_t)shape.rows * (size_t)shape.columns, size = shape_size(shape);
    size_t padded = (size + SOUNDER_LANES - 1) / SOUNDER_LANES * SOUNDER_LANES;
    for (int s = 0; s < count && s < ROWS_AHEAD; s++)
        prefetch_row(row_of(pixels, indices, first, s, size), size);
    for (int s = 0; s < count; s++, rows += row_floats) {
        if (s + ROWS_AHEAD < count) prefetch_row(row_of(pixels, indices, first, s + ROWS_AHEAD, size), size);
        const uint8_t *source = row_of(pixels, indices, first, s, size);
        for (size_t c = 0; c < (size_t)shape.channels; c++)
            normalise(rows + c * plane, source + c * plane, plane, scale[c], shift[c]);
        for (size_t i = size; i < padded; i++)
            rows[i] = 0;
    }
}
