// These loops are not built per instruction set: such data sets are small, and their bits should not depend on the CPU.
#include "regression.h"

#include <math.h>
#include <string.h>

// Indices are those of a shuffled order; without them the samples are neighbours from `first` on.
static const uint8_t *row_of(const uint8_t *values, const uint32_t *indices, uint32_t first, int s, size_t size) {
    return values + (size_t)(indices ? indices[s] : first + (uint32_t)s) * size * sizeof(float);
}

// Values are copied with memcpy, because float32 samples may begin at any address of a file. The lanes without a sample
// are zeros.
void values_gather(float *out, const uint8_t *values, const uint32_t *indices, uint32_t first, size_t size, int count,
                   int samples) {
    memset(out, 0, size * (size_t)samples * sizeof *out);
    for (int s = 0; s < count; s++) {
        const uint8_t *row = row_of(values, indices, first, s, size);
        for (size_t i = 0; i < size; i++)
            memcpy(&out[i * (size_t)samples + (size_t)s], row + i * sizeof *out, sizeof *out);
    }
}

// Rows are padded with zeros to the widest vector of all builds: dot products then read whole vectors, whichever build
// runs.
void values_gather_rows(float *rows, const uint8_t *values, const uint32_t *indices, uint32_t first, size_t size,
                        size_t row_floats, int count) {
    enum { WIDEST_VECTOR = 16 };
    size_t padded = (size + WIDEST_VECTOR - 1) / WIDEST_VECTOR * WIDEST_VECTOR;
    for (int s = 0; s < count; s++, rows += row_floats) {
        memcpy(rows, row_of(values, indices, first, s, size), size * sizeof *rows);
        memset(rows + size, 0, (padded - size) * sizeof *rows);
    }
}

// A step follows half the squared distance, whose derivative is the distance itself. A hit is an output that rounds to
// the target, if targets are whole numbers.
double squared_loss(float *gradient, uint32_t *hits, const float *outputs, const float *targets, float scale, int count,
                    int samples) {
    double loss = 0;
    uint32_t near = 0;
    for (int s = 0; s < count; s++) {
        float distance = outputs[s] - targets[s];
        if (gradient) gradient[s] = scale * distance;
        loss += (double)distance * (double)distance;
        near += fabsf(distance) < 0.5f;
    }
    for (int s = count; s < samples && gradient; s++)
        gradient[s] = 0;
    if (hits) *hits = near;
    return loss;
}
