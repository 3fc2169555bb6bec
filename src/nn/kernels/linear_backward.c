// Part of ops.h: the backward pass of fully connected layers: the inputs' gradient, and the weight's, which may become
// a step at once. linear_strips.h describes the arrays.
#include "ops.h"

#include <string.h>

#include "nn/kernels/linear_strips.h"
#include "nn/kernels/sparse.h"

// Rows of the weight that are walked along together. Each row is in other pages; a core caches the addresses of some
// dozens of pages only, and prefetches from no more streams. A multiple of PRODUCT_ROWS.
enum { PAGES = 30 };

// Floats of all samples' rows that one output's list reads before the next output's does: half of the first cache.
enum { LISTED_FLOATS = 8192 };

// The inputs' gradient ------------------------------------------------------------------------------------------------

// Transposes square by square, as linear_rows does in the other direction. Columns from count on become zeros.
void ISA_NAME(linear_columns)(float *in_gradient, const float *rows, const Layer *layer, int count, int samples) {
    const size_t ins = shape_size(layer->in), row_floats = linear_row_floats(layer), used = (size_t)count,
                 n = (size_t)samples;
    for (size_t i = 0; i < ins; i += SOUNDER_LANES)
        for (size_t s = 0; s < n; s += SOUNDER_LANES) {
            Lanes square[SOUNDER_LANES];
            for (size_t k = 0; k < SOUNDER_LANES; k++)
                square[k] = s + k < used ? *(const Lanes *)(rows + (s + k) * row_floats + i) : lanes_of(0);
            lanes_transpose(square);
            for (size_t k = 0; k < at_most(SOUNDER_LANES, ins - i); k++)
                lanes_store_samples(in_gradient + (i + k) * n + s, square[k], n);
        }
}

// Adds the share of `outs` outputs from o on, at most PAGES, to the inputs' gradient: whole vectors of the rows in
// scratch (count, row_floats). The first outputs overwrite scratch, the others add to it.
static void add_input_share(float *scratch, const float *out_gradient, const float *weight, size_t o, size_t outs,
                            const Layer *layer, int count, int samples) {
    const size_t ins = shape_size(layer->in), row_floats = linear_row_floats(layer);
    const size_t columns = ins / SOUNDER_LANES;
    const ScalarMatrix gradients = {out_gradient + o * (size_t)samples, 1, (size_t)samples};
    SparseMatrix sparse;
    if (sparse_of(&sparse, gradients, (size_t)count, outs, ins))
        sparse_product((ProductOut){scratch, row_floats, .adds = o > 0}, &sparse, weight + o * ins, (size_t)count,
                       columns);
    else if (o == 0)
        product((ProductOut){scratch, row_floats, .adds = false}, gradients, weight, count, outs, (int)columns, ins);
    else
        product((ProductOut){scratch, row_floats, .adds = true}, gradients, weight + o * ins, count, outs, (int)columns,
                ins);
}

// The gradient of the tail's inputs, from all outputs at once: their weights are copied to whole vectors first.
static void tail_input_share(float *scratch, const float *out_gradient, const float *weight, const Layer *layer,
                             int count, int samples) {
    const size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in), row_floats = linear_row_floats(layer);
    const size_t whole = whole_of(ins);
    if (whole == ins) return;
    float *tails = scratch + (size_t)count * row_floats; // (OUT, SOUNDER_LANES)
    for (size_t o = 0; o < outs; o++)
        *(Lanes *)(tails + o * SOUNDER_LANES) = lanes_part(weight + o * ins + whole, ins - whole);
    product((ProductOut){scratch + whole, row_floats, .adds = false}, (ScalarMatrix){out_gradient, 1, (size_t)samples},
            tails, count, outs, 1, SOUNDER_LANES);
}

// Group after group of PAGES outputs adds its share to the rows in scratch, which stay in the cache, while the weight
// is read once in the order of memory.
void ISA_NAME(linear_backward_input)(float *in_gradient, float *scratch, const float *out_gradient, const float *weight,
                                     const Layer *layer, int count, int samples) {
    const size_t outs = (size_t)layer->out.channels;
    for (size_t o = 0; o < outs; o += PAGES)
        add_input_share(scratch, out_gradient, weight, o, at_most(outs - o, PAGES), layer, count, samples);
    tail_input_share(scratch, out_gradient, weight, layer, count, samples);
    if (in_gradient) ISA_NAME(linear_columns)(in_gradient, scratch, layer, count, samples);
}

// The weight's gradient -----------------------------------------------------------------------------------------------

