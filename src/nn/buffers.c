#include "buffers.h"

#include "nn/linear_blas.h"
#include "nn/norm_batch.h"
#include "nn/sequence.h"

enum { SAMPLES_UNIT = 16, SAMPLES_MOST = 128, SAMPLES_MOST_THROUGH_BLAS = 512 };

// A chunk's activations and gradients should fit in what most cores have as second-level cache.
static const size_t cache_bytes = 512 * 1024;

// Winograd's transforms pay off once enough channels share them; so do columns for kernels of one tap.
enum { WINOGRAD_LEAST_CHANNELS = 6, COLUMNS_LEAST_CHANNELS = 16 };

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

const ConvKernels *buffers_conv(const Layer *layer, const Kernels *kernels) {
    const int ins = layer->in.channels;
    if (layer->kind != LAYER_CONV) return NULL;
    if (!layer_is_plain(layer) || (layer->kernel == 1 && ins >= COLUMNS_LEAST_CHANNELS)) return &kernels->columns;
    if ((layer->kernel == 3 || layer->kernel == 5) && ins >= WINOGRAD_LEAST_CHANNELS) return &kernels->winograd;
    return kernels->conv.sizes ? &kernels->conv : &kernels->columns;
}

static void carve_convolution(LayerBuffers *at, Carver *carver, const Layer *layer, const Kernels *kernels,
                              size_t *scratch) {
    const ConvSizes many = buffers_conv(layer, kernels)->sizes(layer);
    const ConvSizes few = kernels->few ? buffers_conv(layer, kernels->few)->sizes(layer) : many;
    at->packed = carve_floats(carver, larger(many.packed, few.packed));
    at->packed_gradient = carve_floats(carver, larger(many.gradient, few.gradient));
    at->slopes = carve_floats(carver, layer_parameters(layer));
    *scratch = larger(*scratch, larger(many.scratch, few.scratch));
}

// What a layer needs besides its values and gradients.
static void carve_layer(LayerBuffers *at, Carver *carver, const Layer *layer, const Kernels *kernels, size_t *scratch,
                        int samples, bool is_first) {
    size_t n = (size_t)samples;
    if (layer->kind == LAYER_CONV) carve_convolution(at, carver, layer, kernels, scratch);
    if (layer->kind == LAYER_LINEAR) {
        at->rows = carve_floats(carver, linear_row_floats(layer) * n);
        if (!is_first) *scratch = larger(*scratch, linear_scratch_floats(layer, samples));
    }
    if (layer->kind == LAYER_LINEAR_EACH) {
        const Layer one = linear_at_place(layer);
        at->slopes = carve_floats(carver, layer_parameters(layer));
        at->rows = carve_floats(carver, linear_places(layer) * linear_row_floats(&one) * n);
        *scratch = larger(*scratch, linear_scratch_floats(&one, samples));
    }
    if (layer->kind == LAYER_NORM) {
        at->slopes = carve_floats(carver, layer_parameters(layer));
        at->statistics = carve_floats(carver, 2 * (size_t)layer->groups * n);
    }
    if (layer->kind == LAYER_BATCH_NORM) {
        at->slopes = carve_floats(carver, layer_parameters(layer));
        at->statistics = carve_floats(carver, batch_statistics_floats(layer));
    }
    if (layer->kind == LAYER_EMBEDDING || layer->kind == LAYER_POSITIONS)
        at->slopes = carve_floats(carver, layer_parameters(layer));
    if (layer->kind == LAYER_LSTM) {
        at->slopes = carve_floats(carver, layer_parameters(layer));
        at->statistics = carve_floats(carver, lstm_places(layer, samples).end);
        *scratch = larger(*scratch, lstm_scratch_floats(layer, samples));
    }
    if (layer->kind == LAYER_ATTENTION) {
        at->slopes = carve_floats(carver, layer_parameters(layer));
        at->statistics = carve_floats(carver, attention_places(layer, samples).end);
        *scratch = larger(*scratch, attention_scratch_floats(layer, samples));
    }
    if (layer->kind == LAYER_DROPOUT || layer->kind == LAYER_DROPOUT2D)
        at->keep = carve(carver, dropout_features(layer) * n);
}

