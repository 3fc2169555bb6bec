// Windows that slide over an image, as those of a pooling do: where they lie, and which of them cover a place. For the
// CPU and the GPU alike.
#ifndef SOUNDER_NN_KERNELS_WINDOW_H
#define SOUNDER_NN_KERNELS_WINDOW_H

#include "base/host_device.h"

// Rows and columns.
typedef struct Sides {
    int rows, columns;
} Sides;

// Padding lies on all four sides; it is never more than the size less one, so that each window meets the image.
typedef struct Window {
    Sides size, stride, pad;
} Window;

// Places `from` to `to` - 1.
typedef struct Span {
    int from, to;
} Span;

// How many windows fit into `length` places; 0 or less: none.
BOTH int windows_along(int length, int size, int stride, int pad) {
    int room = length + 2 * pad - size;
    return room < 0 ? 0 : room / stride + 1;
}

// The part of window number `number` that lies within 0 .. length.
BOTH Span window_span(int number, int size, int stride, int pad, int length) {
    int first = number * stride - pad, end = first + size;
    Span span = {first < 0 ? 0 : first, end > length ? length : end};
    return span;
}

// Which of `count` windows cover a place.
BOTH Span windows_over(int place, int size, int stride, int pad, int count) {
    int behind = place + pad - size, last = (place + pad) / stride;
    Span span = {behind < 0 ? 0 : behind / stride + 1, last < count ? last + 1 : count};
    return span;
}

#endif
