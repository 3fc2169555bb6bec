#include "buffers.h"

#include "nn/linear_blas.h"

enum { SAMPLES_UNIT = 16, SAMPLES_MOST = 128, SAMPLES_MOST_THROUGH_BLAS = 512 };

// A chunk's activations and gradients should fit in what most cores have as second-level cache.
static const size_t cache_bytes = 512 * 1024;

// Winograd's transforms pay off once enough channels share them.
enum { WINOGRAD_LEAST_CHANNELS = 6 };

// One walk over the layers places everything; with base NULL it only measures.
typedef struct Carver {
    char *base;
    size_t used; // bytes
} Carver;

static void *carve(Carver *carver, size_t bytes) {
    void *place = carver->base ? carver->base + carver->used : NULL;
    carver->used += (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    return place;
}

static float *carve_floats(Carver *carver, size_t floats) {
    return carve(carver, floats * sizeof(float));
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void carve_forward(NetBuffers *buffers, Carver *carver, const Spec *spec, const Kernels *kernels, int samples) {
    size_t scratch = 0, n = (size_t)samples;
    buffers->first_layer = spec->layer_count;
    // A linear layer that comes first gets its input as rows.
    bool first_is_linear = spec->layers[0].kind == LAYER_LINEAR;
    float *values = first_is_linear ? NULL : carve_floats(carver, shape_size(spec->input) * n);
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        LayerBuffers *at = &buffers->layers[l];
        *at = (LayerBuffers){.in = values};
        if (!layer_is_in_place(layer)) values = carve_floats(carver, shape_size(layer->out) * n);
        at->out = values;
        if (layer->kind == LAYER_CONV) {
            bool transformed =
                (layer->kernel == 3 || layer->kernel == 5) && layer->in.channels >= WINOGRAD_LEAST_CHANNELS;
            at->conv = !layer_is_plain(layer) ? &kernels->columns : transformed ? &kernels->winograd : &kernels->conv;
            ConvSizes sizes = at->conv->sizes(layer);
            at->packed = carve_floats(carver, sizes.packed);
            at->packed_gradient = carve_floats(carver, sizes.gradient);
            at->slopes = carve_floats(carver, conv_parameters(layer));
            scratch = larger(scratch, sizes.scratch);
        }
        if (layer->kind == LAYER_LINEAR) {
            at->rows = carve_floats(carver, linear_row_floats(layer) * n);
            if (l > buffers->first_layer) scratch = larger(scratch, linear_scratch_floats(layer, samples));
        }
        if (layer->kind == LAYER_DROPOUT || layer->kind == LAYER_DROPOUT2D)
            at->keep = carve(carver, dropout_features(layer) * n);
        if (layer_has_parameters(layer) && l < buffers->first_layer) buffers->first_layer = l;
    }
    buffers->scratch = carve_floats(carver, scratch);
    buffers->labels = carve(carver, n);
    buffers->targets = carve_floats(carver, spec->squared_loss ? n : 0);
    buffers->images = carve(carver, augment_is_on(&spec->augment) ? shape_size(spec->input) * n : 0);
}

// Pooling may write its input's gradient over the input, unless a relu still has to look there.
static bool pool_overwrites(const Spec *spec, int l) {
    if (!layer_is_plain(&spec->layers[l])) return false;
    for (l--; l >= 0 && layer_is_in_place(&spec->layers[l]); l--)
        if (spec->layers[l].kind == LAYER_RELU) return false;
    return true;
}

static void carve_backward(NetBuffers *buffers, Carver *carver, const Spec *spec, int samples) {
    enum { ELSEWHERE = 2 }; // the current gradient lies in neither of the two buffers
    size_t n = (size_t)samples, floats[2] = {(size_t)spec->classes * n, 0};
    int targets[SPEC_MAX_LAYERS], current = 0;
    for (int l = spec->layer_count - 1; l > buffers->first_layer; l--) {
        const Layer *layer = &spec->layers[l];
        if (layer->kind == LAYER_POOL && pool_overwrites(spec, l))
            current = ELSEWHERE;
        else if (!layer_is_in_place(layer))
            current = current == 0 ? 1 : 0;
        targets[l] = current;
        if (current != ELSEWHERE) floats[current] = larger(floats[current], shape_size(layer->in) * n);
    }
    buffers->gradients[0] = carve_floats(carver, floats[0]);
    buffers->gradients[1] = carve_floats(carver, floats[1]);
    float *gradient = buffers->gradients[0];
    for (int l = spec->layer_count - 1; l >= buffers->first_layer; l--) {
        LayerBuffers *at = &buffers->layers[l];
        at->out_gradient = gradient;
        if (l == buffers->first_layer) break;
        gradient = targets[l] != ELSEWHERE               ? buffers->gradients[targets[l]]
                   : layer_is_in_place(&spec->layers[l]) ? gradient
                                                         : at->in;
        at->in_gradient = gradient;
    }
}

size_t buffers_carve(NetBuffers *buffers, char *base, const Spec *spec, const Kernels *kernels, int samples) {
    Carver carver = {base, 0};
    carve_forward(buffers, &carver, spec, kernels, samples);
    carve_backward(buffers, &carver, spec, samples);
    return carver.used;
}

int buffers_chunk(const Spec *spec, bool through_blas) {
    size_t floats = shape_size(spec->input), weights = 0, wide = 0;
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        if (!layer_is_in_place(layer)) floats += 2 * shape_size(layer->out);
        if (layer->kind == LAYER_LINEAR) weights += shape_size(layer->in) * shape_size(layer->out);
        if (linear_is_wide(layer)) wide += shape_size(layer->in) * shape_size(layer->out);
    }
    size_t matching = wide / floats / SAMPLES_UNIT * SAMPLES_UNIT;
    if (through_blas && matching >= LINEAR_MANY_SAMPLES)
        return matching > SAMPLES_MOST_THROUGH_BLAS ? SAMPLES_MOST_THROUGH_BLAS : (int)matching;
    size_t samples = cache_bytes / (floats * sizeof(float)) / SAMPLES_UNIT * SAMPLES_UNIT;
    size_t least = weights * sizeof(float) > cache_bytes ? 2 * SAMPLES_UNIT : SAMPLES_UNIT;
    if (samples < least) return (int)least;
    return samples > SAMPLES_MOST ? SAMPLES_MOST : (int)samples;
}
