// Part of ops.h: 2-D convolution (cross-correlation, as in PyTorch), stride 1, square kernel, zero padding, bias:
// computed directly. It is the fastest way for few input channels (a net's first layer), and the only one for plain
// kernels that neither winograd.c nor conv_columns.c takes. Lanes are samples.
#include "ops.h"

#include <string.h>

// Register tiles: output channels by neighbouring columns, one vector each.
// A tile's sums stay in registers for the whole kernel: 5 by 4 of the 32 registers of AVX-512, 2 by 4 of the 16 of
// other sets, which leaves enough for the inputs and a tap.
#if SOUNDER_LANES == 16
enum { TILE_CHANNELS = 5, TILE_COLUMNS = 4, TILE_GRADIENT_CHANNELS = 5 };
#else
enum { TILE_CHANNELS = 2, TILE_COLUMNS = 4, TILE_GRADIENT_CHANNELS = 2 };
#endif

// Planes of one vector of samples, zero-padded, in scratch: (channels, rows, columns) Lanes.
typedef struct Planes {
    Lanes *at;
    int channels, rows, columns;
} Planes;

static size_t planes_floats(int channels, int rows, int columns) {
    return (size_t)channels * (size_t)rows * (size_t)columns * SOUNDER_LANES;
}

// The input gradient is a convolution of the output gradient, padded by K - 1 - pad, with the mirrored weight.
static int gradient_pad(const Layer *layer) {
    return layer->kernel - 1 - layer->pad;
}

// Scratch holds the padded input or, later, the padded output gradient, so the larger of both is enough.
ConvSizes ISA_NAME(conv_sizes)(const Layer *layer) {
    Shape in = layer->in, out = layer->out;
    size_t weight = (size_t)out.channels * (size_t)in.channels * (size_t)layer->kernel * (size_t)layer->kernel;
    int pad = 2 * layer->pad, border = 2 * gradient_pad(layer);
    size_t padded_in = planes_floats(in.channels, in.rows + pad, in.columns + pad);
    size_t padded_gradient = planes_floats(out.channels, out.rows + border, out.columns + border);
    return (ConvSizes){
        .packed = 2 * weight, .gradient = weight, .scratch = padded_in > padded_gradient ? padded_in : padded_gradient};
}

// packed: the weight (OC,IC,K,K), then the mirrored weight (IC,OC,K,K) for the input gradient.
void ISA_NAME(conv_pack)(float *packed, const float *weight, const Layer *layer) {
    int outs = layer->out.channels, ins = layer->in.channels, taps = layer->kernel * layer->kernel;
    size_t count = (size_t)outs * (size_t)ins * (size_t)taps;
    memcpy(packed, weight, count * sizeof *packed);
    float *mirrored = packed + count;
    for (int i = 0; i < ins; i++)
        for (int o = 0; o < outs; o++)
            for (int t = 0; t < taps; t++)
                *mirrored++ = weight[(o * ins + i) * taps + taps - 1 - t];
}

void ISA_NAME(conv_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer) {
    memcpy(weight_gradient, packed_gradient, ISA_NAME(conv_sizes)(layer).gradient * sizeof *weight_gradient);
}

// Copies one vector of samples of a tensor (C,H,W,N) into zero-padded planes. vectors: N / SOUNDER_LANES. Padding in a
// copy frees the inner loops from every comparison with an edge, and puts the samples of one vector side by side.
static Planes pad_planes(Lanes *scratch, const Lanes *tensor, Shape shape, int pad, size_t vectors) {
    Planes planes = {scratch, shape.channels, shape.rows + 2 * pad, shape.columns + 2 * pad};
    if (pad > 0) memset(scratch, 0, planes_floats(planes.channels, planes.rows, planes.columns) * sizeof(float));
    for (int c = 0; c < shape.channels; c++)
        for (int y = 0; y < shape.rows; y++) {
            Lanes *to = scratch + ((size_t)(c * planes.rows + y + pad) * (size_t)planes.columns + (size_t)pad);
            for (int x = 0; x < shape.columns; x++, tensor += vectors)
                to[x] = *tensor;
        }
    return planes;
}