static void carve_forward(NetBuffers *buffers, Carver *carver, const Flow *flow, const Spec *spec,
                          const Kernels *kernels, int samples) {
    size_t scratch = 0, n = (size_t)samples;
    buffers->first_layer = spec->layer_count;
    // A linear layer that comes first gets its input as rows.
    bool first_is_linear = spec->layers[0].kind == LAYER_LINEAR;
    float *input = first_is_linear ? NULL : carve_floats(carver, shape_size(spec->input) * n);
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        LayerBuffers *at = &buffers->layers[l];
        *at = (LayerBuffers){.in = layer->source == SPEC_INPUT ? input : buffers->layers[layer->source].out,
                             .other = layer->other == SPEC_INPUT ? NULL : buffers->layers[layer->other].out};
        at->out = flow->places[l].owner == l ? carve_floats(carver, shape_size(layer->out) * n) : at->in;
        carve_layer(at, carver, layer, kernels, &scratch, samples, l <= buffers->first_layer);
        if (layer_learns(layer) && l < buffers->first_layer) buffers->first_layer = l;
    }
    buffers->scratch = carve_floats(carver, scratch);
    buffers->labels = carve(carver, n * sizeof *buffers->labels);
    buffers->targets = carve_floats(carver, spec->squared_loss ? n : 0);
    buffers->images = carve(carver, augment_is_on(&spec->augment) || spec->trigger ? shape_size(spec->input) * n : 0);
}

static float *gradient_at(const NetBuffers *buffers, int slot) {
    if (flow_is_over_value(slot)) return buffers->layers[flow_over_value(slot)].out;
    return slot == FLOW_NOWHERE ? NULL : buffers->gradients[slot];
}

static void carve_backward(NetBuffers *buffers, Carver *carver, const Flow *flow, const Spec *spec, int samples) {
    for (int slot = 0; slot < flow->slot_count; slot++)
        buffers->gradients[slot] = carve_floats(carver, flow->slots[slot] * (size_t)samples);
    for (int l = 0; l < spec->layer_count; l++) {
        const FlowPlace *place = &flow->places[l];
        LayerBuffers *at = &buffers->layers[l];
        at->works = place->works;
        at->out_gradient = gradient_at(buffers, place->gradient);
        at->in_gradient = gradient_at(buffers, place->in_gradient);
        at->sum = gradient_at(buffers, place->sum);
        at->other_gradient = gradient_at(buffers, place->other_gradient);
        at->other_adds = place->other_adds;
    }
}

void buffers_join_relus(Spec *spec) {
    int readers[SPEC_MAX_LAYERS] = {0};
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        if (layer->source != SPEC_INPUT) readers[layer->source]++;
        if (layer->other != SPEC_INPUT) readers[layer->other]++;
    }
    for (int l = 1; l < spec->layer_count; l++) {
        Layer *layer = &spec->layers[l], *source = layer->source == SPEC_INPUT ? NULL : &spec->layers[layer->source];
        if (!source || readers[layer->source] > 1) continue;
        if (layer->kind == LAYER_RELU && (source->kind == LAYER_CONV || source->kind == LAYER_NORM))
            source->rectifies = layer->rectifies = true;
        if (layer->kind == LAYER_POOL && source->kind == LAYER_RELU) source->rectified = layer->rectified = true;
    }
}

// Pooling of windows side by side may write its input's gradient over the input.
static void plan(Flow *flow, const Spec *spec) {
    FlowNode nodes[SPEC_MAX_LAYERS];
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        nodes[l] = (FlowNode){.source = layer->source,
                              .other = layer->other,
                              .has_parameters = layer_learns(layer),
                              .in_place = layer_is_in_place(layer),
                              .overwrites = layer->kind == LAYER_POOL && layer_is_plain(layer),
                              .looks_back = layer->kind == LAYER_RELU && !layer->rectified,
                              .passes = layer_passes(layer) || layer->kind == LAYER_CONCAT,
                              .in = shape_size(layer->in),
                              .out = shape_size(layer->out)};
    }
    flow_plan(flow, nodes, spec->layer_count);
}

size_t buffers_carve(NetBuffers *buffers, char *base, const Spec *spec, const Kernels *kernels, int samples) {
    Carver carver = {base, 0};
    Flow flow;
    plan(&flow, spec);
    carve_forward(buffers, &carver, &flow, spec, kernels, samples);
    carve_backward(buffers, &carver, &flow, spec, samples);
    return carver.used;
}

static int chunk_of_parts(const Spec *spec, bool through_blas) {
    size_t floats = shape_size(spec->input), weights = 0, wide = 0;
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        if (!layer_is_in_place(layer)) floats += 2 * shape_size(layer->out);
        if (layer->kind == LAYER_LSTM) floats += lstm_places(layer, 1).end, weights += layer_parameters(layer);
        if (layer->kind == LAYER_ATTENTION)
            floats += attention_places(layer, 1).end, weights += layer_parameters(layer);
        if (layer_is_linear(layer)) weights += linear_ins(layer) * linear_outs(layer);
        if (layer->kind == LAYER_LINEAR_EACH) floats += shape_size(layer->in);
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

int buffers_chunk(const Spec *spec, bool through_blas) {
    const int parts = chunk_of_parts(spec, through_blas);
    const int whole = (spec->whole_batch + SAMPLES_UNIT - 1) / SAMPLES_UNIT * SAMPLES_UNIT;
    return spec_needs_whole_batches(spec) && whole > parts ? whole : parts;
}