// The common data of all tiles of a weight's gradient. gradient and weight: (OUT,IN); weight may be NULL. before: the
// weights before the step, which are copied to `weight` tile by tile; NULL: they are there.
typedef struct WeightStep {
    float *gradient, *weight;
    const float *before;
    ScalarMatrix out_gradient; // (OUT,N)
    const float *rows;         // (N, row_floats)
    size_t ins, row_floats, count;
    const float *next; // the rows of a far weight PAGES rows later, to be prefetched; NULL if they are near
    const SgdUpdate *descent;
} WeightStep;

// Stores a tile's sums (outs,width) as a gradient, or makes the step; `at` is the offset of its first element in each
// array. shift: NULL if there is none. keeps, decays, outs and columns are constants wherever this is inlined.
ALWAYS_INLINE void descend_rows(const WeightStep *step, size_t at, const float *shift, const Lanes *sums, int width,
                                bool keeps, bool decays, int outs, int columns) {
    const SgdUpdate descent = *step->descent; // a copy, since the stores below might alias it
    float *gradient = step->gradient + at, *weight = step->weight ? step->weight + at : NULL;
#pragma GCC unroll 8
    for (int r = 0; r < outs;
         r++, gradient += step->ins, weight += weight ? step->ins : 0, shift += shift ? step->ins : 0)
#pragma GCC unroll 16
        for (int c = 0; c < columns; c++)
            descend(gradient + c * SOUNDER_LANES, weight ? weight + c * SOUNDER_LANES : NULL,
                    shift ? shift + c * SOUNDER_LANES : NULL, sums[r * width + c], &descent, keeps, decays);
}

// Calls descend_rows with constant flags, so that each combination gets a loop without branches.
ALWAYS_INLINE void descend_tile(const WeightStep *step, size_t at, const Lanes *sums, int width, int outs,
                                int columns) {
    const float *shift = step->descent->shift ? step->descent->shift + at : NULL;
    const bool keeps = step->descent->keep != 0, decays = step->descent->weight_decay != 0;
    if (shift && keeps)
        descend_rows(step, at, shift, sums, width, true, true, outs, columns);
    else if (shift)
        descend_rows(step, at, shift, sums, width, false, true, outs, columns);
    else if (keeps && decays)
        descend_rows(step, at, NULL, sums, width, true, true, outs, columns);
    else if (keeps)
        descend_rows(step, at, NULL, sums, width, true, false, outs, columns);
    else if (decays)
        descend_rows(step, at, NULL, sums, width, false, true, outs, columns);
    else
        descend_rows(step, at, NULL, sums, width, false, false, outs, columns);
}

// Prefetches a tile from the second or third cache, before its gradients are computed.
ALWAYS_INLINE void fetch_tile(const float *tile, size_t ins, int outs, int columns) {
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++)
#pragma GCC unroll 16
        for (int c = 0; c < columns; c++)
            __builtin_prefetch(tile + (size_t)r * ins + (size_t)c * SOUNDER_LANES);
}

// Prefetches the tile that is PAGES rows later in a far weight.
ALWAYS_INLINE void fetch_next(const WeightStep *step, size_t at, int outs, int columns) {
    if (!step->next) return;
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++)
#pragma GCC unroll 16
        for (int c = 0; c < columns; c++)
            fetch_far(step->next + at + (size_t)r * step->ins + (size_t)c * SOUNDER_LANES);
}

// Copies a tile of the weights before the step to its place, if they are elsewhere. A step may read its weights from
// the global model and leave them in the worker's own: then no pass copies the model first.
ALWAYS_INLINE void bring_tile(const WeightStep *step, size_t at, int outs, int columns) {
    if (!step->before) return;
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++)
#pragma GCC unroll 16
        for (int c = 0; c < columns; c++) {
            const size_t place = at + (size_t)r * step->ins + (size_t)c * SOUNDER_LANES;
            *(LooseLanes *)(step->weight + place) = *(const LooseLanes *)(step->before + place);
        }
}

// The outputs' gradients from output o on.
static ScalarMatrix out_gradient_from(const WeightStep *step, size_t o) {
    ScalarMatrix from = step->out_gradient;
    from.at += o * from.row_stride;
    return from;
}

// The dense way: `outs` outputs from o on and `columns` vectors of inputs from i on. Only the shift is prefetched:
// weights and velocity alone fit the cache, all three do not.
ALWAYS_INLINE void step_tile(const WeightStep *step, size_t o, size_t i, int outs, int columns) {
    const size_t at = o * step->ins + i;
    Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS];
    if (step->descent->shift) fetch_tile(step->descent->shift + at, step->ins, outs, columns);
    fetch_next(step, at, outs, columns);
    bring_tile(step, at, outs, columns);
    product_sums(sums, out_gradient_from(step, o), step->rows + i, step->count, step->row_floats, outs, columns);
    descend_tile(step, at, sums[0], PRODUCT_COLUMNS, outs, columns);
}

