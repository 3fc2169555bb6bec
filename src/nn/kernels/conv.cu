// The GPU's side of conv.c: one kernel (convolve) computes forward and the input's gradient, another (sum_gradient) the
// weight's gradient. conv_index.h divides the work. Threads whose sample does not exist give zeros.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/kernels/conv_bias.h"
#include "nn/kernels/conv_index.h"

namespace {

// Floats of weights that a block keeps in shared memory.
enum { STAGED_FLOATS = 3072 };

// Blocks per multiprocessor: leaves each thread of convolve 96 registers, and of sum_gradient 168, which suffice.
enum { CONV_RESIDENT = 5, GRADIENT_RESIDENT = 3 };

// Loads COUNT columns of one row of one sample, `samples` apart. Columns whose bit in `inside` is not set are beyond
// the image and read as zero. The bits are computed once per row instead of comparing every column with both edges.
template <int COUNT>
__device__ void load_columns(float (&values)[COUNT], const float *from, uint32_t inside, int samples) {
#pragma unroll
    for (int j = 0; j < COUNT; j++, from += samples)
        values[j] = inside & 1u << j ? *from : 0;
}

// `i` is a constant. With a constant `i` the choice costs nothing, and a float4 stays in registers, which an array of
// unknown index would not.
__device__ float component(float4 vector, int i) {
    return i == 0 ? vector.x : i == 1 ? vector.y : i == 2 ? vector.z : vector.w;
}

// Copies the weights of `count` rows from `first` on to staged (rows, TAPS, channels), with zeros beyond kernel and
// channels. All threads of a block use the same weights, so the block reads them once. They are stored so that a thread
// reads four channels' weights of a tap as one float4, which all threads read at the same address: shared memory
// broadcasts it.
template <int TAPS, int CHANNELS>
__device__ void stage_weights(float *staged, const float *weight, const ConvMap &map, uint32_t first, uint32_t count,
                              uint32_t channel) {
    enum { WIDTH = (CHANNELS + 3) / 4 * 4 };
    for (uint32_t i = threadIdx.x; i < count * TAPS; i += CONV_THREADS) {
        uint32_t row = i / TAPS;
        int tap = (int)(i - row * TAPS);
        ConvRow at = conv_row(first + row, &map, TAPS);
        ConvWeights place = conv_weights(at, tap, &map);
        const float *from = weight + place.first + (size_t)channel * place.step;
        uint32_t channels = at.x + tap < map.kernel ? (uint32_t)map.out.channels - channel : 0;
#pragma unroll
        for (uint32_t o = 0; o < WIDTH; o++, from += place.step)
            staged[i * WIDTH + o] = o < CHANNELS && o < channels ? *from : 0;
    }
}

// Adds the products of one row of taps (TAPS, channels) with one row of the input. Each value serves all taps that meet
// it. Neighbouring columns of the output read columns of the input that are STRIDE apart.
template <int TAPS, int CHANNELS, int STRIDE>
__device__ void add_row(float (&sums)[CHANNELS][CONV_COLUMNS],
                        const float (&values)[(CONV_COLUMNS - 1) * STRIDE + TAPS], const float4 *taps) {
    enum { QUADS = (CHANNELS + 3) / 4 };
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            float4 weights = taps[tap * QUADS + q];
#pragma unroll
            for (int o = 4 * q; o < 4 * q + 4 && o < CHANNELS; o++)
#pragma unroll
                for (int x = 0; x < CONV_COLUMNS; x++)
                    sums[o][x] += component(weights, o - 4 * q) * values[x * STRIDE + tap];
        }
}

template <int CHANNELS>
__device__ void start_sums(float (&sums)[CHANNELS][CONV_COLUMNS], const float *bias, uint32_t channels) {
#pragma unroll
    for (uint32_t o = 0; o < CHANNELS; o++) {
        float start = bias && o < channels ? bias[o] : 0;
#pragma unroll
        for (int x = 0; x < CONV_COLUMNS; x++)
            sums[o][x] = start;
    }
}

