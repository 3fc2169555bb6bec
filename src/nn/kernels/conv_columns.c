// Part of ops.h: 2-D convolution of any stride, padding, dilation and kernel, in groups, through matrices of columns.
// It also computes plain convolutions of a single tap and many channels, and those of few samples, where it leaves no
// lane empty.
//
// A block is a number of neighbouring places of the output. Its matrix has a column for each place and sample, and a
// row for each input channel of the group and tap of the kernel: the input value that the place multiplies with that
// tap. With the weight as (outputs, rows) of a group:
//   out = weight * columns      d columns = weight' * d out      d weight = d out * columns'
// and d in is d columns, added up over the places that read a value. Blocks are small enough for the matrices to stay
// in the cache.
#include "ops.h"

#include <string.h>

#include "nn/kernels/conv_columns.h"

// Target size of a block's row, in floats, and of all rows together. A place's samples always fit.
enum { ROW_MOST = 256, BLOCK_FLOATS = 64 * 1024, PLACE_MOST = 512 };

// One cache line more, so that the rows do not compete for one set of a cache.
enum { ROW_FLOATS = PLACE_MOST + 16 };

// The division of a layer into groups and blocks.
typedef struct Cut {
    Layer layer;
    int ins, outs, taps; // channels of a group; rows of its columns
    int places, block;   // of the output's plane; worked on together
    size_t samples;
} Cut;

// A copy of a layer in which a plain one is described by a window, dilation and groups.
static Layer described(const Layer *layer) {
    Layer full = *layer;
    if (!layer_is_plain(layer)) return full;
    full.window = (Window){{layer->kernel, layer->kernel}, {1, 1}, {layer->pad, layer->pad}};
    full.dilation = (Sides){1, 1};
    full.groups = 1;
    return full;
}

// A block's rows are at most ROW_MOST floats, and all rows together at most BLOCK_FLOATS, so that the matrix stays in
// the cache while it is multiplied; one place is the least.
static Cut cut_of(const Layer *layer, int samples) {
    Cut cut = {.layer = described(layer), .samples = (size_t)samples};
    cut.ins = layer->in.channels / cut.layer.groups;
    cut.outs = layer->out.channels / cut.layer.groups;
    cut.places = layer->out.rows * layer->out.columns;
    cut.taps = cut.ins * cut.layer.window.size.rows * cut.layer.window.size.columns;
    int floats = BLOCK_FLOATS / cut.taps < ROW_MOST ? BLOCK_FLOATS / cut.taps : ROW_MOST;
    cut.block = samples == 0 || floats < samples ? 1 : floats / samples;
    return cut;
}

// Whether output place i reads input place i alone, for all i: the input is then its own matrix of columns.
static bool is_pointwise(const Layer *layer) {
    const Window *window = &layer->window;
    return window->size.rows * window->size.columns == 1 && window->stride.rows * window->stride.columns == 1 &&
           window->pad.rows + window->pad.columns == 0;
}

// The weight's gradient is a product over places and samples. If a group has enough outputs, their gradients are
// transposed, so that output channels are the lanes: gradient (taps, outs). Otherwise lanes are places and samples,
// which are summed at the end of a block: gradient as in outer_place. The weight is then packed once more, transposed.
static bool transposes(const Cut *cut) {
    return columns_transpose(cut->outs);
}

// Floats of a group's packed weight: (outs, taps), followed by (taps, outs) for the backward pass.
static size_t packed_floats(const Cut *cut) {
    return (size_t)(transposes(cut) ? 2 : 1) * (size_t)cut->outs * (size_t)cut->taps;
}

static size_t gradient_floats(const Cut *cut) {
    return transposes(cut) ? (size_t)cut->taps * in_vectors(cut->outs) : OUTER_TILE * outer_tiles(cut->outs, cut->taps);
}

// Scratch holds a block's columns, its output gradients, and these transposed, in rows of ROW_FLOATS each.
ConvSizes ISA_NAME(columns_sizes)(const Layer *layer) {
    const Cut cut = cut_of(layer, 0);
    return (ConvSizes){.packed = (size_t)cut.layer.groups * packed_floats(&cut),
                       .gradient = (size_t)cut.layer.groups * gradient_floats(&cut),
                       .scratch = ((size_t)cut.taps + (size_t)cut.outs + in_panels(cut.outs)) * ROW_FLOATS};
}