// The dense way for `outs` outputs from o on and one strip.
ALWAYS_INLINE void step_rows(const WeightStep *step, size_t o, Strip strip, int outs) {
    size_t i = strip.from;
    for (; i + PRODUCT_COLUMNS * SOUNDER_LANES <= strip.to; i += PRODUCT_COLUMNS * SOUNDER_LANES)
        step_tile(step, o, i, outs, PRODUCT_COLUMNS);
    for (; i < strip.to; i += SOUNDER_LANES)
        step_tile(step, o, i, outs, 1);
}

// The way by lists, for one output, whose list is row r of `lists`. It prefetches the velocity of the next output,
// which is as far away as the weight is. SPARSE_COLUMNS vectors of one output's gradient are summed in registers, each
// from the rows of the samples whose gradient is not zero.
ALWAYS_INLINE void step_listed(const WeightStep *step, size_t o, size_t i, const SparseMatrix *lists, size_t r,
                               int columns) {
    const SgdUpdate *descent = step->descent;
    const size_t at = o * step->ins + i;
    Lanes sums[SPARSE_COLUMNS];
#pragma GCC unroll 16
    for (int c = 0; c < columns; c++)
        sums[c] = lanes_of(0);
    fetch_next(step, at, 1, columns);
    if (descent->shift) fetch_tile(descent->shift + at, step->ins, 1, columns);
    if (descent->keep != 0) fetch_tile(step->gradient + at + step->ins, step->ins, 1, columns);
    if (step->before) fetch_tile(step->weight + at + step->ins, step->ins, 1, columns);
    bring_tile(step, at, 1, columns);
    sparse_add_sums(sums, lists, r, step->rows + i, columns);
    descend_tile(step, at, sums, columns, 1, columns);
}

// The way by lists for the inputs from i to `end`, except for up to three vectors at the end.
static void step_list(const WeightStep *step, size_t o, size_t i, size_t end, const SparseMatrix *lists, size_t r) {
    for (; i + SPARSE_COLUMNS * SOUNDER_LANES <= end; i += SPARSE_COLUMNS * SOUNDER_LANES)
        step_listed(step, o, i, lists, r, SPARSE_COLUMNS);
    for (; i + 4 * SOUNDER_LANES <= end; i += 4 * SOUNDER_LANES)
        step_listed(step, o, i, lists, r, 4);
}

// Whether a step leaves the weights of an output unchanged if its gradients are zero.
static bool leaves(const WeightStep *step) {
    const SgdUpdate *descent = step->descent;
    return step->weight && !step->before && descent->keep == 0 && !descent->begins && descent->weight_decay == 0 &&
           !descent->shift;
}

// The way by lists for `outs` outputs from o on, part by part of the strip. Returns the rest of the strip: up to three
// vectors, so few that their sums would wait for each other.
static Strip step_lists(const WeightStep *step, const SparseMatrix *lists, size_t o, size_t outs, Strip strip) {
    const size_t tile = SPARSE_COLUMNS * SOUNDER_LANES, tiles = LISTED_FLOATS / step->count / tile,
                 part = (tiles > 0 ? tiles : 1) * tile;
    for (size_t i = strip.from; i < strip.to; i += part)
        for (size_t r = 0; r < outs; r++)
            if (lists->counts[r] > 0 || !leaves(step)) step_list(step, o + r, i, at_most(i + part, strip.to), lists, r);
    strip.from = strip.to - (strip.to - strip.from) % tile % (4 * SOUNDER_LANES);
    return strip;
}

// The inputs from i on, which do not fill a vector. Partial vectors are loaded and stored by a mask, so that nothing
// after the row is touched: it is the next output's row.
ALWAYS_INLINE void step_tail(const WeightStep *step, size_t o, size_t i, int outs) {
    const size_t at = o * step->ins + i;
    const float *shift = step->descent->shift ? step->descent->shift + at : NULL;
    float *gradient = step->gradient + at, *weight = step->weight ? step->weight + at : NULL;
    for (size_t r = 0; step->before && r < (size_t)outs; r++)
        memcpy(weight + r * step->ins, step->before + at + r * step->ins, (step->ins - i) * sizeof *weight);
    Lanes sums[PRODUCT_ROWS][PRODUCT_COLUMNS];
    product_sums(sums, out_gradient_from(step, o), step->rows + i, step->count, step->row_floats, outs, 1);
#pragma GCC unroll 8
    for (int r = 0; r < outs; r++) {
        const size_t row = (size_t)r * step->ins;
        descend_part(gradient + row, weight ? weight + row : NULL, shift ? shift + row : NULL, sums[r][0],
                     step->descent, step->ins - i);
    }
}