// out: the first channel's first column. Channels and columns beyond the output are not stored, and samples beyond the
// last store zeros, as the next layer's contract wants. With `adds` all are added to what is already there.
template <int CHANNELS>
__device__ void store_sums(float *out, const float (&sums)[CHANNELS][CONV_COLUMNS], bool adds, bool real,
                           uint32_t channels, int columns, size_t plane, int samples) {
#pragma unroll
    for (uint32_t o = 0; o < CHANNELS; o++, out += plane)
#pragma unroll
        for (int x = 0; x < CONV_COLUMNS; x++) {
            const float sum = real ? sums[o][x] : 0;
            if (o < channels && x < columns) out[x * samples] = adds ? out[x * samples] + sum : sum;
        }
}

// A thread computes CHANNELS output channels of one place. bias: NULL for none. Weight and bias are not
// __restrict__, which would promise that they do not change: with Hogwild other processes change them. The block
// walks over chunks of kernel rows that fit the staged weights, and every thread keeps its sums in registers for
// all of them. Threads of places beyond the last take part in the staging, as __syncthreads needs all of them.
template <int TAPS, int CHANNELS, int STRIDE>
__global__ void __launch_bounds__(CONV_THREADS, CONV_RESIDENT)
    convolve(float *out, bool adds, const float *__restrict__ in, const float *weight, const float *bias, size_t stride,
             ConvMap map, const uint32_t *__restrict__ counts) {
    enum { QUADS = (CHANNELS + 3) / 4, ROWS = STAGED_FLOATS / (TAPS * QUADS * 4) };
    __shared__ float4 staged[ROWS * TAPS * QUADS];
    ConvBlock block = conv_block(blockIdx.x, &map, CHANNELS);
    const int count = (int)counts[block.model];
    if (count == 0) return; // the whole block
    uint32_t index = block.place + threadIdx.x;
    ConvPlace place = conv_place(index, &map);
    bool real = index < map.places && place.sample < count;
    in += block.model * conv_floats(map.in, &map) + place.sample;
    weight += block.model * stride;
    uint32_t channels = (uint32_t)map.out.channels - block.channel; // those left, of which CHANNELS are computed

    float sums[CHANNELS][CONV_COLUMNS];
    start_sums<CHANNELS>(sums, bias ? bias + block.model * stride + block.channel : NULL, channels);
    ConvRow row = {0, 0, 0};
    const uint32_t rows = conv_rows(&map);
    for (uint32_t first = 0; first < rows; first += ROWS) {
        uint32_t chunk = smaller_of(ROWS, rows - first);
        __syncthreads(); // the former chunk has been used
        stage_weights<TAPS, CHANNELS>((float *)staged, weight, map, first, chunk, block.channel);
        __syncthreads();
        for (uint32_t r = 0; real && r < chunk; r++, row = conv_next_row(row, map.kernel, TAPS)) {
            int y = place.y * STRIDE + row.y - map.pad, x = place.x * STRIDE + row.x - map.pad;
            if ((uint32_t)y >= (uint32_t)map.in.rows) continue;
            float values[(CONV_COLUMNS - 1) * STRIDE + TAPS];
            int from = (row.channel * map.in.rows + y) * map.in.columns + x;
            uint32_t inside = columns_inside(x, map.in.columns);
            load_columns(values, in + (ptrdiff_t)from * map.samples, inside, map.samples);
            add_row<TAPS, CHANNELS, STRIDE>(sums, values, staged + r * TAPS * QUADS);
        }
    }
    if (index >= map.places) return;
    out += block.model * conv_floats(map.out, &map) + conv_offset(block.channel, place, &map);
    store_sums<CHANNELS>(out, sums, adds, real, channels, map.out.columns - place.x,
                         (size_t)(map.out.rows * map.out.columns) * (size_t)map.samples, map.samples);
}

