// Windows that slide over an image, as those of a pooling: their places, and which of them cover a place. The CPU and
// the GPU share it.
#ifndef SOUNDER_NN_KERNELS_WINDOW_H
#define SOUNDER_NN_KERNELS_WINDOW_H

#include <stdint.h>

#include "base/host_device.h"

// Rows and columns.
typedef struct Sides {
    int rows, columns;
} Sides;

// Padding is added on all four sides. It is at most the size less one, so that each window meets the image. A stride of
// 0 x 0: the windows are even parts of the image, as many as the output has places (even_span); they have no one size.
typedef struct Window {
    Sides size, stride, pad;
} Window;

// Places `from` to `to` - 1.
typedef struct Span {
    int from, to;
} Span;

// The number of windows that fit into `length` places; 0 or less: none.
BOTH int windows_along(int length, int size, int stride, int pad) {
    int room = length + 2 * pad - size;
    return room < 0 ? 0 : room / stride + 1;
}

// The part of window number `number` that is within 0 .. length.
BOTH Span window_span(int number, int size, int stride, int pad, int length) {
    int first = number * stride - pad, end = first + size;
    Span span = {first < 0 ? 0 : first, end > length ? length : end};
    return span;
}

// Part number `number` of `count` even parts of 0 .. length, where neighbours share a place if count does not divide
// length, as in PyTorch's adaptive pooling. The parts over a place are even_span(place, length, count).
BOTH Span even_span(int number, int count, int length) {
    const int64_t from = (int64_t)number * length, to = from + length;
    Span span = {(int)(from / count), (int)((to + count - 1) / count)};
    return span;
}

// The numbers of the windows, of `count`, that cover a place. The backward pass of a pooling uses it to find the
// windows that read a place.
BOTH Span windows_over(int place, int size, int stride, int pad, int count) {
    int behind = place + pad - size, last = (place + pad) / stride;
    Span span = {behind < 0 ? 0 : behind / stride + 1, last < count ? last + 1 : count};
    return span;
}

#endif