// Packing costs one pass over the weight per batch, and both products then read their factor along rows.
void ISA_NAME(columns_pack)(float *packed, const float *weight, const Layer *layer) {
    const Cut cut = cut_of(layer, 0);
    const int floats = cut.outs * cut.taps;
    for (int group = 0; group < cut.layer.groups; group++, packed += packed_floats(&cut), weight += floats) {
        memcpy(packed, weight, (size_t)floats * sizeof *packed);
        if (transposes(&cut))
            transpose(packed + floats, (size_t)cut.outs, weight, (size_t)cut.taps, (size_t)cut.outs, (size_t)cut.taps);
    }
}

void ISA_NAME(columns_unpack)(float *weight_gradient, const float *packed_gradient, const Layer *layer) {
    const Cut cut = cut_of(layer, 0);
    const size_t outs = (size_t)cut.outs, taps = (size_t)cut.taps;
    for (int group = 0; group < cut.layer.groups;
         group++, packed_gradient += gradient_floats(&cut), weight_gradient += outs * taps)
        if (transposes(&cut))
            transpose(weight_gradient, taps, packed_gradient, in_vectors(cut.outs), taps, outs);
        else
            for (int o = 0; o < cut.outs; o++)
                for (int tap = 0; tap < cut.taps; tap++)
                    weight_gradient[o * cut.taps + tap] = packed_gradient[outer_place(o, tap, cut.taps)];
}

// The input values that a tap reads for neighbouring places of one row of the output: places `from` to `to` - 1 read
// the input's columns x, x + step, ...; `any` is false if there are no such places.
typedef struct Sight {
    int from, to, x, step;
    size_t row; // of the input's plane
    bool any;
} Sight;

// The sight of the places first .. end of row y of the output, through tap (ky,kx). The divisions round up: `from` is
// the first place whose input column is not negative, and `to` the first whose column is beyond the image.
static Sight sight_of(const Layer *layer, int y, int first, int end, int ky, int kx) {
    const Window *window = &layer->window;
    const int row = y * window->stride.rows - window->pad.rows + ky * layer->dilation.rows;
    const int step = window->stride.columns, shift = kx * layer->dilation.columns - window->pad.columns;
    int from = shift < 0 ? (-shift + step - 1) / step : 0;
    int to = layer->in.columns <= shift ? 0 : (layer->in.columns - shift + step - 1) / step;
    if (from < first) from = first;
    if (to > end) to = end;
    const bool any = row >= 0 && row < layer->in.rows && from < to;
    return (Sight){from, to, from * step + shift, step, (size_t)row, any};
}

// Neighbouring places of the output's plane.
typedef struct Block {
    int first, count; // places
} Block;

// The work on the part of row `tap` of the block's matrix that belongs to one row of the output.
typedef void RowWork(float *columns, float *plane, const Cut *cut, Sight sight, int first, int end);

// Copies the samples of `count` places that are `step` places apart. IN_REGISTER keeps GCC from calling memcpy for each
// of them.
ALWAYS_INLINE void copy_places(float *to, const float *from, int count, int step, size_t samples) {
    for (int x = 0; x < count; x++, to += samples, from += (size_t)step * samples)
        for (size_t i = 0; i < samples; i += SOUNDER_LANES) {
            Lanes value = lanes_of_samples(from + i, samples);
            IN_REGISTER(value);
            lanes_store_samples(to + i, value, samples);
        }
}

ALWAYS_INLINE void clear_places(float *to, int count, size_t samples) {
    if (count > 0) memset(to, 0, (size_t)count * samples * sizeof *to);
}

// Copies the input's values to a row of columns, with zeros for places that read the padding. Neighbouring places read
// neighbouring inputs if the stride is 1: then a row is one copy.
ALWAYS_INLINE void gather_row(float *columns, float *plane, const Cut *cut, Sight sight, int first, int end) {
    const size_t n = cut->samples;
    if (!sight.any) sight.from = sight.to = end;
    clear_places(columns, sight.from - first, n);
    columns += (size_t)(sight.from - first) * n;
    const float *from = plane + (sight.row * (size_t)cut->layer.in.columns + (size_t)sight.x) * n;
    if (sight.step == 1)
        memcpy(columns, from, (size_t)(sight.to - sight.from) * n * sizeof *columns);
    else
        copy_places(columns, from, sight.to - sight.from, sight.step, n);
    clear_places(columns + (size_t)(sight.to - sight.from) * n, end - sight.to, n);
}