static WeightStep weight_step(float *weight_gradient, float *weight, const float *rows, const float *out_gradient,
                              const SgdUpdate *descent, const Layer *layer, int count, int samples) {
    return (WeightStep){.gradient = weight_gradient,
                        .weight = weight,
                        .before = descent->before,
                        .out_gradient = {out_gradient, (size_t)samples, 1},
                        .rows = rows,
                        .ins = shape_size(layer->in),
                        .row_floats = linear_row_floats(layer),
                        .count = (size_t)count,
                        .descent = descent};
}

// Chooses the way for `outs` outputs from o on, at most PAGES, in one strip: by lists if enough gradients are zeros.
static void step_outputs(const WeightStep *step, size_t o, size_t outs, Strip strip) {
    const size_t whole = outs / PRODUCT_ROWS * PRODUCT_ROWS;
    SparseMatrix sparse;
    const bool listed = sparse_of(&sparse, out_gradient_from(step, o), outs, step->count, step->row_floats);
    if (listed) strip = step_lists(step, &sparse, o, outs, strip);
    for (size_t i = 0; i < whole; i += PRODUCT_ROWS) {
        step_rows(step, o + i, strip, PRODUCT_ROWS);
        if (strip.tail) step_tail(step, o + i, strip.to, PRODUCT_ROWS);
    }
    for (size_t i = whole; i < outs; i++) {
        step_rows(step, o + i, strip, 1);
        if (strip.tail) step_tail(step, o + i, strip.to, 1);
    }
}

// A far weight is walked in the order of memory, or in reverse order in every second step, and the rows PAGES further
// are prefetched meanwhile.
void ISA_NAME(linear_backward_weight)(float *weight_gradient, float *weight, const float *rows,
                                      const float *out_gradient, const SgdUpdate *descent, const Layer *layer,
                                      int count, int samples) {
    const size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in), last = (outs - 1) / PAGES * PAGES;
    WeightStep step = weight_step(weight_gradient, weight, rows, out_gradient, descent, layer, count, samples);
    const ptrdiff_t ahead = descent->upwards ? -(ptrdiff_t)(PAGES * ins) : (ptrdiff_t)(PAGES * ins);
    if (weight && is_far(outs, ins)) step.next = (step.before ? step.before : weight) + ahead;
    for (size_t from = 0; from < ins; from += strip_of(count))
        for (size_t i = 0; i < outs; i += PAGES) {
            const size_t o = descent->upwards ? last - i : i;
            step_outputs(&step, o, at_most(outs - o, PAGES), strip_at(from, ins, count));
        }
}

// Both passes read each group of rows while it is in the cache. If the samples' rows fill more than a strip, arithmetic
// takes longer than reading the weight twice, and the passes follow each other.
void ISA_NAME(linear_backward_step)(float *in_gradient, float *scratch, float *velocity, float *weight,
                                    const float *rows, const float *out_gradient, const SgdUpdate *descent,
                                    const Layer *layer, int count, int samples) {
    const size_t outs = (size_t)layer->out.channels, ins = shape_size(layer->in);
    const float *before = descent->before ? descent->before : weight;
    if (strip_of(count) < ins) {
        ISA_NAME(linear_backward_input)(in_gradient, scratch, out_gradient, before, layer, count, samples);
        ISA_NAME(linear_backward_weight)(velocity, weight, rows, out_gradient, descent, layer, count, samples);
        return;
    }
    WeightStep step = weight_step(velocity, weight, rows, out_gradient, descent, layer, count, samples);
    if (is_far(outs, ins)) step.next = before + PAGES * ins;
    tail_input_share(scratch, out_gradient, before, layer, count, samples);
    for (size_t o = 0; o < outs; o += PAGES) {
        add_input_share(scratch, out_gradient, before, o, at_most(outs - o, PAGES), layer, count, samples);
        step_outputs(&step, o, at_most(outs - o, PAGES), strip_at(0, ins, count));
    }
    if (in_gradient) ISA_NAME(linear_columns)(in_gradient, scratch, layer, count, samples);
}

// SOUNDER_LANES sums at a time, so that they share the shuffles across lanes.
void ISA_NAME(linear_backward_bias)(float *bias_gradient, float *bias, const float *out_gradient,
                                    const SgdUpdate *descent, const Layer *layer, int samples) {
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
