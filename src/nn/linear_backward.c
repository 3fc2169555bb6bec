// The way back of fully connected layers: the inputs' slopes, and the weight's, which may be a step. linear_strips.h
// describes the arrays.
#include "ops.h"

#include "nn/linear_strips.h"
#include "nn/product.h"

// Rows of the weight that are gone along together: each lies in other pages, whose addresses a core remembers, and from
// which it fetches ahead, for some dozens only. A multiple of PRODUCT_ROWS.
enum { PAGES = 30 };

// The inputs' slopes -------------------------------------------------------------------------------------------------

// Samples from count on become zeros.
static void from_rows(float *out, const float *rows, size_t outs, size_t row_floats, size_t count, size_t samples) {
    for (size_t o = 0; o < outs; o += SOUNDER_LANES)
        for (size_t s = 0; s < samples; s += SOUNDER_LANES) {
            Lanes square[SOUNDER_LANES];
            for (size_t k = 0; k < SOUNDER_LANES; k++)
                square[k] = s + k < count ? *(const Lanes *)(rows + (s + k) * row_floats + o) : lanes_of(0);
            lanes_transpose(square);
            for (size_t k = 0; k < at_most(SOUNDER_LANES, outs - o); k++)
                lanes_store_samples(out + (o + k) * samples + s, square[k], samples);
        }
}

// What the slopes of `outs` outputs from o on, at most PAGES, say to the whole vectors of inputs: rows in scratch
// (count, row_floats), where the first outputs begin and the others add.
static void add_input_share(float *scratch, const float *out_gradient, const float *weight, size_t o, size_t outs,
                            const Layer *layer, int count, int samples) {
    const size_t ins = inputs_of(layer), row_floats = linear_row_floats(layer);
    const int columns = (int)(ins / SOUNDER_LANES);
    const ScalarMatrix slopes = {out_gradient + o * (size_t)samples, 1, (size_t)samples};
    if (o == 0)
        product((ProductOut){scratch, row_floats, false}, slopes, weight, count, outs, columns, ins);
    else
        product((ProductOut){scratch, row_floats, true}, slopes, weight + o * ins, count, outs, columns, ins);
}

// The tail's inputs, from all outputs.
static void tail_input_share(float *scratch, const float *out_gradient, const float *weight, const Layer *layer,
                             int count, int samples) {
    const size_t outs = (size_t)layer->out.channels, ins = inputs_of(layer), row_floats = linear_row_floats(layer);
    const size_t whole = whole_of(ins);
    if (whole == ins) return;
    float *tails = scratch + (size_t)count * row_floats; // (OUT, SOUNDER_LANES)
    for (size_t o = 0; o < outs; o++)
        *(Lanes *)(tails + o * SOUNDER_LANES) = lanes_part(weight + o * ins + whole, ins - whole);
    product((ProductOut){scratch + whole, row_floats, false}, (ScalarMatrix){out_gradient, 1, (size_t)samples}, tails,
            count, outs, 1, SOUNDER_LANES);
}

void ISA_NAME(linear_backward_input)(float *in_gradient, float *scratch, const float *out_gradient, const float *weight,
                                     const Layer *layer, int count, int samples) {
    const size_t outs = (size_t)layer->out.channels;
    for (size_t o = 0; o < outs; o += PAGES)
        add_input_share(scratch, out_gradient, weight, o, at_most(outs - o, PAGES), layer, count, samples);
    tail_input_share(scratch, out_gradient, weight, layer, count, samples);
    from_rows(in_gradient, scratch, inputs_of(layer), linear_row_floats(layer), (size_t)count, (size_t)samples);
}

// The weight's slopes -------------------------------------------------------------------------------------------------

// What all tiles of a weight's gradient have in common. gradient and weight (OUT,IN); weight may be NULL.
typedef struct WeightStep {
    float *gradient, *weight;
    ScalarMatrix slopes; // (OUT,N)
    const float *rows;   // (N, row_floats)
    size_t ins, row_floats, count;
    const Descent *descent;
} WeightStep;