// Sums each of TAPS x TAPS values over a block's threads, in a fixed order. to: the place of the first value in a
// kernel of `side` taps a row; only values within `rows` and `columns` are written. First runs of RUN neighbouring
// threads are summed, each by one thread, then the runs: two short passes instead of a tree for each of the values. A
// row of `shared` has one float more than threads, so that the threads of a run's sums meet different banks.
template <int TAPS>
__device__ void sum_over_threads(float *to, const float (&values)[TAPS][TAPS], float (*shared)[GRADIENT_THREADS + 1],
                                 int rows, int columns, int side) {
    enum { VALUES = TAPS * TAPS, RUN = 16 };
    uint32_t thread = threadIdx.x, threads = blockDim.x, runs = threads / RUN;
    __syncthreads(); // the former sums have been read
#pragma unroll
    for (int i = 0; i < VALUES; i++)
        shared[i][thread] = values[i / TAPS][i % TAPS];
    __syncthreads();
    for (uint32_t i = thread; i < VALUES * runs; i += threads) {
        uint32_t run = i / VALUES, value = i - run * VALUES;
        float *from = shared[value] + run * RUN, sum = 0;
#pragma unroll
        for (int j = 0; j < RUN; j++)
            sum += from[j];
        *from = sum; // no other thread reads this run
    }
    __syncthreads();
    for (uint32_t i = thread; i < VALUES; i += threads) {
        int y = (int)i / TAPS, x = (int)i % TAPS;
        float sum = 0;
        for (uint32_t run = 0; run < runs; run++)
            sum += shared[i][run * RUN];
        if (y < rows && x < columns) to[y * side + x] = sum;
    }
}

// Adds one place's part to the gradients of all taps. Output channels beyond the last repeat it; sum_gradient drops
// them.
template <int TAPS, int CHANNELS, int STRIDE>
__device__ void add_place(float (&sums)[CHANNELS][TAPS][TAPS], const float *in, const float *gradient,
                          const GradientBlock &block, const ConvPlace &place, const ConvMap &map) {
    float given[CHANNELS][CONV_COLUMNS];
    uint32_t inside = columns_inside(place.x, map.out.columns);
#pragma unroll
    for (int o = 0; o < CHANNELS; o++) {
        int channel = block.out_channel + o < map.out.channels ? block.out_channel + o : map.out.channels - 1;
        int from = (channel * map.out.rows + place.y) * map.out.columns + place.x;
        load_columns(given[o], gradient + (ptrdiff_t)from * map.samples, inside, map.samples);
    }
    int y = place.y * STRIDE + block.y - map.pad, x = place.x * STRIDE + block.x - map.pad;
    inside = columns_inside(x, map.in.columns);
    in += (ptrdiff_t)((block.in_channel * map.in.rows + y) * map.in.columns + x) * map.samples;
    ptrdiff_t row = (ptrdiff_t)map.in.columns * map.samples;
#pragma unroll
    for (int i = 0; i < TAPS; i++, in += row) {
        if ((uint32_t)(y + i) >= (uint32_t)map.in.rows) continue;
        float values[(CONV_COLUMNS - 1) * STRIDE + TAPS];
        load_columns(values, in, inside, map.samples);
#pragma unroll
        for (int j = 0; j < TAPS; j++)
#pragma unroll
            for (int o = 0; o < CHANNELS; o++)
#pragma unroll
                for (int c = 0; c < CONV_COLUMNS; c++)
                    sums[o][i][j] += given[o][c] * values[c * STRIDE + j];
    }
}

