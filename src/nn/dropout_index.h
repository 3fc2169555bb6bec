// Which bytes of the mask (features,N) a thread of dropout.cu draws: four features, which share the words of one Philox
// block, of four samples.
#ifndef SOUNDER_NN_DROPOUT_INDEX_H
#define SOUNDER_NN_DROPOUT_INDEX_H

#include "nn/cuda_index.h"

enum { DROPOUT_FEATURES = 4, DROPOUT_SAMPLES = 4 };

typedef struct DropoutPlace {
    uint32_t feature, count; // the first feature; 1 to 4 of them
    uint32_t sample;         // the first of the four
} DropoutPlace;

BOTH uint32_t dropout_items(uint32_t features, uint32_t samples) {
    return parts_of(features, DROPOUT_FEATURES) * (samples / DROPOUT_SAMPLES);
}

BOTH DropoutPlace dropout_place(uint32_t item, uint32_t features, uint32_t samples) {
    uint32_t quads = samples / DROPOUT_SAMPLES, group = item / quads, feature = group * DROPOUT_FEATURES;
    DropoutPlace place = {feature, smaller_of(features - feature, DROPOUT_FEATURES),
                          (item - group * quads) * DROPOUT_SAMPLES};
    return place;
}

#endif
