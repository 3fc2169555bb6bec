// Part of ops.h: 2-D convolution over maps of few places, as one product over channels and places at once.
//
// On a map of 2 x 2 places a kernel of 3 x 3 with padding meets the input in 4 of its 9 taps for each output, on a map
// of 1 x 1 in its centre alone, where winograd.c would compute a tile of 4 x 4 outputs. A place p of the output and a
// place q of the input meet in one tap, or in none:
//   W(o p, c q) = w(o, c, tap of p and q), or 0
// Tensors (C,H,W,N) are matrices (channel and place, N), so that this is a convolution of one tap from IC * places to
// OC * places channels over a single place, which conv_columns.c computes.
#include "ops.h"

#include <assert.h>
#include <string.h>

#include "nn/kernels/conv_columns.h"

// The places that meet, and the tap of each pair.
typedef struct Meetings {
    Layer point; // the convolution of one tap
    int outs, ins, taps, out_places, in_places;
    int tap[CONV_DENSE_MOST]; // (out_places, in_places): the tap in which they meet; -1: none
} Meetings;

// The tap at which an output of place p reads the input's place q, along one axis; -1: at none.
static int meeting(int p, int q, int size, int stride, int pad, int dilation) {
    const int reach = q - p * stride + pad;
    return reach >= 0 && reach % dilation == 0 && reach / dilation < size ? reach / dilation : -1;
}

static Meetings meetings_of(const Layer *layer) {
    const bool plain = layer_is_plain(layer);
    const Sides one = {1, 1}, side = {layer->kernel, layer->kernel}, padding = {layer->pad, layer->pad};
    const Sides size = plain ? side : layer->window.size, stride = plain ? one : layer->window.stride;
    const Sides pad = plain ? padding : layer->window.pad, dilation = plain ? one : layer->dilation;
    const Shape in = layer->in, out = layer->out;
    Meetings self = {.point = *layer,
                     .outs = out.channels,
                     .ins = in.channels,
                     .taps = size.rows * size.columns,
                     .out_places = out.rows * out.columns,
                     .in_places = in.rows * in.columns};
    self.point.in = (Shape){self.ins * self.in_places, 1, 1};
    self.point.out = (Shape){self.outs * self.out_places, 1, 1};
    self.point.kernel = 1, self.point.pad = 0, self.point.groups = 0;
    self.point.window = (Window){.size = {0, 0}};
    self.point.dilation = (Sides){0, 0};
    assert(self.out_places * self.in_places <= CONV_DENSE_MOST);
    for (int p = 0; p < self.out_places; p++)
        for (int q = 0; q < self.in_places; q++) {
            const int y = meeting(p / out.columns, q / in.columns, size.rows, stride.rows, pad.rows, dilation.rows);
            const int x =
                meeting(p % out.columns, q % in.columns, size.columns, stride.columns, pad.columns, dilation.columns);
            self.tap[p * self.in_places + q] = y < 0 || x < 0 ? -1 : y * size.columns + x;
        }
    return self;
}

// Scratch ends with the bias of each output channel and place.
ConvSizes ISA_NAME(dense_sizes)(const Layer *layer) {
    const Meetings meet = meetings_of(layer);
    ConvSizes sizes = ISA_NAME(columns_sizes)(&meet.point);
    sizes.scratch += (size_t)meet.point.out.channels;
    return sizes;
}

// Input channels whose kernels are packed together: their taps are neighbours, and so are the rows that they go to.
enum { CHANNELS_TOGETHER = 16 };