// The weight's gradient, or one part of it. The sums of model m and part p go to out + m * stride + p * part_stride. A
// thread walks over places of the image, `step` apart, with all the sums of its taps in registers; the block adds the
// threads' sums at the end. The last blocks sum the bias's gradient.
template <int TAPS, int CHANNELS, int STRIDE>
__global__ void __launch_bounds__(GRADIENT_THREADS, GRADIENT_RESIDENT)
    sum_gradient(float *out, size_t stride, size_t part_stride, const float *__restrict__ in,
                 const float *__restrict__ gradient, ConvMap map, GradientGrid grid, ConvBias bias,
                 const uint32_t *__restrict__ counts) {
    enum { ROWS = TAPS > 1 ? TAPS * TAPS : CONV_BIAS_FLOATS / GRADIENT_THREADS };
    __shared__ float shared[ROWS][GRADIENT_THREADS + 1];
    if (conv_bias_block(shared[0], bias, (const float4 *)gradient, counts)) return;
    GradientBlock block = gradient_block(blockIdx.x, &map, &grid, TAPS);
    const int count = (int)counts[block.model];
    if (count == 0) return; // the whole block
    uint32_t step = grid.parts * blockDim.x;
    in += block.model * conv_floats(map.in, &map);
    gradient += block.model * conv_floats(map.out, &map);

    float sums[CHANNELS][TAPS][TAPS] = {};
    for (uint32_t index = block.part * blockDim.x + threadIdx.x; index < map.places; index += step) {
        ConvPlace place = conv_place(index, &map);
        if (place.sample < count)
            add_place<TAPS, CHANNELS, STRIDE>(sums, in + place.sample, gradient + place.sample, block, place, map);
    }

    int area = map.kernel * map.kernel;
    out += block.model * stride + block.part * part_stride;
    out += (size_t)block.in_channel * (uint32_t)area + (uint32_t)(block.y * map.kernel + block.x);
#pragma unroll
    for (int o = 0; o < CHANNELS; o++) {
        int channel = block.out_channel + o;
        if (channel >= map.out.channels) break; // the same for the whole block
        sum_over_threads<TAPS>(out + (size_t)channel * (uint32_t)map.in.channels * (uint32_t)area, sums[o], shared,
                               map.kernel - block.y, map.kernel - block.x, map.kernel);
    }
}

// gradient (M strided; weights) = the sums of parts (parts, M, weights).
__global__ void __launch_bounds__(ITEM_THREADS)
    sum_parts(float *gradient, const float *parts, size_t stride, uint32_t part_count, uint32_t models,
              uint32_t weights, const uint32_t *counts) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, weights);
    if (!has_work(at, weights, counts)) return;
    float sum = 0;
    for (uint32_t p = 0; p < part_count; p++)
        sum += parts[((size_t)p * models + at.model) * weights + at.item];
    gradient[at.model * stride + at.item] = sum;
}

typedef void Convolve(float *, bool, const float *, const float *, const float *, size_t, ConvMap, const uint32_t *);
typedef void SumGradient(float *, size_t, size_t, const float *, const float *, ConvMap, GradientGrid, ConvBias,
                         const uint32_t *);

// Sizes of tiles are template parameters, so that their loops unroll into registers; these choose among the few that
// are built. Ten channels fit LeNet's layers and eight or four the others: conv_channels chooses.
template <int TAPS, int STRIDE> Convolve *convolve_kernel(uint32_t channels) {
    return channels == 10 ? convolve < TAPS, STRIDE == 1 ? 10 : 8,
           STRIDE >
       : channels == 8 ? convolve<TAPS, 8, STRIDE>
                       : convolve<TAPS, 4, STRIDE>;
}

template <int STRIDE> Convolve *convolve_kernel(uint32_t taps, uint32_t channels) {
    return taps == 7   ? convolve_kernel<7, STRIDE>(channels)
           : taps == 5 ? convolve_kernel<5, STRIDE>(channels)
           : taps == 3 ? convolve_kernel<3, STRIDE>(channels)
                       : convolve_kernel<1, STRIDE>(channels);
}

template <int STRIDE> SumGradient *gradient_kernel(uint32_t taps) {
    return taps == 7   ? sum_gradient<7, 2, STRIDE>
           : taps == 5 ? sum_gradient<5, 4, STRIDE>
           : taps == 3 ? sum_gradient<3, 8, STRIDE>
                       : sum_gradient<1, 8, STRIDE>;
}

void launch_convolve(float *out, bool adds, const float *in, const float *weight, const float *bias, size_t stride,
                     const ConvMap &map, const CudaStep *step) {
    uint32_t taps = conv_taps(map.kernel), channels = conv_channels(&map, (uint32_t)step->models);
    Convolve *kernel =
        map.stride == 1 ? convolve_kernel<1>(taps, channels) : convolve_kernel<CONV_STRIDE>(taps, channels);
    launch(kernel, (size_t)step->models * conv_blocks(&map, channels), CONV_THREADS, step->stream, out, adds, in,
           weight, bias, stride, map, step->counts);
}

