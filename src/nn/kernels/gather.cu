// The GPU's side of gather.c.
#include "nn/cuda/cuda_index.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_progress.h"

namespace {

// Reads `count` pixels, the first one to the lowest byte. IN_WORDS reads four at once, which needs aligned planes. The
// bytes of a plane that is no multiple of four pixels would reach into the next plane, or beyond the data set.
template <bool IN_WORDS> __device__ uint32_t pixels_at(const uint8_t *from, uint32_t count) {
    if (IN_WORDS) return *(const uint32_t *)from;
    uint32_t word = 0;
    for (uint32_t i = 0; i < count; i++)
        word |= (uint32_t)from[i] << 8 * i;
    return word;
}

// Stores the step's numbers for the ops that follow. No other thread of this kernel reads them. Hogwild also notes how
// many updates all processes have made so far: the difference at this step's own update is its staleness.
__device__ void begin_step(const CudaProgress &progress, uint32_t model, uint32_t first, uint32_t count) {
    progress.counts[model] = count;
    progress.firsts[model] = first;
    progress.numbers[model] = progress.next_numbers[model];
    if (progress.updates) {
        progress.applied[model] = count;
        *progress.read_at = *progress.updates;
    }
}

// How one sample is seen: its crop and flip, then the model's view. The order is that of the CPU, where the view is
// applied to a copy of the sample before the net augments it: a source is looked up from the last change to the first.
struct Seen {
    AugmentDraw draw;
    const SampleView *view; // NULL: as it is
    bool marked;
};

// pixels_at for a plane that is cropped, flipped, moved or marked.
__device__ uint32_t seen_pixels_at(const uint8_t *plane, const GatherPlace &place, const Seen &seen, Shape shape) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < place.count; i++) {
        const int pixel = (int)(place.pixel + i);
        int source = augment_source(seen.draw, shape, pixel);
        if (seen.view && source >= 0) source = sample_view_source(seen.view, shape, source);
        uint32_t value = source >= 0 ? plane[source] : 0;
        if (seen.marked && sample_view_marks_pixel(seen.view, shape, pixel)) value = UINT8_MAX;
        word |= value << 8 * i;
    }
    return word;
}

__device__ Seen seen_by(const CudaProgress &progress, uint32_t m, uint32_t place, uint32_t count,
                        const Augment &augment) {
    Seen seen = {{0, 0, false}, progress.views ? &progress.views[m] : nullptr, false};
    if (augment_is_on(&augment)) {
        const RngKey key = progress.keys[(uint32_t)(progress.layers * progress.models) + m];
        seen.draw = augment_draw(&augment, key, progress.next_numbers[m], place);
    }
    seen.marked = seen.view && place < sample_view_marks(seen.view, count, progress.batch_size);
    return seen;
}

// Number `pixel` of a channel's plane of floats, which have no crops or flips: those are for images of bytes.
__device__ float seen_float_at(const float *plane, const SampleView *view, Shape shape, int pixel) {
    const int source = view ? sample_view_source(view, shape, pixel) : pixel;
    return source >= 0 ? plane[source] : 0;
}

// How a thread reads its pixels: as one aligned word; byte by byte, where planes are no multiple of four pixels; each
// from the place that a crop, a flip or a view give it; or as float32, which are not normalised.
enum Reading { WORDS, BYTES, SEEN, FLOATS };

