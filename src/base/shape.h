// The shape of one sample's tensor. A vector of features is {features, 1, 1}.
#ifndef SOUNDER_BASE_SHAPE_H
#define SOUNDER_BASE_SHAPE_H

#include <stddef.h>

typedef struct Shape {
    int channels, rows, columns;
} Shape;

static inline size_t shape_size(Shape shape) {
    return (size_t)shape.channels * (size_t)shape.rows * (size_t)shape.columns;
}

#endif