// One register tile: `channels` outputs, whose weights are kernel_floats apart, times `columns` neighbours. All int
// parameters but `inputs` are constants wherever this is inlined for the common kernels. Each tap is broadcast once for
// all columns, and each input vector is used by all channels.
ALWAYS_INLINE void forward_tile(Lanes *sums, const Lanes *in, size_t in_plane, size_t in_row, const float *weight,
                                size_t kernel_floats, int inputs, int kernel, int channels, int columns) {
    Lanes tile[TILE_CHANNELS][TILE_COLUMNS];
#pragma GCC unroll 8
    for (int o = 0; o < channels; o++)
#pragma GCC unroll 8
        for (int x = 0; x < columns; x++)
            tile[o][x] = lanes_of(0);
    for (int i = 0; i < inputs; i++)
        for (int ky = 0; ky < kernel; ky++) {
            const Lanes *row = in + (size_t)i * in_plane + (size_t)ky * in_row;
            const float *taps = weight + (i * kernel + ky) * kernel;
#pragma GCC unroll 5
            for (int kx = 0; kx < kernel; kx++)
#pragma GCC unroll 8
                for (int o = 0; o < channels; o++) {
                    Lanes tap = lanes_of(taps[(size_t)o * kernel_floats + (size_t)kx]);
#pragma GCC unroll 8
                    for (int x = 0; x < columns; x++)
                        tile[o][x] += tap * row[kx + x];
                }
        }
#pragma GCC unroll 8
    for (int o = 0; o < channels; o++)
#pragma GCC unroll 8
        for (int x = 0; x < columns; x++)
            sums[o * TILE_COLUMNS + x] = tile[o][x];
}

// A tile of any kernel size, full (TILE_CHANNELS by TILE_COLUMNS) or a single output. Kernels of 3 and 5 taps are
// constants here, so that their loops unroll; others share one slower loop.
static void tile_sums(Lanes *sums, const Planes *in, int y, int x, const float *weight, int kernel, bool full) {
    size_t plane = (size_t)in->rows * (size_t)in->columns, row = (size_t)in->columns;
    size_t kernel_floats = (size_t)in->channels * (size_t)kernel * (size_t)kernel;
    const Lanes *from = in->at + (size_t)y * row + (size_t)x;
    if (!full)
        forward_tile(sums, from, plane, row, weight, kernel_floats, in->channels, kernel, 1, 1);
    else if (kernel == 5)
        forward_tile(sums, from, plane, row, weight, kernel_floats, in->channels, 5, TILE_CHANNELS, TILE_COLUMNS);
    else if (kernel == 3)
        forward_tile(sums, from, plane, row, weight, kernel_floats, in->channels, 3, TILE_CHANNELS, TILE_COLUMNS);
    else
        forward_tile(sums, from, plane, row, weight, kernel_floats, in->channels, kernel, TILE_CHANNELS, TILE_COLUMNS);
}