// A thread brings four pixels of one channel of one sample; neighbouring threads have neighbouring samples, so that
// writes are side by side. Reads jump from sample to sample, but each takes a word. Columns beyond the model's
// samples get zeros. Crops and flips are computed per pixel from the image's draw, so that no copy of the image is
// made.
template <Reading READING>
__global__ void __launch_bounds__(ITEM_THREADS)
    gather(float *out, const uint8_t *pixels, const uint32_t *indices, const __grid_constant__ CudaProgress progress,
           const float *scale, const float *shift, Shape shape, uint32_t samples, Augment augment) {
    uint32_t items = gather_items(shape, (int)samples);
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (at.item >= items) return;
    uint32_t first = progress.next[at.model], count = smaller_of(progress.left[at.model], progress.batch_size);
    if (at.item == 0) begin_step(progress, at.model, first, count);
    if (count == 0) return; // the whole block, as no other reads an idle model's samples
    GatherPlace place = gather_place(at.item, shape, (int)samples);
    uint32_t plane = (uint32_t)(shape.rows * shape.columns), size = (uint32_t)shape.channels * plane, word = 0;
    const float *floats = nullptr; // of a channel
    const SampleView *view = READING == FLOATS && progress.views ? &progress.views[at.model] : nullptr;
    float factor = 0, offset = 0;
    if (place.sample < count) {
        uint32_t row = first + place.sample;
        if (indices) row = indices[row];
        const size_t channel = (size_t)row * size + place.channel * plane;
        const uint8_t *from = pixels + channel;
        if (READING == FLOATS) {
            floats = (const float *)pixels + channel;
        } else if (READING == SEEN) {
            word = seen_pixels_at(from, place, seen_by(progress, at.model, place.sample, count, augment), shape);
        } else {
            word = pixels_at<READING == WORDS>(from + place.pixel, place.count);
        }
        factor = READING == FLOATS ? 0 : scale[place.channel];
        offset = READING == FLOATS ? 0 : shift[place.channel];
    }
    out += ((size_t)at.model * size + place.channel * plane + place.pixel) * samples + place.sample;
    for (uint32_t i = 0; i < place.count; i++, word >>= 8)
        out[(size_t)i * samples] =
            floats ? seen_float_at(floats, view, shape, (int)(place.pixel + i)) : (float)(word & 255) * factor + offset;
}

// A kernel of its own, after the gathering one: few runs have noise, and the registers of a normal number would slow
// down all others. A thread per value. Samples without noise, and pixels outside the part that has it, stay as they
// are.
__global__ void __launch_bounds__(ITEM_THREADS)
    add_noise(float *out, const uint32_t *indices, const __grid_constant__ CudaProgress progress, const float *scale,
              Shape shape, uint32_t samples, const uint32_t *counts) {
    const uint32_t plane = (uint32_t)(shape.rows * shape.columns), size = (uint32_t)shape.channels * plane;
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, size * samples);
    if (!has_work(at, size * samples, counts)) return;
    const uint32_t place = at.item / samples, sample = at.item - place * samples;
    const SampleNoise &noise = progress.views[at.model].noise;
    if (noise.deviation == 0 || sample >= counts[at.model]) return;
    const int channel = (int)(place / plane), pixel = (int)(place - (uint32_t)channel * plane);
    const int row = pixel / shape.columns - noise.first_row, column = pixel % shape.columns - noise.first_column;
    if (row < 0 || row >= noise.rows || column < 0 || column >= noise.columns) return;
    const uint32_t number = progress.firsts[at.model] + sample;
    const RngKey key = sample_noise_key(&noise, indices ? indices[number] : number);
    out[(size_t)at.model * size * samples + at.item] +=
        (float)(sample_noise_deviation(&noise, scale, channel) * rng_normal(key, place));
}

} // namespace

void cuda_gather(float *out, const uint8_t *pixels, const uint32_t *indices, const CudaProgress *progress,
                 const float *scale, const float *shift, Shape shape, const Augment *augment, const CudaStep *step) {
    bool words = shape.rows * shape.columns % GATHER_PIXELS == 0 && (uintptr_t)pixels % sizeof(uint32_t) == 0;
    Augment none = {};
    // Not by launch_items: the counts of this step are what the kernel writes.
    launch(!scale                       ? gather<FLOATS>
           : augment || progress->views ? gather<SEEN>
           : words                      ? gather<WORDS>
                                        : gather<BYTES>,
           (size_t)step->models * parts_of(gather_items(shape, step->samples), ITEM_THREADS), ITEM_THREADS,
           step->stream, out, pixels, indices, *progress, scale, shift, shape, (uint32_t)step->samples,
           augment ? *augment : none);
}

void cuda_add_noise(float *out, const uint32_t *indices, const CudaProgress *progress, const float *scale, Shape shape,
                    const CudaStep *step) {
    const uint32_t samples = (uint32_t)step->samples;
    launch_items(add_noise, (uint32_t)shape_size(shape) * samples, step, out, indices, *progress, scale, shape,
                 samples);
}
