// Part of ops.h: the forward pass of fully connected layers: dot products of the weight's rows and the samples' rows,
// which linear_strips.h describes. linear_backward.c has the backward pass.
#include "ops.h"

#include "nn/kernels/linear_strips.h"

// Rows of the weight in a tile; and the most dot products of a tile. With AVX-512, 4 rows by 5 samples are 20 sums of
// the 32 registers.
enum { DOT_OUTS = 4, DOT_MOST = 20 };

// Transposes square by square, so that both sides are read and written in whole vectors.
void ISA_NAME(linear_rows)(float *rows, const float *in, const Layer *layer, int count, int samples) {
    const size_t ins = shape_size(layer->in), row_floats = linear_row_floats(layer), used = (size_t)count,
                 n = (size_t)samples;
    for (size_t i = 0; i < ins; i += SOUNDER_LANES)
        for (size_t s = 0; s < used; s += SOUNDER_LANES) {
            Lanes square[SOUNDER_LANES];
            for (size_t k = 0; k < SOUNDER_LANES; k++)
                square[k] = i + k < ins ? lanes_of_samples(in + (i + k) * n + s, n) : lanes_of(0);
            lanes_transpose(square);
            for (size_t k = 0; k < at_most(SOUNDER_LANES, used - s); k++)
                *(Lanes *)(rows + (s + k) * row_floats + i) = square[k];
        }
}

// DOT_OUTS rows of the weight. If fewer are left, the last one is repeated. tails: their inputs after the whole
// vectors.
typedef struct WeightRows {
    const float *at[DOT_OUTS];
    Lanes tails[DOT_OUTS];
    size_t count;
} WeightRows;

static WeightRows weight_rows(const float *weight, size_t outs, size_t ins) {
    WeightRows rows; // not initialised, as zeros would take longer than the code below
    rows.count = at_most(outs, DOT_OUTS);
    size_t whole = whole_of(ins);
    for (size_t r = 0; r < DOT_OUTS; r++) {
        rows.at[r] = weight + at_most(r, rows.count - 1) * ins;
        rows.tails[r] = lanes_part(rows.at[r] + whole, ins - whole);
    }
    return rows;
}

// out (real outs, samples) += the sums across the lanes of sums (outs, count). count is at most SOUNDER_LANES. A sum
// across lanes costs shuffles, which many sums share: so the sums of a tile are added up together, SOUNDER_LANES at a
// time.
ALWAYS_INLINE void add_totals(float *out, Lanes *sums, size_t real, size_t samples, int outs, int count) {
    float totals[DOT_MOST + SOUNDER_LANES] __attribute__((aligned(64))) = {0};
    const int all = outs * count;
    int t = 0;
    for (; t + SOUNDER_LANES <= all; t += SOUNDER_LANES)
        *(Lanes *)(totals + t) = lanes_sums(sums + t);
    for (; t < all; t += outs)
        *(LooseLanes *)(totals + t) = lanes_sums_of(sums + t, outs);
    for (size_t r = 0; r < real; r++) {
        float *to = out + r * samples;
        lanes_store_part(to, lanes_part(to, (size_t)count) + lanes_part(totals + r * (size_t)count, (size_t)count),
                         (size_t)count);
    }
}

// out (DOT_OUTS, samples) += the strip's dot products of the next `count` samples' rows with `outs` of the weight's
// rows, from `first` on. It prefetches the weight's rows that are `ahead` floats further, unless that is 0. first, outs
// and count are constants wherever this is inlined. Weights and values are held in registers and every one is used
// several times: a tile of 4 rows and 4 samples loads 8 vectors for 16 products.
ALWAYS_INLINE void dot_tile(float *out, const WeightRows *weight, size_t ahead, const float *rows, size_t row_floats,
                            Strip strip, size_t samples, int first, int outs, int count) {
    const float *const *from = weight->at + first;
    Lanes sums[DOT_MOST];
#pragma GCC unroll 32
    for (int t = 0; t < outs * count; t++)
        sums[t] = lanes_of(0);
    for (size_t i = strip.from; i < strip.to; i += SOUNDER_LANES) {
        Lanes weights[DOT_OUTS];
#pragma GCC unroll 8
        for (int r = 0; r < outs; r++) {
            if (ahead) fetch_far(from[r] + ahead + i);
            weights[r] = *(const LooseLanes *)(from[r] + i);
            IN_REGISTER(weights[r]);
        }
#pragma GCC unroll 8
        for (int s = 0; s < count; s++) {
            Lanes values = *(const Lanes *)(rows + (size_t)s * row_floats + i);
            IN_REGISTER(values);
#pragma GCC unroll 8
            for (int r = 0; r < outs; r++)
                sums[r * count + s] += weights[r] * values;
        }
    }
    if (strip.tail)
#pragma GCC unroll 8
        for (int r = 0; r < outs; r++)
#pragma GCC unroll 8
            for (int s = 0; s < count; s++)
                sums[r * count + s] +=
                    weight->tails[first + r] * *(const Lanes *)(rows + (size_t)s * row_floats + strip.to);
    Lanes all[DOT_MOST];
#pragma GCC unroll 32
    for (int t = 0; t < outs * count; t++)
        all[t] = sums[t];
    const size_t behind = weight->count > (size_t)first ? weight->count - (size_t)first : 0;
    add_totals(out + (size_t)first * samples, all, at_most(behind, (size_t)outs), samples, outs, count);
}