// The tile's first element of each array (OUT,IN). shift: NULL, as is weight, where there is none. keeps, decays, outs
// and columns are constants where this is inlined.
ALWAYS_INLINE void descend_tile(float *gradient, float *weight, const float *shift,
                                Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS], size_t ins, const Descent *descent,
                                bool keeps, bool decays, int outs, int columns) {
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++, gradient += ins, weight += weight ? ins : 0, shift += shift ? ins : 0)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            descend(gradient + c * SOUNDER_LANES, weight ? weight + c * SOUNDER_LANES : NULL,
                    shift ? shift + c * SOUNDER_LANES : NULL, sums[r][c], descent, keeps, decays);
}

// A tile of the shift sets out from the second cache, or the third, before its slopes are computed: weights and
// velocity alone fit where all three do not.
ALWAYS_INLINE void fetch_tile(const float *shift, size_t ins, int outs, int columns) {
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++)
            __builtin_prefetch(shift + (size_t)r * ins + (size_t)c * SOUNDER_LANES);
}

// Outputs from o on and `columns` vectors of inputs from i on.
ALWAYS_INLINE void step_tile(const WeightStep *step, size_t o, size_t i, int outs, int columns) {
    const size_t at = o * step->ins + i;
    const Descent *descent = step->descent;
    float *gradient = step->gradient + at, *weight = step->weight ? step->weight + at : NULL;
    Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS];
    ScalarMatrix slopes = step->slopes;
    slopes.at += o * slopes.row_stride;
    const float *shift = descent->shift ? descent->shift + at : NULL;
    if (shift) fetch_tile(shift, step->ins, outs, columns);
    product_sums(sums, slopes, step->rows + i, step->count, step->row_floats, outs, columns);
    const bool keeps = descent->keep != 0, decays = descent->weight_decay != 0;
    if (shift && keeps)
        descend_tile(gradient, weight, shift, sums, step->ins, descent, true, true, outs, columns);
    else if (shift)
        descend_tile(gradient, weight, shift, sums, step->ins, descent, false, true, outs, columns);
    else if (keeps && decays)
        descend_tile(gradient, weight, NULL, sums, step->ins, descent, true, true, outs, columns);
    else if (keeps)
        descend_tile(gradient, weight, NULL, sums, step->ins, descent, true, false, outs, columns);
    else if (decays)
        descend_tile(gradient, weight, NULL, sums, step->ins, descent, false, true, outs, columns);
    else
        descend_tile(gradient, weight, NULL, sums, step->ins, descent, false, false, outs, columns);
}

// The same for the inputs from i on that do not fill a vector.
ALWAYS_INLINE void step_tail(const WeightStep *step, size_t o, size_t i, int outs) {
    const size_t at = o * step->ins + i;
    const float *shift = step->descent->shift ? step->descent->shift + at : NULL;
    float *gradient = step->gradient + at, *weight = step->weight ? step->weight + at : NULL;
    Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS];
    ScalarMatrix slopes = step->slopes;
    slopes.at += o * slopes.row_stride;
    product_sums(sums, slopes, step->rows + i, step->count, step->row_floats, outs, 1);
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++) {
        const size_t row = (size_t)r * step->ins;
        descend_part(gradient + row, weight ? weight + row : NULL, shift ? shift + row : NULL, sums[r][0],
                     step->descent, step->ins - i);
    }
}

// `outs` rows of the weight from o on, in one strip.
ALWAYS_INLINE void step_rows(const WeightStep *step, size_t o, Strip strip, int outs) {
    size_t i = strip.from;
    for (; i + PRODUCT_COLUMNS * SOUNDER_LANES <= strip.to; i += PRODUCT_COLUMNS * SOUNDER_LANES)
        step_tile(step, o, i, outs, PRODUCT_COLUMNS);
    for (; i < strip.to; i += SOUNDER_LANES)
        step_tile(step, o, i, outs, 1);
    if (strip.tail) step_tail(step, o, i, outs);
}

