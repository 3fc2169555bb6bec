// The GPU's side of conv.c, continued: the weight's gradient of plain convolutions. conv_gradient_index.h divides the
// work.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_ops.h"
#include "nn/kernels/conv_bias.h"
#include "nn/kernels/conv_gradient_index.h"

namespace {

// Blocks per multiprocessor: leaves each thread 128 registers, which suffice.
enum { GRADIENT_RESIDENT = 2, WARP = 32, LINES_AT_ONCE = 4 };

// Copies a chunk's columns of lines of an image to shared memory; a warp takes every `warps`-th line. A thread loads
// LINES_AT_ONCE values before it stores the first one, as each load takes hundreds of cycles. line_at(number): the line
// in the image, or NULL beyond the image, where values are zeros. to_line, to_step: float4s from one line, and from one
// column and quad, to the next.
template <typename LineAt>
__device__ void stage_lines(float4 *to, uint32_t to_line, uint32_t to_step, uint32_t lines, const LineAt &line_at,
                            int x, int length, uint32_t columns, uint32_t all, const GradientChunk &chunk,
                            const GradientGrid &grid) {
    const uint32_t warps = blockDim.x / WARP;
    for (uint32_t i = threadIdx.x % WARP; i < columns * grid.quads; i += WARP) {
        const uint32_t column = i / grid.quads, quad = i - column * grid.quads;
        const int at = x + (int)column;
        const bool exists = (uint32_t)at < (uint32_t)length && quad < chunk.quads;
        const size_t offset = exists ? (uint32_t)at * all + chunk.quad + quad : 0;
        for (uint32_t first = threadIdx.x / WARP; first < lines; first += LINES_AT_ONCE * warps) {
            float4 values[LINES_AT_ONCE];
#pragma unroll
            for (uint32_t k = 0; k < LINES_AT_ONCE; k++) {
                const uint32_t line = first + k * warps;
                const float4 *from = exists && line < lines ? line_at(line) : NULL;
                values[k] = from ? from[offset] : make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (uint32_t k = 0; k < LINES_AT_ONCE; k++) {
                const uint32_t line = first + k * warps;
                if (line < lines) to[line * to_line + i * to_step] = values[k];
            }
        }
    }
}

// Stages the output's gradients of a chunk as (rows, columns, quads, channels), so that a thread's channels have
// neighbouring addresses, and the input that the taps meet there as (channels, rows, columns, quads). in, gradient: of
// the block's model.
__device__ void stage_chunk(float4 *given, float4 *values, const float4 *in, const float4 *gradient,
                            const GradientBlock &block, const GradientChunk &chunk, uint32_t taps, const ConvMap &map,
                            const GradientGrid &grid) {
    const uint32_t all = (uint32_t)map.samples / 4, rows = grid.rows + (uint32_t)map.kernel - 1;
    for (uint32_t row = 0; row < chunk.rows; row++) {
        const auto line_at = [&](uint32_t o) -> const float4 * {
            const uint32_t channel = block.out_channel + o;
            const size_t line = (size_t)channel * (uint32_t)map.out.rows + (uint32_t)chunk.y + row;
            return channel < (uint32_t)map.out.channels ? gradient + line * (uint32_t)map.out.columns * all : NULL;
        };
        stage_lines(given + row * grid.columns * grid.quads * grid.step, 1, grid.step, grid.groups * grid.channels,
                    line_at, chunk.x, map.out.columns, grid.columns, all, chunk, grid);
    }
    const auto line_at = [&](uint32_t number) -> const float4 * {
        const uint32_t channel = number / rows;
        const int y = chunk.y - map.pad + (int)(number - channel * rows);
        const size_t line = (size_t)(block.in_channel + channel) * (uint32_t)map.in.rows + (uint32_t)y;
        return (uint32_t)y < (uint32_t)map.in.rows ? in + line * (uint32_t)map.in.columns * all : NULL;
    };
    stage_lines(values, grid.line, 1, block.ins * rows, line_at, chunk.x - map.pad, map.in.columns,
                grid.columns + taps - 1, all, chunk, grid);
}

// Adds the products of the gradients of CHANNELS channels with a row of values. first: of the column's values in the
// window, which goes round.
template <int TAPS, int CHANNELS>
__device__ void add_column(float (&sums)[CHANNELS][TAPS], const float4 *given, const float4 (&window)[TAPS],
                           int first) {
#pragma unroll
    for (int o = 0; o < CHANNELS; o++) {
        const float4 gradient = given[o];
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            sums[o][t] += gradient.x * window[(first + t) % TAPS].x;
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            sums[o][t] += gradient.y * window[(first + t) % TAPS].y;
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            sums[o][t] += gradient.z * window[(first + t) % TAPS].z;
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            sums[o][t] += gradient.w * window[(first + t) % TAPS].w;
    }
}

// Adds a thread's units of a chunk. A value of the input is read once for all taps that meet it in the unit.
template <int TAPS, int CHANNELS>
__device__ void add_chunk(float (&sums)[CHANNELS][TAPS], const float4 *given, const float4 *values,
                          const GradientTask &task, const GradientChunk &chunk, const GradientGrid &grid) {
    const uint32_t units = gradient_units(&grid);
    for (uint32_t unit = task.slice; unit < units; unit += grid.slices) {
        const GradientUnit at = gradient_unit(unit, &grid);
        if (at.row >= chunk.rows || at.x >= chunk.columns || at.quad >= chunk.quads) continue;
        const float4 *from = values + at.row * grid.line + at.x * grid.quads + at.quad;
        const float4 *gradient = given + ((at.row * grid.columns + at.x) * grid.quads + at.quad) * grid.step;
        float4 window[TAPS];
#pragma unroll
        for (int t = 0; t < TAPS - 1; t++, from += grid.quads)
            window[t] = *from;
#pragma unroll
        for (int j = 0; j < UNIT_COLUMNS; j++, from += grid.quads, gradient += grid.quads * grid.step) {
            if (at.x + j >= chunk.columns) break;
            window[(j + TAPS - 1) % TAPS] = *from;
            add_column<TAPS, CHANNELS>(sums, gradient, window, j);
        }
    }
}

// Adds up the slices' sums of output channel o of every group, in order, and writes them. out: of the block's model and
// part.
template <int TAPS>
__device__ void write_sums(float *out, float *shared, const float (&sums)[TAPS], int o, const GradientTask &task,
                           const GradientBlock &block, const ConvMap &map, const GradientGrid &grid) {
    const uint32_t side = (uint32_t)map.kernel, values = grid.groups * grid.ins * side * TAPS;
    __syncthreads(); // what was in shared memory has been read
    if (task.slice < grid.slices)
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            shared[task.slice * values + task.number * TAPS + t] = sums[t];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < values; i += blockDim.x) {
        const GradientTask of = gradient_task(i / TAPS, map.kernel, &grid);
        const uint32_t tap = i % TAPS, channel = block.out_channel + of.group * grid.channels + (uint32_t)o;
        if (channel >= (uint32_t)map.out.channels || of.in >= block.ins || tap >= side) continue;
        float sum = 0;
        for (uint32_t slice = 0; slice < grid.slices; slice++)
            sum += shared[slice * values + i];
        const size_t pair = (size_t)channel * (uint32_t)map.in.channels + block.in_channel + of.in;
        out[(pair * side + of.y) * side + tap] = sum;
    }
}

// The weight's gradient, or one part of it. The sums of model m and part p go to out + m * stride + p * part_stride.
// The last blocks sum the bias's gradient. Samples that do not exist have a gradient of zero.
template <int TAPS, int CHANNELS>
__global__ void __launch_bounds__(GRADIENT_THREADS, GRADIENT_RESIDENT)
    sum_gradient(float *out, size_t stride, size_t part_stride, const float4 *in, const float4 *gradient, ConvMap map,
                 GradientGrid grid, ConvBias bias, const uint32_t *counts) {
    __shared__ float4 shared[GRADIENT_QUADS];
    if (conv_bias_block((float *)shared, bias, gradient)) return;
    const GradientBlock block = gradient_block(blockIdx.x, &map, &grid);
    const GradientTask task = gradient_task(threadIdx.x, map.kernel, &grid);
    const bool works = task.slice < grid.slices && task.in < block.ins;
    const uint32_t quads = parts_of(counts[block.model], 4), chunks = gradient_chunks(&map, &grid, quads);
    float4 *given = shared, *values = shared + grid.rows * grid.columns * grid.quads * grid.step;
    const float4 *own_given = given + task.group * CHANNELS;
    const float4 *own_values = values + (task.in * (grid.rows + (uint32_t)map.kernel - 1) + task.y) * grid.line;
    in += block.model * (conv_floats(map.in, &map) / 4);
    gradient += block.model * (conv_floats(map.out, &map) / 4);

    float sums[CHANNELS][TAPS] = {};
    for (uint32_t number = block.part; number < chunks; number += grid.parts) {
        const GradientChunk chunk = gradient_chunk(number, &map, &grid, quads);
        __syncthreads(); // the former chunk has been used
        stage_chunk(given, values, in, gradient, block, chunk, TAPS, map, grid);
        __syncthreads();
        if (works) add_chunk<TAPS, CHANNELS>(sums, own_given, own_values, task, chunk, grid);
    }
    out += block.model * stride + block.part * part_stride;
#pragma unroll
    for (int o = 0; o < CHANNELS; o++)
        write_sums<TAPS>(out, (float *)shared, sums[o], o, task, block, map, grid);
}

// gradient (M strided; weights) = the sums of parts (parts, M, weights).
__global__ void __launch_bounds__(ITEM_THREADS) sum_parts(float *gradient, const float *parts, size_t stride,
                                                          uint32_t part_count, uint32_t models, uint32_t weights) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, weights);
    if (at.item >= weights) return;
    float sum = 0;
    for (uint32_t p = 0; p < part_count; p++)
        sum += parts[((size_t)p * models + at.model) * weights + at.item];
    gradient[at.model * stride + at.item] = sum;
}

