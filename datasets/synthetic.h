// A synthetic data set of ten classes for tests, benchmarks and machines without data: no files, no download.
//
// A class has four prototypes, smooth periodic random fields. A sample is a prototype of its class, shifted by up to
// two pixels in each direction and scaled, plus a weaker prototype of another class, plus noise. Because of this
// mixture a linear model makes errors, while a small convolutional net learns the set in a few epochs.
//
// All arithmetic is on integers, and each sample is a pure function of (seed, split, index): the same bytes on every
// machine, for any number of samples, in any order.
#ifndef SOUNDER_DATASETS_SYNTHETIC_H
#define SOUNDER_DATASETS_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/shape.h"
#include "datasets/dataset.h"

enum { SYNTHETIC_CLASSES = 10 };

typedef struct Synthetic {
    Shape shape;
    uint64_t seed;
    int16_t *prototypes; // owned; (class, variant, C, H + 4, W + 4): two pixels of margin for the shifts
} Synthetic;

// Says whether `data` is the word "synthetic", alone or before a ':'.
bool synthetic_is_named(const char *data);

// Reads "synthetic[:CxHxW[:TRAIN[:TEST]]]" (default 1x28x28:60000:10000). Fails with USAGE for any other text.
Status synthetic_parse(Shape *shape, uint32_t counts[DATASET_SPLITS], const char *data, Error *err);

// Draws the prototypes. Nothing to free on failure.
Status synthetic_init(Synthetic *synthetic, Shape shape, uint64_t seed, Error *err);
void synthetic_free(Synthetic *synthetic);

// Writes sample `index` of `split` to pixels (C,H,W) and returns its label.
uint8_t synthetic_sample(uint8_t *pixels, const Synthetic *synthetic, DatasetSplitKind split, uint32_t index);

#endif