// The sums of a tile fill the registers, except those for one sample and one row of the weight. Ten samples are two
// tiles of five, of which the first prefetches.
#if SOUNDER_LANES == 16
ALWAYS_INLINE void dot_rows(float *out, const WeightRows *weight, size_t ahead, const float *rows, size_t row_floats,
                            Strip strip, int count, size_t samples) {
    const int rest = count % 4, larger = rest <= count / 4 ? rest : 0;
    int s = 0;
    for (; s < 5 * larger; s += 5)
        dot_tile(out + s, weight, ahead, rows + (size_t)s * row_floats, row_floats, strip, samples, 0, DOT_OUTS, 5);
    for (; s + 4 <= count; s += 4)
        dot_tile(out + s, weight, ahead, rows + (size_t)s * row_floats, row_floats, strip, samples, 0, DOT_OUTS, 4);
    rows += (size_t)s * row_floats;
    switch (count - s) {
    case 3:
        dot_tile(out + s, weight, ahead, rows, row_floats, strip, samples, 0, DOT_OUTS, 3);
        break;
    case 2:
        dot_tile(out + s, weight, ahead, rows, row_floats, strip, samples, 0, DOT_OUTS, 2);
        break;
    case 1:
        dot_tile(out + s, weight, ahead, rows, row_floats, strip, samples, 0, DOT_OUTS, 1);
        break;
    default:
        break;
    }
}
#else
ALWAYS_INLINE void dot_rows(float *out, const WeightRows *weight, size_t ahead, const float *rows, size_t row_floats,
                            Strip strip, int count, size_t samples) {
    int s = 0;
#if SOUNDER_LANES == 8
    for (; s + 5 <= count; s += 5)
        dot_tile(out + s, weight, s == 0 ? ahead : 0, rows + (size_t)s * row_floats, row_floats, strip, samples, 0, 2,
                 5);
    for (int again = 0; again < s; again += 5)
        dot_tile(out + again, weight, again == 0 ? ahead : 0, rows + (size_t)again * row_floats, row_floats, strip,
                 samples, 2, 2, 5);
#endif
    for (; s + 2 <= count; s += 2)
        dot_tile(out + s, weight, ahead, rows + (size_t)s * row_floats, row_floats, strip, samples, 0, DOT_OUTS, 2);
    if (s < count)
        dot_tile(out + s, weight, ahead, rows + (size_t)s * row_floats, row_floats, strip, samples, 0, DOT_OUTS, 1);
}
#endif

// Strip by strip, all rows of the weight pass by the same part of the samples' rows, which stay in the cache: so the
// weight, the largest array, is read once. The outputs begin as the bias, and each strip adds its dot products.
void ISA_NAME(linear_forward)(float *out, float *rows, const float *in, const float *weight, const float *bias,
                              const Layer *layer, int count, int samples) {
    size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in), row_floats = linear_row_floats(layer);
    if (in) ISA_NAME(linear_rows)(rows, in, layer, count, samples);
    for (size_t o = 0; o < outs; o++)
        for (int s = 0; s < samples; s += SOUNDER_LANES)
            lanes_store_samples(out + o * (size_t)samples + s, lanes_of(bias ? bias[o] : 0), (size_t)samples);
    for (size_t from = 0; from < ins; from += strip_of(count)) {
        Strip strip = strip_at(from, ins, count);
        for (size_t o = 0; o < outs; o += DOT_OUTS) {
            WeightRows of = weight_rows(weight + o * ins, outs - o, ins);
            float *to = out + o * (size_t)samples;
            if (is_far(outs, ins))
                dot_rows(to, &of, DOT_OUTS * ins, rows, row_floats, strip, count, (size_t)samples);
            else
                dot_rows(to, &of, 0, rows, row_floats, strip, count, (size_t)samples);
        }
    }
}