typedef void SumGradient(float *, size_t, size_t, const float4 *, const float4 *, ConvMap, GradientGrid, ConvBias,
                         const uint32_t *);

template <int TAPS> SumGradient *gradient_kernel(uint32_t channels) {
    return channels == 8 ? sum_gradient<TAPS, 8> : sum_gradient<TAPS, 5>;
}

ConvMap map_of(const Layer *layer, int samples) {
    return conv_map(layer->in, layer->out, layer->kernel, layer->pad, false, samples);
}

uint32_t weights_of(const Layer *layer) {
    return (uint32_t)(layer->out.channels * layer->in.channels * layer->kernel * layer->kernel);
}

// Larger kernels are rare, and conv_any.cu takes them.
bool is_tiled(const Layer *layer) {
    return layer_is_plain(layer) && layer->kernel <= GRADIENT_TAPS;
}

} // namespace

// The parts' sums of all models, if the gradient is taken in parts.
size_t cuda_conv_scratch_floats(const Layer *layer, int models, int samples) {
    if (!is_tiled(layer)) return 0;
    const ConvMap map = map_of(layer, samples);
    const GradientGrid grid = gradient_grid(&map);
    return grid.parts == 1 ? 0 : (size_t)grid.parts * (size_t)models * weights_of(layer);
}

