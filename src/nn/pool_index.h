// Which window a thread of pool.cu works on, for four samples.
#ifndef SOUNDER_NN_POOL_INDEX_H
#define SOUNDER_NN_POOL_INDEX_H

#include "base/shape.h"
#include "nn/cuda_index.h"

typedef struct PoolPlace {
    uint32_t channel, row, column; // of the window
    uint32_t quad;                 // four samples; fastest, so that neighbouring threads read side by side
} PoolPlace;

BOTH uint32_t pool_items(Shape windows, uint32_t quads) {
    return (uint32_t)windows.channels * (uint32_t)windows.rows * (uint32_t)windows.columns * quads;
}

BOTH PoolPlace pool_place(uint32_t item, Shape windows, uint32_t quads) {
    uint32_t rows = (uint32_t)windows.rows, columns = (uint32_t)windows.columns;
    uint32_t window = item / quads, line = window / columns, channel = line / rows;
    PoolPlace place = {channel, line - channel * rows, window - line * columns, item - window * quads};
    return place;
}

// The windows of the way back: those of the way forward and, at the right and lower edge, those that rows and columns
// left over do not fill. Their part of the image gets zeros.
BOTH Shape pool_all_windows(Shape in, int size) {
    Shape windows = {in.channels, (int)parts_of((uint32_t)in.rows, (uint32_t)size),
                     (int)parts_of((uint32_t)in.columns, (uint32_t)size)};
    return windows;
}

#endif
