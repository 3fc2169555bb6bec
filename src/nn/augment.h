// Random crops and flips of training images: PyTorch's RandomCrop(size, padding) and RandomHorizontalFlip.
//
// An image is framed by `crop` black pixels on every side, and a window of its own size is cut out anywhere; then, with
// `flip`, it is mirrored every other time. The draw is a pure function of (seed, round, client, step, place in the
// batch), as dropout's is: a client's images are the same on any worker, on the CPU and on a GPU. Evaluation sees
// images as they are, for it has no noise.
//
// Besides: the square with which an attacker marks images that it gives another label (Gu, Dolan-Gavitt, Garg 2017), in
// training and to see whether that has worked.
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

// What becomes of one image.
typedef struct AugmentDraw {
    int down, right; // where the window lies, from -crop to crop
    bool flipped;
} AugmentDraw;

BOTH bool augment_is_on(const Augment *augment) {
    return augment->crop > 0 || augment->flip;
}

// The key of one client in one round.
BOTH RngKey augment_key(uint64_t seed, uint32_t round, uint32_t client) {
    return rng_key(seed, RNG_AUGMENT, round, client, 0);
}

// place: of the sample in the batch.
BOTH AugmentDraw augment_draw(const Augment *augment, RngKey key, uint32_t step, uint32_t place) {
    RngBlock random = rng_block(key, place, step, 0, 0);
    uint32_t offsets = 2 * augment->crop + 1;
    AugmentDraw draw = {(int)rng_below(random.word[0], offsets) - (int)augment->crop,
                        (int)rng_below(random.word[1], offsets) - (int)augment->crop,
                        augment->flip && random.word[2] >> 31};
    return draw;
}

// Which pixel of a channel's plane stands at `pixel` afterwards; -1: a black one.
BOTH int augment_source(AugmentDraw draw, Shape shape, int pixel) {
    int row = pixel / shape.columns, column = pixel - row * shape.columns;
    if (draw.flipped) column = shape.columns - 1 - column;
    row += draw.down;
    column += draw.right;
    bool inside = row >= 0 && row < shape.rows && column >= 0 && column < shape.columns;
    return inside ? row * shape.columns + column : -1;
}

#ifndef __cplusplus
// images (count, C,H,W): sample s is what becomes of row indices[s] (or first + s if indices is NULL) of pixels. place:
// of the first sample in the batch, as noise counts.
void augment_images(uint8_t *images, const uint8_t *pixels, const uint32_t *indices, uint32_t first,
                    const Augment *augment, Shape shape, const Noise *noise, uint32_t place, int count);

// images (count, C,H,W): rows indices[s] (or first + s) of pixels as they are.
void augment_copy(uint8_t *images, const uint8_t *pixels, const uint32_t *indices, uint32_t first, Shape shape,
                  int count);

// A white square of so many rows and columns in the upper left corner of each of the images (count, C,H,W).
void augment_mark(uint8_t *images, uint32_t square, Shape shape, int count);
#endif

#endif