// Where the weight has too few tiles to fill the GPU, each tile's chunks are divided among `parts` blocks, whose sums a
// second kernel adds in order. Atomic additions would do without it, but not with the same bits in every run.
void cuda_conv_backward_weight(float *weight_gradient, float *bias_gradient, float *scratch, const float *in,
                               const float *out_gradient, size_t stride, const Layer *layer, const CudaStep *step) {
    if (!is_tiled(layer))
        return cuda_conv_any_backward_weight(weight_gradient, bias_gradient, in, out_gradient, stride, layer, step);
    const ConvMap map = map_of(layer, step->samples);
    const uint32_t models = (uint32_t)step->models, weights = weights_of(layer), taps = gradient_taps(map.kernel);
    const GradientGrid grid = gradient_grid(&map);
    const bool whole = grid.parts == 1;
    SumGradient *kernel = taps == 7   ? gradient_kernel<7>(grid.channels)
                          : taps == 5 ? gradient_kernel<5>(grid.channels)
                          : taps == 3 ? gradient_kernel<3>(grid.channels)
                                      : gradient_kernel<1>(grid.channels);
    const ConvBias bias = conv_bias_of(bias_gradient, stride, (size_t)models * grid.tiles * grid.parts, layer, step);
    launch(kernel, conv_bias_blocks(bias, step), grid.threads, step->stream, whole ? weight_gradient : scratch,
           whole ? stride : weights, (size_t)models * weights, (const float4 *)in, (const float4 *)out_gradient, map,
           grid, bias, step->counts);
    if (!whole) launch_items(sum_parts, weights, step, weight_gradient, scratch, stride, grid.parts, models, weights);
}