static WeightStep weight_step(float *weight_gradient, float *weight, const float *rows, const float *out_gradient,
                              const Descent *descent, const Layer *layer, int count, int samples) {
    return (WeightStep){.gradient = weight_gradient,
                        .weight = weight,
                        .slopes = {out_gradient, (size_t)samples, 1},
                        .rows = rows,
                        .ins = inputs_of(layer),
                        .row_floats = linear_row_floats(layer),
                        .count = (size_t)count,
                        .descent = descent};
}

// `outs` outputs from o on, in one strip.
static void step_outputs(const WeightStep *step, size_t o, size_t outs, Strip strip, bool upwards) {
    const size_t whole = outs / PRODUCT_ROWS * PRODUCT_ROWS;
    for (size_t i = 0; i < whole; i += PRODUCT_ROWS)
        step_rows(step, o + (upwards ? whole - PRODUCT_ROWS - i : i), strip, PRODUCT_ROWS);
    for (size_t i = whole; i < outs; i++)
        step_rows(step, o + i, strip, 1);
}

void ISA_NAME(linear_backward_weight)(float *weight_gradient, float *weight, const float *rows,
                                      const float *out_gradient, const Descent *descent, const Layer *layer, int count,
                                      int samples) {
    const size_t ins = inputs_of(layer);
    WeightStep step = weight_step(weight_gradient, weight, rows, out_gradient, descent, layer, count, samples);
    for (size_t from = 0; from < ins; from += strip_of(count))
        step_outputs(&step, 0, (size_t)layer->out.channels, strip_at(from, ins, count), descent->upwards);
}

// Where the samples' rows fill more than a strip, arithmetic takes longer than reading the weight twice.
void ISA_NAME(linear_backward_step)(float *in_gradient, float *scratch, float *velocity, float *weight,
                                    const float *rows, const float *out_gradient, const Descent *descent,
                                    const Layer *layer, int count, int samples) {
    const size_t outs = (size_t)layer->out.channels, ins = inputs_of(layer);
    if (strip_of(count) < ins) {
        ISA_NAME(linear_backward_input)(in_gradient, scratch, out_gradient, weight, layer, count, samples);
        ISA_NAME(linear_backward_weight)(velocity, weight, rows, out_gradient, descent, layer, count, samples);
        return;
    }
    WeightStep step = weight_step(velocity, weight, rows, out_gradient, descent, layer, count, samples);
    tail_input_share(scratch, out_gradient, weight, layer, count, samples);
    for (size_t o = 0; o < outs; o += PAGES) {
        add_input_share(scratch, out_gradient, weight, o, at_most(outs - o, PAGES), layer, count, samples);
        step_outputs(&step, o, at_most(outs - o, PAGES), strip_at(0, ins, count), false);
    }
    from_rows(in_gradient, scratch, ins, linear_row_floats(layer), (size_t)count, (size_t)samples);
}

void ISA_NAME(linear_backward_bias)(float *bias_gradient, float *bias, const float *out_gradient,
                                    const Descent *descent, const Layer *layer, int samples) {
    size_t outs = (size_t)layer->out.channels;
    for (size_t o = 0; o < outs; o += SOUNDER_LANES) {
        const size_t count = at_most(SOUNDER_LANES, outs - o);
        Lanes sums[SOUNDER_LANES];
#pragma GCC unroll 16
        for (size_t k = 0; k < SOUNDER_LANES; k++) {
            sums[k] = lanes_of(0);
            for (int s = 0; k < count && s < samples; s += SOUNDER_LANES)
                sums[k] += lanes_of_samples(out_gradient + (o + k) * (size_t)samples + s, (size_t)samples);
        }
        descend_part(bias_gradient + o, bias ? bias + o : NULL, descent->shift ? descent->shift + o : NULL,
                     lanes_sums(sums), descent, count);
    }
}