// Adds a row of columns to the input's gradient. Places whose tap is outside the image have no gradient to give.
ALWAYS_INLINE void scatter_row(float *columns, float *plane, const Cut *cut, Sight sight, int first, int end) {
    const size_t n = cut->samples;
    (void)end;
    if (!sight.any) return;
    float *to = plane + (sight.row * (size_t)cut->layer.in.columns + (size_t)sight.x) * n;
    const float *from = columns + (size_t)(sight.from - first) * n;
    for (int x = sight.from; x < sight.to; x++, from += n, to += (size_t)sight.step * n)
        for (size_t i = 0; i < n; i += SOUNDER_LANES)
            lanes_store_samples(to + i, lanes_of_samples(to + i, n) + lanes_of_samples(from + i, n), n);
}

// Calls work for every row of the block's matrix. tensor: the group's first input channel, (ins,H,W,N). The sight is
// the same for all channels, so it is computed once per tap.
ALWAYS_INLINE void each_row(RowWork *work, float *columns, float *tensor, const Cut *cut, Block block) {
    const Layer *layer = &cut->layer;
    const Sides size = layer->window.size;
    const int width = layer->out.columns, last = block.first + block.count;
    const size_t plane = (size_t)layer->in.rows * (size_t)layer->in.columns * cut->samples;
    const size_t channel = (size_t)(size.rows * size.columns) * ROW_FLOATS;
    for (int place = block.first, end; place < last; place = end) {
        const int y = place / width, x = place - y * width;
        end = (y + 1) * width < last ? (y + 1) * width : last;
        float *rows = columns + (size_t)(place - block.first) * cut->samples;
        for (int ky = 0; ky < size.rows; ky++)
            for (int kx = 0; kx < size.columns; kx++, rows += ROW_FLOATS) {
                const Sight sight = sight_of(layer, y, x, x + end - place, ky, kx);
                for (size_t i = 0; i < (size_t)cut->ins; i++)
                    work(rows + i * channel, tensor + i * plane, cut, sight, x, x + end - place);
            }
    }
}

static Block block_at(const Cut *cut, int first) {
    const int left = cut->places - first;
    return (Block){first, left < cut->block ? left : cut->block};
}

static size_t floats_of(const Cut *cut, Block block) {
    return (size_t)block.count * cut->samples;
}

// With few samples the last vector may not be full: the floats after each row of columns and gradients are zeros.
static int vectors_of(const Cut *cut, Block block) {
    return (int)((floats_of(cut, block) + SOUNDER_LANES - 1) / SOUNDER_LANES);
}

// Without this the lanes after the last place would add what they hold to the products.
static void zero_rest(float *rows, size_t count, size_t floats) {
    if (floats % SOUNDER_LANES == 0) return;
    for (size_t r = 0; r < count; r++, rows += ROW_FLOATS)
        memset(rows + floats, 0, (SOUNDER_LANES - floats % SOUNDER_LANES) * sizeof *rows);
}

// Floats between the first channels of two groups.
static size_t group_floats(int channels, Shape shape, const Cut *cut) {
    return (size_t)channels * (size_t)shape.rows * (size_t)shape.columns * cut->samples;
}

// Whether a block's part of a tensor consists of whole vectors, so that it can be written in place.
static bool fills_vectors(const Cut *cut) {
    return cut->samples % SOUNDER_LANES == 0;
}

// Whether the columns' gradient is the input's gradient, and can be written in its place.
static bool needs_no_scattering(const Cut *cut) {
    return is_pointwise(&cut->layer) && fills_vectors(cut);
}

static void copy_rows(float *to, size_t to_floats, const float *from, size_t from_floats, int rows, size_t floats) {
    for (int r = 0; r < rows; r++)
        memcpy(to + (size_t)r * to_floats, from + (size_t)r * from_floats, floats * sizeof *to);
}

