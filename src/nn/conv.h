// 2-D convolution (cross-correlation, as in PyTorch), stride 1, square kernel, zero padding, bias: computed directly.
// Best for few input channels (a net's first layer) and the only way for kernels that winograd.h does not take.
// The contract of each function stands in kernels.h (ConvKernels).
#ifndef SOUNDER_NN_CONV_H
#define SOUNDER_NN_CONV_H

#include "nn/kernels.h"
#include "nn/lanes.h"

ConvSizes ISA_NAME(conv_sizes)(const Layer *layer);
void ISA_NAME(conv_pack)(float *packed, const float *weight, const Layer *layer);
void ISA_NAME(conv_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                            const Layer *layer, int count, int samples);
void ISA_NAME(conv_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, float *scratch,
                             const float *in, const float *out_gradient, const float *packed, const Layer *layer,
                             int count, int samples);
void ISA_NAME(conv_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer);

// bias_gradient (OC) += the sums of out_gradient (out.channels, out.rows, out.columns, N) over all but channels.
void ISA_NAME(conv_bias_backward)(float *bias_gradient, const float *out_gradient, Shape out, int samples);

#endif
