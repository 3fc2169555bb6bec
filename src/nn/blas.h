// OpenBLAS, for the products of wide linear layers over many samples (linear_blas.h says which). net_init opens it for
// a net with such layers; it is never linked, so that all other runs neither need it nor spend time to load it.
//
//   Blas *blas;
//   TRY(blas_open(&blas, kernels_best(), err));
//   blas->multiply(blas, ...);
//   blas_close(blas);
//
// OpenBLAS reads its environment while it is loaded, and not later. blas_open sets for that moment the variables that
// the user has not set:
//   OPENBLAS_CORETYPE    the core of the instruction set that the other ops run on. OpenBLAS takes processors that are
//                        younger than itself for old ones: 0.3.21 takes a Sapphire Rapids for a Prescott (SSE3) and a
//                        Zen 5 for a Haswell (AVX2), and is then 2 to 5 times as slow.
//   OPENBLAS_NUM_THREADS 1: the workers share the cores.
// With SOUNDER_BLAS=off nets compute every product themselves: wide layers are slower, and their bits differ.
//
// The bits of its products depend on its version and on the core, which blas_name returns. They do not depend on the
// process that computes a product, nor on the time.
#ifndef SOUNDER_NN_BLAS_H
#define SOUNDER_NN_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "nn/kernels.h"

enum { BLAS_NAME_BYTES = 96 };

typedef struct Blas Blas;

// Whether SOUNDER_BLAS allows OpenBLAS: "on", the default, or "off". USAGE for any other value.
Status blas_allowed(bool *allowed, Error *err);

// Loads the library for the instruction set of `kernels`. Call it while the process has one thread, as it changes the
// environment for a moment. UNAVAILABLE if there is no OpenBLAS.
Status blas_open(Blas **blas, const Kernels *kernels, Error *err);

// NULL does nothing.
void blas_close(Blas *blas);

// "OpenBLAS 0.3.21 SkylakeX"; with ", 4 threads" if the user asked for more than one. Valid as long as blas.
const char *blas_name(const Blas *blas);

// A factor of a product: a row-major matrix whose rows are `stride` floats apart, or its transpose.
typedef struct BlasMatrix {
    const float *at;
    size_t stride;
    bool transposed;
} BlasMatrix;

// An opened library. Layers multiply through its first member, so that programs can link them without blas.c.
struct Blas {
    // out (rows, columns) = left (rows, inner) * right (inner, columns) + keep * out. With keep 0, out is not read.
    // out's rows are out_stride floats apart.
    void (*multiply)(const Blas *blas, float *out, size_t out_stride, BlasMatrix left, BlasMatrix right, float keep,
                     size_t rows, size_t columns, size_t inner);
};

// Adds the products of the rows of values (rows, inner), which are `stride` doubles apart, to the upper half of out
// (rows, rows).
void blas_add_products(const Blas *blas, double *out, const double *values, size_t stride, size_t rows, size_t inner);

#endif