// places and reads are meet's, as constants where this is inlined for the common maps.
ALWAYS_INLINE void pack_maps(float *packed, const float *weight, const Meetings *meet, int places, int reads) {
    const size_t columns = (size_t)(meet->ins * reads);
    for (int first = 0; first < meet->ins; first += CHANNELS_TOGETHER) {
        const int end = first + CHANNELS_TOGETHER < meet->ins ? first + CHANNELS_TOGETHER : meet->ins;
        for (int o = 0; o < meet->outs; o++)
            for (int c = first; c < end; c++) {
                const float *taps = weight + (size_t)(o * meet->ins + c) * (size_t)meet->taps;
                for (int p = 0; p < places; p++)
                    for (int q = 0; q < reads; q++) {
                        const int tap = meet->tap[p * reads + q];
                        packed[(size_t)(o * places + p) * columns + (size_t)(c * reads + q)] = tap < 0 ? 0 : taps[tap];
                    }
            }
    }
}

// The matrix, and its transpose where columns want that.
void ISA_NAME(dense_pack)(float *packed, const float *weight, const Layer *layer) {
    const Meetings meet = meetings_of(layer);
    const size_t rows = (size_t)meet.point.out.channels, columns = (size_t)meet.point.in.channels;
    if (meet.out_places == 1 && meet.in_places == 1)
        pack_maps(packed, weight, &meet, 1, 1);
    else if (meet.out_places == 4 && meet.in_places == 4)
        pack_maps(packed, weight, &meet, 4, 4);
    else
        pack_maps(packed, weight, &meet, meet.out_places, meet.in_places);
    if (columns_transpose((int)rows)) transpose(packed + rows * columns, rows, packed, columns, rows, columns);
}

// Adds the gradient of each pair to the tap in which it meets; a tap that meets padding alone has none.
ALWAYS_INLINE void unpack_maps(float *weight_gradient, const float *packed_gradient, const Meetings *meet, int places,
                               int reads) {
    const int rows = meet->outs * places, columns = meet->ins * reads;
    for (int first = 0; first < meet->ins; first += CHANNELS_TOGETHER) {
        const int end = first + CHANNELS_TOGETHER < meet->ins ? first + CHANNELS_TOGETHER : meet->ins;
        for (int o = 0; o < meet->outs; o++)
            for (int c = first; c < end; c++) {
                float *taps = weight_gradient + (size_t)(o * meet->ins + c) * (size_t)meet->taps;
                for (int q = 0; q < reads; q++)
                    for (int p = 0; p < places; p++) {
                        const int tap = meet->tap[p * reads + q];
                        const size_t at = columns_gradient_place(o * places + p, c * reads + q, rows, columns);
                        if (tap >= 0) taps[tap] += packed_gradient[at];
                    }
            }
    }
}

void ISA_NAME(dense_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer) {
    const Meetings meet = meetings_of(layer);
    memset(weight_gradient, 0, (size_t)meet.outs * (size_t)meet.ins * (size_t)meet.taps * sizeof *weight_gradient);
    if (meet.out_places == 1 && meet.in_places == 1)
        unpack_maps(weight_gradient, packed_gradient, &meet, 1, 1);
    else if (meet.out_places == 4 && meet.in_places == 4)
        unpack_maps(weight_gradient, packed_gradient, &meet, 4, 4);
    else
        unpack_maps(weight_gradient, packed_gradient, &meet, meet.out_places, meet.in_places);
}

void ISA_NAME(dense_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                             const Layer *layer, int count, int samples) {
    const Meetings meet = meetings_of(layer);
    float *each = scratch + ISA_NAME(columns_sizes)(&meet.point).scratch;
    for (int o = 0; bias && o < meet.outs; o++)
        for (int p = 0; p < meet.out_places; p++)
            each[o * meet.out_places + p] = bias[o];
    ISA_NAME(columns_forward)(out, scratch, in, packed, bias ? each : NULL, &meet.point, count, samples);
}

void ISA_NAME(dense_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, bool adds,
                              float *scratch, const float *in, const float *out_gradient, const float *packed,
                              const Layer *layer, int count, int samples) {
    const Meetings meet = meetings_of(layer);
    ISA_NAME(conv_bias_backward)(bias_gradient, out_gradient, layer->out, samples);
    ISA_NAME(columns_backward)
    (packed_gradient, NULL, in_gradient, adds, scratch, in, out_gradient, packed, &meet.point, count, samples);
}