// Valid convolution of padded planes with weight (out.channels, in->channels, K, K); out (C,H,W,N) has the shape
// `shape`. If the tiles do not divide the output, the last tile of a row or column of tiles moves back and computes
// some outputs twice; outputs smaller than a tile are computed one by one. adds: adds to the values in out, each output
// once.
static void convolve(Lanes *out, Shape shape, const Planes *in, const float *weight, const float *bias, bool rectifies,
                     bool adds, int kernel, size_t vectors) {
    bool full = shape.channels >= TILE_CHANNELS && shape.columns >= TILE_COLUMNS;
    int channels = full ? TILE_CHANNELS : 1, columns = full ? TILE_COLUMNS : 1;
    size_t kernel_floats = (size_t)in->channels * (size_t)kernel * (size_t)kernel;
    for (int o_tile = 0; o_tile < shape.channels; o_tile += channels) {
        int o = o_tile + channels <= shape.channels ? o_tile : shape.channels - channels;
        for (int y = 0; y < shape.rows; y++)
            for (int x_tile = 0; x_tile < shape.columns; x_tile += columns) {
                int x = x_tile + columns <= shape.columns ? x_tile : shape.columns - columns;
                Lanes sums[TILE_CHANNELS * TILE_COLUMNS];
                tile_sums(sums, in, y, x, weight + (size_t)o * kernel_floats, kernel, full);
                for (int i = 0; i < channels; i++)
                    for (int j = 0; j < columns; j++) {
                        Lanes *place = &out[(size_t)(((o + i) * shape.rows + y) * shape.columns + x + j) * vectors];
                        Lanes sum = sums[i * TILE_COLUMNS + j] + (bias ? bias[o + i] : 0.0f);
                        if (adds && (o + i < o_tile || x + j < x_tile)) continue;
                        if (adds) sum += *place;
                        *place = rectifies ? lanes_rectified(sum) : sum;
                    }
            }
    }
}

void ISA_NAME(conv_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                            const Layer *layer, int count, int samples) {
    (void)count; // all lanes are computed
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    for (size_t v = 0; v < vectors; v++) {
        Planes planes = pad_planes((Lanes *)scratch, (const Lanes *)in + v, layer->in, layer->pad, vectors);
        convolve((Lanes *)out + v, layer->out, &planes, packed, bias, layer->rectifies, false, layer->kernel, vectors);
    }
}

// Adds to the gradient of `taps` weights, from kx0 on, of one kernel row: for `channels` output channels (weights
// kernel_floats apart) and one input channel, whose rows begin ky rows below `in`. out_gradient: (OC,OH,OW,N) from the
// first of these channels on. The sums stay in registers for the whole plane.
ALWAYS_INLINE void weight_tile(float *weight_gradient, size_t kernel_floats, const Lanes *in, size_t in_row,
                               const Lanes *out_gradient, Shape out, size_t vectors, int channels, int taps) {
    Lanes sums[TILE_GRADIENT_CHANNELS][5];
#pragma GCC unroll 8
    for (int o = 0; o < channels; o++)
#pragma GCC unroll 5
        for (int k = 0; k < taps; k++)
            sums[o][k] = lanes_of(0);
    size_t plane = (size_t)out.rows * (size_t)out.columns * vectors;
    for (int y = 0; y < out.rows; y++, in += in_row)
        for (int x = 0; x < out.columns; x++, out_gradient += vectors)
#pragma GCC unroll 8
            for (int o = 0; o < channels; o++) {
                Lanes gradient = out_gradient[(size_t)o * plane];
#pragma GCC unroll 5
                for (int k = 0; k < taps; k++)
                    sums[o][k] += gradient * in[x + k];
            }
    for (int o = 0; o < channels; o++)
        for (int k = 0; k < taps; k++)
            weight_gradient[(size_t)o * kernel_floats + (size_t)k] += lanes_sum(sums[o][k]);
}

// The gradient of weights (o .. o + channels, i, ky, all kx).
ALWAYS_INLINE void weight_row(float *weight_gradient, const Planes *in, const Lanes *out_gradient, const Layer *layer,
                              int o, int i, int ky, size_t vectors, int channels) {
    int kernel = layer->kernel;
    size_t kernel_floats = (size_t)in->channels * (size_t)kernel * (size_t)kernel, row = (size_t)in->columns;
    const Lanes *from = in->at + (size_t)(i * in->rows + ky) * row;
    const Lanes *gradient = out_gradient + (size_t)o * (size_t)layer->out.rows * (size_t)layer->out.columns * vectors;
    float *to = weight_gradient + (size_t)o * kernel_floats + (size_t)((i * kernel + ky) * kernel);
    if (kernel == 5)
        weight_tile(to, kernel_floats, from, row, gradient, layer->out, vectors, channels, 5);
    else if (kernel == 3)
        weight_tile(to, kernel_floats, from, row, gradient, layer->out, vectors, channels, 3);
    else
        for (int kx = 0; kx < kernel; kx++)
            weight_tile(to + kx, kernel_floats, from + kx, row, gradient, layer->out, vectors, channels, 1);
}