// The input is only read, but each_row serves for writing, too, hence the casts.
void ISA_NAME(columns_forward)(float *out, float *scratch, const float *in, const float *packed, const float *bias,
                               const Layer *layer, int count, int samples) {
    (void)count; // all lanes are computed
    const Cut cut = cut_of(layer, samples);
    const size_t row = (size_t)cut.places * cut.samples, ins = group_floats(cut.ins, layer->in, &cut);
    for (int group = 0; group < cut.layer.groups; group++) {
        const ScalarMatrix weight = {packed + (size_t)group * packed_floats(&cut), (size_t)cut.taps, 1};
        float *to = out + (size_t)group * group_floats(cut.outs, layer->out, &cut);
        for (int first = 0; first < cut.places; first += cut.block) {
            const Block block = block_at(&cut, first);
            const int vectors = vectors_of(&cut, block);
            float *place = to + (size_t)first * cut.samples, *sums = scratch + (size_t)cut.taps * ROW_FLOATS;
            ProductOut at = {sums, ROW_FLOATS, .bias = bias ? bias + group * cut.outs : NULL,
                             .rectifies = layer->rectifies};
            if (fills_vectors(&cut)) at.at = place, at.row_floats = row;
            each_row(gather_row, scratch, (float *)in + (size_t)group * ins, &cut, block);
            zero_rest(scratch, (size_t)cut.taps, floats_of(&cut, block));
            product(at, weight, scratch, cut.outs, (size_t)cut.taps, vectors, ROW_FLOATS);
            if (at.at == sums) copy_rows(place, row, sums, ROW_FLOATS, cut.outs, floats_of(&cut, block));
        }
    }
}

// The backward pass of one group and block. gradients: the block's part of out_gradient, in rows of ROW_FLOATS. The
// columns are gathered again instead of kept from the forward pass: they are several times as large as the input.
static void backward_block(float *packed_gradient, float *in_gradient, bool adds, float *columns, float *gradients,
                           const float *in, const float *out_gradient, const float *packed, const Cut *cut,
                           Block block) {
    const size_t row = (size_t)cut->places * cut->samples;
    const int vectors = vectors_of(cut, block);
    copy_rows(gradients, ROW_FLOATS, out_gradient + (size_t)block.first * cut->samples, row, cut->outs,
              floats_of(cut, block));
    zero_rest(gradients, (size_t)cut->outs, floats_of(cut, block));
    each_row(gather_row, columns, (float *)in, cut, block);
    zero_rest(columns, (size_t)cut->taps, floats_of(cut, block));
    float *transposed = transposes(cut) ? gradients + (size_t)cut->outs * ROW_FLOATS : NULL; // there is room
    weight_product(packed_gradient, transposed, gradients, columns, ROW_FLOATS, cut->outs, cut->taps, vectors);
    if (!in_gradient) return;
    ProductOut to = {columns, ROW_FLOATS, .adds = false};
    if (needs_no_scattering(cut))
        to = (ProductOut){in_gradient + (size_t)block.first * cut->samples, row, .adds = adds};
    const ScalarMatrix transposed_weight = transposes(cut)
                                               ? (ScalarMatrix){packed + cut->outs * cut->taps, (size_t)cut->outs, 1}
                                               : (ScalarMatrix){packed, 1, (size_t)cut->taps};
    product(to, transposed_weight, gradients, cut->taps, (size_t)cut->outs, vectors, ROW_FLOATS);
    if (!needs_no_scattering(cut)) each_row(scatter_row, columns, in_gradient, cut, block);
}

// Where columns are scattered, they are added to the input's gradient, which therefore starts from zeros unless others
// have written there.
void ISA_NAME(columns_backward)(float *packed_gradient, float *bias_gradient, float *in_gradient, bool adds,
                                float *scratch, const float *in, const float *out_gradient, const float *packed,
                                const Layer *layer, int count, int samples) {
    (void)count; // gradients are zero and inputs finite from it on
    const Cut cut = cut_of(layer, samples);
    const size_t ins = group_floats(cut.ins, layer->in, &cut), outs = group_floats(cut.outs, layer->out, &cut);
    const size_t floats = shape_size(layer->in) * cut.samples;
    float *gradients = scratch + (size_t)cut.taps * ROW_FLOATS;
    ISA_NAME(conv_bias_backward)(bias_gradient, out_gradient, layer->out, samples);
    if (in_gradient && !adds && !needs_no_scattering(&cut)) memset(in_gradient, 0, floats * sizeof *in_gradient);
    for (size_t group = 0; group < (size_t)cut.layer.groups; group++)
        for (int first = 0; first < cut.places; first += cut.block)
            backward_block(packed_gradient + group * gradient_floats(&cut),
                           in_gradient ? in_gradient + group * ins : NULL, adds, scratch, gradients, in + group * ins,
                           out_gradient + group * outs, packed + group * packed_floats(&cut), &cut,
                           block_at(&cut, first));
    if (in_gradient && layer->rectified) ISA_NAME(conv_stop_gradient)(in_gradient, in, floats);
}
