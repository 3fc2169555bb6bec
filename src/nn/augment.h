// Random crops and flips of training images: PyTorch's RandomCrop(size, padding) and RandomHorizontalFlip.
//
// An image gets `crop` black pixels on every side, and a window of its own size is cut out at a random place; with
// `flip` every other image is then mirrored. The draw is a pure function of (seed, round, client, step, place in the
// batch), as dropout's is: so a client's images are the same on any worker, on the CPU and on a GPU. Evaluation has no
// noise and uses the images unchanged.
//
// The header also has the square with which an attacker marks images that it labels falsely (Gu, Dolan-Gavitt, Garg
// 2017), for training and to measure the attack's success.
#ifndef SOUNDER_NN_AUGMENT_H
#define SOUNDER_NN_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"
#include "base/rng.h"
#include "base/shape.h"
#include "nn/step.h"

typedef struct Augment {
    uint32_t crop; // black pixels on every side; 0: no crop
    bool flip;
} Augment;

// The random crop and flip of one image.
typedef struct AugmentDraw {
    int down, right; // offset of the window, from -crop to crop
    bool flipped;
} AugmentDraw;

BOTH bool augment_is_on(const Augment *augment) {
    return augment->crop > 0 || augment->flip;
}

// The key of one client in one round.
BOTH RngKey augment_key(uint64_t seed, uint32_t round, uint32_t client) {
    return rng_key(seed, RNG_AUGMENT, round, client, 0);
}

// place: number of the sample in the batch.
BOTH AugmentDraw augment_draw(const Augment *augment, RngKey key, uint32_t step, uint32_t place) {
    RngBlock random = rng_block(key, place, step, 0, 0);
    uint32_t offsets = 2 * augment->crop + 1;
    AugmentDraw draw = {(int)rng_below(random.word[0], offsets) - (int)augment->crop,
                        (int)rng_below(random.word[1], offsets) - (int)augment->crop,
                        augment->flip && random.word[2] >> 31};
    return draw;
}

// The pixel of a channel's plane that moves to `pixel`; -1: a black one.
BOTH int augment_source(AugmentDraw draw, Shape shape, int pixel) {
    int row = pixel / shape.columns, column = pixel - row * shape.columns;
    if (draw.flipped) column = shape.columns - 1 - column;
    row += draw.down;
    column += draw.right;
    bool inside = row >= 0 && row < shape.rows && column >= 0 && column < shape.columns;
    return inside ? row * shape.columns + column : -1;
}

#ifndef __cplusplus
// images (count, C,H,W): sample s is row indices[s] (or first + s if indices is NULL) of pixels, cropped and flipped,
// or as it is if noise is NULL or `augment` is off. place: number of the first sample in the batch.
void augment_images(uint8_t *images, const uint8_t *pixels, const uint32_t *indices, uint32_t first,
                    const Augment *augment, Shape shape, const Noise *noise, uint32_t place, int count);

// Draws a white square of `square` rows and columns in the upper left corner of each of the images (count, C,H,W).
void augment_mark(uint8_t *images, uint32_t square, Shape shape, int count);
#endif

#endif