// Whether the tiled kernels compute the forward pass and the weight's gradient: square kernels without groups and
// dilation, of stride 1 (plain layers) or CONV_STRIDE.
bool is_tiled(const Layer *layer) {
    const Window &window = layer->window;
    return layer_is_plain(layer) ||
           (layer->groups == 1 && window.size.rows == window.size.columns && window.pad.rows == window.pad.columns &&
            window.stride.rows == CONV_STRIDE && window.stride.columns == CONV_STRIDE && layer->dilation.rows == 1 &&
            layer->dilation.columns == 1);
}

// The layer must be tiled. One kernel serves both passes by two such maps: a plain layer's input gradient is a
// convolution of the output's gradient by the mirrored kernel with channels exchanged, and K - 1 - pad zeros around.
ConvMap forward_map(const Layer *layer, int samples) {
    const Window &window = layer->window;
    return layer_is_plain(layer)
               ? conv_map(layer->in, layer->out, layer->kernel, layer->pad, 1, false, samples)
               : conv_map(layer->in, layer->out, window.size.rows, window.pad.rows, CONV_STRIDE, false, samples);
}

uint32_t weights_of(const ConvMap &map) {
    return (uint32_t)(map.out.channels * map.in.channels * map.kernel * map.kernel);
}

// Where the weight has too few tiles to fill the GPU, each tile's places are divided among `parts` blocks, whose sums a
// second kernel adds in order. Atomic additions would do without it, but not with the same bits in every run.
void launch_gradient(float *weight_gradient, float *bias_gradient, float *scratch, const float *in,
                     const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step) {
    ConvMap map = forward_map(layer, step->samples);
    uint32_t models = (uint32_t)step->models, weights = weights_of(map), taps = conv_taps(map.kernel);
    GradientGrid grid = gradient_grid(&map);
    bool whole = grid.parts == 1;
    SumGradient *kernel = map.stride == 1 ? gradient_kernel<1>(taps) : gradient_kernel<CONV_STRIDE>(taps);
    const ConvBias bias = conv_bias_of(bias_gradient, stride, (size_t)models * grid.tiles * grid.parts, layer, step);
    launch(kernel, conv_bias_blocks(bias, step), grid.threads, step->stream, whole ? weight_gradient : scratch,
           whole ? stride : weights, (size_t)models * weights, in, out_gradient, map, grid, bias, step->counts);
    if (!whole) launch_items(sum_parts, weights, step, weight_gradient, scratch, stride, grid.parts, models, weights);
}

} // namespace

void cuda_conv_forward(float *out, const float *in, const float *weight, const float *bias, size_t stride,
                       const Layer *layer, const CudaStep *step) {
    if (!is_tiled(layer)) return cuda_conv_any_forward(out, in, weight, bias, stride, layer, step);
    launch_convolve(out, false, in, weight, bias, stride, forward_map(layer, step->samples), step);
}

void cuda_conv_backward_input(float *in_gradient, bool adds, const float *out_gradient, const float *weight,
                              size_t stride, const Layer *layer, const CudaStep *step) {
    if (!layer_is_plain(layer))
        return cuda_conv_any_backward_input(in_gradient, adds, out_gradient, weight, stride, layer, step);
    ConvMap map =
        conv_map(layer->out, layer->in, layer->kernel, layer->kernel - 1 - layer->pad, 1, true, step->samples);
    launch_convolve(in_gradient, adds, out_gradient, weight, NULL, stride, map, step);
}

// The parts' sums of all models, if the gradient is taken in parts.
size_t cuda_conv_scratch_floats(const Layer *layer, int models, int samples) {
    if (!is_tiled(layer)) return 0;
    ConvMap map = forward_map(layer, samples);
    GradientGrid grid = gradient_grid(&map);
    return grid.parts == 1 ? 0 : (size_t)grid.parts * (size_t)models * weights_of(map);
}

void cuda_conv_backward_weight(float *weight_gradient, float *bias_gradient, float *scratch, const float *in,
                               const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step) {
    if (is_tiled(layer))
        launch_gradient(weight_gradient, bias_gradient, scratch, in, out_gradient, stride, layer, step);
    else
        cuda_conv_any_backward_weight(weight_gradient, bias_gradient, in, out_gradient, stride, layer, step);
}
