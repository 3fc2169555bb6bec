// How a model of a launch on a GPU sees its samples where they are not as the data set has them: marked by an attacker
// (augment.h), moved by a drift, or with noise. Plain data, which the host fills in for each model and kernels read;
// the noise is added by the CPU's workers, too.
#ifndef SOUNDER_NN_SAMPLE_VIEW_H
#define SOUNDER_NN_SAMPLE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"
#include "base/rng.h"
#include "base/shape.h"

// Normal numbers on a part of each image. They are drawn by client and sample, but not by round: a client sees one
// noisy copy of a sample, as if it had been collected with that noise.
typedef struct SampleNoise {
    double deviation; // in units of a pixel's range, or of float samples; 0: no noise
    uint64_t seed;
    uint32_t client;
    int first_row, first_column, rows, columns; // of the part
} SampleNoise;

// All zeros: samples are as the data set has them.
typedef struct SampleView {
    uint32_t marks, last_marks; // marked samples at the beginning of a whole batch, and of a smaller one
    uint32_t trigger, label;    // of marked samples: the side of the white square, in pixels, and their label
    uint32_t moved;             // pixels by which images are moved down and right; pixels that become free are black
    SampleNoise noise;
} SampleView;

// The number of marked samples at the beginning of a batch of `count`, where whole batches have `size` samples.
BOTH uint32_t sample_view_marks(const SampleView *view, uint32_t count, uint32_t size) {
    return count == size ? view->marks : view->last_marks;
}

// The pixel of a channel's plane that moves to `pixel`; -1: a black one.
BOTH int sample_view_source(const SampleView *view, Shape shape, int pixel) {
    const int moved = (int)view->moved, row = pixel / shape.columns, column = pixel - row * shape.columns;
    return row < moved || column < moved ? -1 : pixel - moved * shape.columns - moved;
}

// Whether the white square covers a pixel of a channel's plane.
BOTH bool sample_view_marks_pixel(const SampleView *view, Shape shape, int pixel) {
    const int row = pixel / shape.columns, side = (int)view->trigger;
    return row < side && pixel - row * shape.columns < side;
}

// The key of the noise of sample `index` of the data set.
BOTH RngKey sample_noise_key(const SampleNoise *noise, uint32_t index) {
    return rng_key(noise->seed, RNG_FEATURES, noise->client, index, 0);
}

// The deviation of a channel's noise in units of the net's input. scale: 1/255 of a pixel's range in these units, by
// channel; NULL for float samples.
BOTH double sample_noise_deviation(const SampleNoise *noise, const float *scale, int channel) {
    return noise->deviation * (scale ? 255.0 * (double)scale[channel] : 1);
}

#endif
