// 2-D convolution of 5x5 and 3x3 kernels with fewer multiplications (Toom and Cook; Winograd; Lavin and Gray, CVPR
// 2016). The contract of each function stands in kernels.h (ConvKernels).
//
// In one dimension: the product of two polynomials of K and M = 7 - K coefficients has degree 5, so it is known by its
// values at six points, and there each value costs one multiplication instead of the K * M of the plain product. The
// points here are 0, +a, -a, +b, -b and infinity (the leading coefficient). With
//   E   values of a polynomial at the points ("evaluate")        E'  its transpose
//   P   coefficients from six values ("interpolate")             P'  its transpose
//   .*  multiplication point by point
// and w the kernel, x six inputs, y the M outputs from them, dw, dx, dy their gradients:
//   y = E' (E w .* P' x)      dx = P (E w .* E dy)      dw = E' (E dy .* P' x)
// Two dimensions apply each transform to the columns and then to the rows: 36 points a tile instead of K * K * M * M
// multiplications, 2.8 times fewer for K = 5 and 4 times fewer for K = 3. At each point, the sums over channels and
// tiles are three matrix products (product.h). Tiles overlap by K - 1 inputs, and dx adds up where they do.
#ifndef SOUNDER_NN_WINOGRAD_H
#define SOUNDER_NN_WINOGRAD_H

#include "nn/kernels.h"
#include "nn/lanes.h"

ConvSizes ISA_NAME(winograd_sizes)(const Layer *layer);
void ISA_NAME(winograd_pack)(float *packed, const float *weight, const Layer *layer);
void ISA_NAME(winograd_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                                const Layer *layer, int count, int samples);
void ISA_NAME(winograd_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, float *scratch,
                                 const float *in, const float *out_gradient, const float *packed, const Layer *layer,
                                 int count, int samples);
void ISA_NAME(winograd_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer);

#endif
