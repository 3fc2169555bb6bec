// Which pixels and sample a thread of gather.cu brings: four neighbouring pixels of one channel of one sample.
#ifndef SOUNDER_NN_GATHER_INDEX_H
#define SOUNDER_NN_GATHER_INDEX_H

#include "base/shape.h"
#include "nn/cuda_index.h"

enum { GATHER_PIXELS = 4 };

typedef struct GatherPlace {
    uint32_t channel, pixel; // the first of the four, within the channel's plane
    uint32_t count;          // 1 to 4: fewer at the plane's end
    uint32_t sample;         // fastest, so that neighbouring threads write side by side
} GatherPlace;

BOTH uint32_t gather_items(Shape shape, int samples) {
    uint32_t plane = (uint32_t)(shape.rows * shape.columns);
    return (uint32_t)shape.channels * parts_of(plane, GATHER_PIXELS) * (uint32_t)samples;
}

BOTH GatherPlace gather_place(uint32_t item, Shape shape, int samples) {
    uint32_t plane = (uint32_t)(shape.rows * shape.columns), groups = parts_of(plane, GATHER_PIXELS);
    uint32_t group = item / (uint32_t)samples, channel = group / groups;
    uint32_t pixel = (group - channel * groups) * GATHER_PIXELS;
    GatherPlace place = {channel, pixel, smaller_of(plane - pixel, GATHER_PIXELS), item - group * (uint32_t)samples};
    return place;
}

#endif