// The gradients of a few output channels stay in the cache while all input channels are multiplied with them.
static void weight_backward(float *weight_gradient, const Planes *in, const Lanes *gradient, const Layer *layer,
                            size_t vectors) {
    const int outs = layer->out.channels;
    int o = 0;
    for (; o + TILE_GRADIENT_CHANNELS <= outs; o += TILE_GRADIENT_CHANNELS)
        for (int i = 0; i < in->channels; i++)
            for (int ky = 0; ky < layer->kernel; ky++)
                weight_row(weight_gradient, in, gradient, layer, o, i, ky, vectors, TILE_GRADIENT_CHANNELS);
    for (; o < outs; o++)
        for (int i = 0; i < in->channels; i++)
            for (int ky = 0; ky < layer->kernel; ky++)
                weight_row(weight_gradient, in, gradient, layer, o, i, ky, vectors, 1);
}

// Reads vectors at any address, as a tensor of few samples has planes that are no whole vectors; their last part is
// added by a mask.
void ISA_NAME(conv_bias_backward)(float *bias_gradient, const float *out_gradient, Shape out, int samples) {
    if (!bias_gradient) return;
    const size_t floats = (size_t)out.rows * (size_t)out.columns * (size_t)samples, plane = floats / SOUNDER_LANES;
    for (int o = 0; o < out.channels; o++, out_gradient += floats) {
        const LooseLanes *gradient = (const LooseLanes *)out_gradient;
        Lanes sums[4] = {lanes_of(0), lanes_of(0), lanes_of(0), lanes_of(0)}; // four chains hide the adder's latency
        size_t i = 0;
        for (; i + 4 <= plane; i += 4)
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++)
                sums[j] += gradient[i + j];
        for (; i < plane; i++)
            sums[0] += gradient[i];
        if (floats % SOUNDER_LANES > 0)
            sums[1] += lanes_part(out_gradient + plane * SOUNDER_LANES, floats % SOUNDER_LANES);
        bias_gradient[o] += lanes_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
}

// A pass over the finished gradient: only a complete sum can be stopped.
void ISA_NAME(conv_stop_gradient)(float *in_gradient, const float *in, size_t floats) {
    for (size_t i = 0; i < floats; i++)
        in_gradient[i] = in[i] <= 0 ? 0 : in_gradient[i];
}

// The planes of one vector of samples serve for all output channels; then the same scratch takes the padded output
// gradient for the input's gradient.
void ISA_NAME(conv_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, bool adds,
                             float *scratch, const float *in, const float *out_gradient, const float *packed,
                             const Layer *layer, int count, int samples) {
    (void)count;
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    const float *mirrored = packed + ISA_NAME(conv_sizes)(layer).gradient;
    ISA_NAME(conv_bias_backward)(bias_gradient, out_gradient, layer->out, samples);
    for (size_t v = 0; v < vectors; v++) {
        const Lanes *gradient = (const Lanes *)out_gradient + v;
        Planes planes = pad_planes((Lanes *)scratch, (const Lanes *)in + v, layer->in, layer->pad, vectors);
        weight_backward(packed_gradient, &planes, gradient, layer, vectors);
        if (!in_gradient) continue;
        planes = pad_planes((Lanes *)scratch, gradient, layer->out, gradient_pad(layer), vectors);
        convolve((Lanes *)in_gradient + v, layer->in, &planes, mirrored, NULL, false, adds, layer->kernel, vectors);
    }
    if (in_gradient && layer->rectified)
        ISA_NAME(conv_stop_gradient)(in_gradient, in, shape_size(layer->in) * (size_t)samples);
}
