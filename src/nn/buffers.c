#include "buffers.h"

#include <assert.h>
#include <stdint.h>

#include "nn/carver.h"
#include "nn/layers/layer.h"
#include "nn/linear_blas.h"

// How the arena is laid out. buffers_chunk first plans how many samples go through the net together, buffers_carve then
// plans which tensors share memory (flow.h) and walks over the layers twice: once to measure the arena and once to
// place the tensors. After that a pass only follows pointers: no memory is allocated in a step.
enum { SAMPLES_UNIT = 16, SAMPLES_MOST = 128, SAMPLES_MOST_THROUGH_BLAS = 512 };

// The head's samples if its weights do not fit the cache: as many as make its body's values HEAD_SHARE times as large
// as the weights, but at most HEAD_SAMPLES.
enum { HEAD_SHARE = 8, HEAD_SAMPLES = 64 };

// If SAMPLES_UNIT samples of a body take more than NEAR_CACHES caches, its parts shrink to one vector of samples, but
// to no fewer than PART_LEAST, so that each cache line of its tensors is used whole while it is in the cache.
enum { NEAR_CACHES = 4, PART_LEAST = 8 };

// Target size of a chunk's activations and gradients: the second-level cache of most cores.
static const size_t cache_bytes = 512 * 1024;

static float *carve_floats(Carver *carver, size_t floats) {
    return carve(carver, floats * sizeof(float));
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

// Number of samples side by side in layer l's tensors.
static int samples_at(const ChunkPlan *chunk, int l) {
    assert(l >= SPEC_INPUT && chunk->part > 0 && chunk->samples % chunk->part == 0);
    return l < chunk->head ? chunk->part : chunk->samples;
}

// Number of parts in layer l's tensors.
static size_t parts_at(const ChunkPlan *chunk, int l) {
    return l < chunk->head ? (size_t)buffers_parts(chunk, chunk->samples) : 1;
}

static float *carve_some(Carver *carver, size_t floats) {
    return floats > 0 ? carve_floats(carver, floats) : NULL;
}

// Places everything that the layer needs besides its values and gradients. A layer's scratch is shared by all layers,
// so only the largest counts. The first layer that learns needs no scratch for its input's gradient. `room` is asked
// for the samples that go through the layer together, which are a part's or the chunk's; statistics and masks are kept
// for all parts, since they wait for the backward pass.
static void carve_layer(LayerBuffers *at, Carver *carver, const Layer *layer, const Kernels *kernels, size_t *scratch,
                        int samples, size_t parts, bool is_first) {
    const LayerType *type = layer_type(layer);
    const LayerRoom room = type->room ? type->room(layer, kernels, samples) : (LayerRoom){0};
    assert(samples > 0 && parts > 0);
    at->packed = carve_some(carver, room.packed);
    at->packed_gradient = carve_some(carver, room.packed_gradient);
    // A layer that can head a net adds straight to the caller's gradient or velocity; the others' gradients are summed
    // over chunks here.
    at->gradient = layer_has(layer, HEADS) ? NULL : carve_some(carver, layer_parameters(layer));
    at->rows = carve_some(carver, room.rows);
    at->steps.statistics = room.statistics;
    at->statistics = carve_some(carver, parts * room.statistics);
    at->steps.keep = (room.keep + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (room.keep > 0) at->keep = carve(carver, parts * at->steps.keep);
    *scratch = larger(*scratch, room.scratch);
    if (!is_first) *scratch = larger(*scratch, room.input_scratch);
}

// Floats of layer l's value, or of the net's input, for all samples of a part.
static size_t value_floats(const Spec *spec, const ChunkPlan *chunk, int l) {
    const Shape shape = l == SPEC_INPUT ? spec->input : spec->layers[l].out;
    return shape_size(shape) * (size_t)samples_at(chunk, l);
}

// Places a layer's value, or shares its source's place if the flow says that it works in place. The head's first layer
// after a body has no `in`: body_forward writes its samples as rows.
static void carve_values(LayerBuffers *at, NetBuffers *buffers, Carver *carver, const Flow *flow, const Spec *spec,
                         int l) {
    const ChunkPlan *chunk = &buffers->chunk;
    const Layer *layer = &spec->layers[l];
    const bool takes_rows = l == chunk->head && l > 0;
    *at = (LayerBuffers){.in = takes_rows                    ? NULL
                               : layer->source == SPEC_INPUT ? buffers->input
                                                             : buffers->layers[layer->source].out,
                         .other = layer->other == SPEC_INPUT ? NULL : buffers->layers[layer->other].out,
                         .steps = {.in = value_floats(spec, chunk, layer->source),
                                   .out = value_floats(spec, chunk, l),
                                   .other = value_floats(spec, chunk, layer->other)}};
    at->out = flow->places[l].owner == l ? carve_floats(carver, parts_at(chunk, l) * at->steps.out) : at->in;
    assert(flow->places[l].owner == l || at->steps.in == at->steps.out); // a value in place has its source's size
}

// Places everything that the forward pass writes, layer by layer.
static void carve_forward(NetBuffers *buffers, Carver *carver, const Flow *flow, const Spec *spec,
                          const Kernels *kernels) {
    const ChunkPlan *chunk = &buffers->chunk;
    size_t scratch = 0, n = (size_t)chunk->samples;
    bool is_first = true; // no earlier layer learns
    // A net that begins with a linear layer gets its samples as rows of that layer.
    buffers->input = layer_has(&spec->layers[0], HEADS)
                         ? NULL
                         : carve_floats(carver, parts_at(chunk, 0) * value_floats(spec, chunk, SPEC_INPUT));
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        LayerBuffers *at = &buffers->layers[l];
        carve_values(at, buffers, carver, flow, spec, l);
        carve_layer(at, carver, layer, kernels, &scratch, samples_at(chunk, l), parts_at(chunk, l), is_first);
        is_first = is_first && !layer_learns(layer);
    }
    buffers->scratch = carve_floats(carver, scratch);
    buffers->labels = carve(carver, n * sizeof *buffers->labels);
    buffers->targets = carve_floats(carver, spec->squared_loss                      ? n
                                            : spec->label_rows || spec->one_vs_rest ? n * (size_t)spec->classes
                                                                                    : 0);
    buffers->images = carve(
        carver, augment_is_on(&spec->augment) || spec->trigger ? shape_size(spec->input) * (size_t)chunk->part : 0);
}

// The memory of a slot, and in *step the distance between its parts: 0, except for the one slot between head and body.
// The head writes that slot for all parts at once, before the body reads it part by part.
static float *gradient_at(size_t *step, const NetBuffers *buffers, const Flow *flow, int slot) {
    *step = 0;
    if (slot == FLOW_NOWHERE) return NULL;
    if (flow_is_over_value(slot)) {
        const LayerBuffers *of = &buffers->layers[flow_over_value(slot)];
        *step = of->steps.out;
        return of->out;
    }
    if (slot == flow->kept) *step = flow->slots[slot] / parts_at(&buffers->chunk, 0);
    return buffers->gradients[slot];
}

// Places the slots of gradients, and gives every layer the slots that the flow chose for it. Slots hold the samples of
// one part, as a part's backward pass is over before the next one's begins.
static void carve_backward(NetBuffers *buffers, Carver *carver, const Flow *flow, const Spec *spec) {
    for (int slot = 0; slot < flow->slot_count; slot++)
        buffers->gradients[slot] = carve_floats(carver, flow->slots[slot]);
    for (int l = 0; l < spec->layer_count; l++) {
        const FlowPlace *place = &flow->places[l];
        LayerBuffers *at = &buffers->layers[l];
        PartSteps *steps = &at->steps;
        at->works = place->works;
        at->out_gradient = gradient_at(&steps->out_gradient, buffers, flow, place->gradient);
        at->in_gradient = gradient_at(&steps->in_gradient, buffers, flow, place->in_gradient);
        at->adds = place->adds;
        at->sum = gradient_at(&steps->sum, buffers, flow, place->sum);
        at->other_gradient = gradient_at(&steps->other_gradient, buffers, flow, place->other_gradient);
        at->other_adds = place->other_adds;
    }
}

static void move(float **tensor, size_t step, int number) {
    if (*tensor) *tensor += step * (size_t)number;
}

// Tensors of a part are a constant distance from those of the first part, so a pass over part `number` uses the first
// part's table with moved pointers. Part 0, which is all of a small batch, needs no copy of the table.
const LayerBuffers *buffers_part(LayerBuffers *moved, const NetBuffers *buffers, int l, int number) {
    const PartSteps *steps = &buffers->layers[l].steps;
    assert(number >= 0 && number < buffers_parts(&buffers->chunk, buffers->chunk.samples));
    if (number == 0) return &buffers->layers[l];
    *moved = buffers->layers[l];
    move(&moved->in, steps->in, number);
    move(&moved->out, steps->out, number);
    move(&moved->other, steps->other, number);
    move(&moved->in_gradient, steps->in_gradient, number);
    move(&moved->out_gradient, steps->out_gradient, number);
    move(&moved->sum, steps->sum, number);
    move(&moved->other_gradient, steps->other_gradient, number);
    move(&moved->statistics, steps->statistics, number);
    if (moved->keep) moved->keep += steps->keep * (size_t)number;
    return moved;
}

// A relu after a layer that RECTIFIES is marked in both layers if it is the layer's only reader: otherwise other
// readers would see rectified values. For the backward pass the order is reversed: a layer can apply the relu's
// backward pass to the gradient that it writes only if no other reader adds to that gradient afterwards, that is, if it
// is the relu's only reader, or, for a convolution, which adds to what is there, the relu's first reader.
void buffers_join_relus(Spec *spec) {
    const SpecReaders readers = spec_readers(spec);
    for (int l = 1; l < spec->layer_count; l++) {
        Layer *layer = &spec->layers[l], *source = layer->source == SPEC_INPUT ? NULL : &spec->layers[layer->source];
        if (!source) continue;
        const bool only = readers.count[layer->source] == 1;
        if (only && layer->kind == LAYER_RELU && layer_has(source, RECTIFIES))
            source->rectifies = layer->rectifies = true;
        const bool ends = (layer_has(layer, RECTIFIED_ALONE) && only) ||
                          (layer_has(layer, RECTIFIED_LAST) && readers.first[layer->source] == l);
        if (ends && source->kind == LAYER_RELU) source->rectified = layer->rectified = true;
    }
}

// Describes the layers to flow_plan. Sizes are those of the samples that go through a layer together. The head's first
// layer `keeps`: its input's gradient holds all parts of the chunk and must survive until the body has read them.
static void plan(Flow *flow, const Spec *spec, const ChunkPlan *chunk) {
    FlowNode nodes[SPEC_MAX_LAYERS];
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        const size_t n = (size_t)samples_at(chunk, l);
        assert(layer->source < l && layer->other < l && layer->source >= SPEC_INPUT && layer->other >= SPEC_INPUT);
        // An addition can write over its source's value if the source's backward pass does not read that.
        const bool overwrites_sum = layer_has(layer, IS_SUM) && layer->source != SPEC_INPUT &&
                                    layer_has(&spec->layers[layer->source], SUM_OVERWRITES);
        nodes[l] = (FlowNode){.source = layer->source,
                              .other = layer->other,
                              .has_parameters = layer_learns(layer),
                              .in_place = overwrites_sum || layer_has(layer, IN_PLACE),
                              .overwrites = layer_has(layer, OVERWRITES_INPUT) && layer_is_plain(layer),
                              .looks_back = layer_has(layer, READS_OUTPUT) && !layer->rectified,
                              .passes = layer_has(layer, PASSES_GRADIENT | PASSES_A_PART),
                              .adds = layer_has(layer, ADDS_GRADIENT),
                              .keeps = l == chunk->head && l > 0,
                              .in = shape_size(layer->in) * n,
                              .out = shape_size(layer->out) * n};
    }
    flow_plan(flow, nodes, spec->layer_count);
}

size_t buffers_carve(NetBuffers *buffers, char *base, const Spec *spec, const Kernels *kernels, ChunkPlan chunk) {
    assert((uintptr_t)base % ARENA_ALIGNMENT == 0);
    Carver carver = {.base = base, .alignment = ARENA_ALIGNMENT};
    Flow flow;
    buffers->chunk = chunk;
    plan(&flow, spec, &chunk);
    carve_forward(buffers, &carver, &flow, spec, kernels);
    carve_backward(buffers, &carver, &flow, spec);
    assert(carver.used % ARENA_ALIGNMENT == 0 && flow.slot_count <= FLOW_MAX_SLOTS);
    return carver.used;
}

// Adds up the floats that a chunk moves through the cache: of a sample in the layers before `end`, each value twice, as
// a value and as a gradient; and the weights of all layers.
static LayerLoad load_of(const Spec *spec, int end) {
    LayerLoad all = {.floats = shape_size(spec->input)};
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        const LayerLoad load = layer_type(layer)->load ? layer_type(layer)->load(layer) : (LayerLoad){0};
        all.weights += load.weights;
        if (l < end) all.floats += load.floats + (layer_has(layer, IN_PLACE) ? 0 : 2 * shape_size(layer->out));
    }
    return all;
}

// Plans a chunk for a net without a body: hundreds of samples if OpenBLAS multiplies for them; otherwise as many as fit
// the cache, in steps of SAMPLES_UNIT, at most SAMPLES_MOST. At least SAMPLES_UNIT, or twice as many if the weights do
// not fit the cache and every chunk reads them from memory.
static int chunk_of_parts(const Spec *spec, bool through_blas) {
    const LayerLoad load = load_of(spec, spec->layer_count);
    assert(load.floats > 0);
    size_t wide = 0;
    for (int l = 0; l < spec->layer_count; l++)
        if (linear_is_wide(&spec->layers[l])) wide += shape_size(spec->layers[l].in) * shape_size(spec->layers[l].out);
    size_t matching = wide / load.floats / SAMPLES_UNIT * SAMPLES_UNIT;
    if (through_blas && matching >= LINEAR_MANY_SAMPLES)
        return matching > SAMPLES_MOST_THROUGH_BLAS ? SAMPLES_MOST_THROUGH_BLAS : (int)matching;
    size_t samples = cache_bytes / (load.floats * sizeof(float)) / SAMPLES_UNIT * SAMPLES_UNIT;
    size_t least = load.weights * sizeof(float) > cache_bytes ? 2 * SAMPLES_UNIT : SAMPLES_UNIT;
    if (samples < least) return (int)least;
    return samples > SAMPLES_MOST ? SAMPLES_MOST : (int)samples;
}

// The number of the first fully connected layer, provided that all layers before it can work in parts and no layer
// after it reads a value from before it; 0 if the net has no body. Such a split pays because the body's convolutions
// like few samples, whose tensors stay in the cache, and the head's products like many, which share its weights.
static int head_of(const Spec *spec) {
    int head = 0;
    while (head < spec->layer_count && !layer_has(&spec->layers[head], HEADS))
        if (!layer_has(&spec->layers[head++], IN_PARTS)) return 0;
    if (head == spec->layer_count) return 0;
    for (int l = head; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        const bool takes_body = l == head ? layer->source == head - 1 : layer->source >= head;
        if (!takes_body || (layer->other != SPEC_INPUT && layer->other < head)) return 0;
    }
    return head;
}

static int rounded_up(size_t samples, int unit) {
    assert(unit > 0);
    return (int)((samples + (size_t)unit - 1) / (size_t)unit) * unit;
}

// A part has as many samples as the cache holds, in whole vectors. All of a chunk's parts stay in memory while the head
// works on them, so a chunk has many parts only if that saves the head from reading its weights again. An example: a
// net whose body needs 40 KiB per sample and whose head has 2 MiB of weights. The cache holds 12 samples of the body,
// so a part is SAMPLES_UNIT = 16 of them; the weights do not fit the cache, and the chunk has 64 samples, four parts,
// which share one reading of the weights.
static ChunkPlan chunk_in_parts(const Spec *spec, int head, int lanes) {
    const LayerLoad load = load_of(spec, head);
    const bool is_near = SAMPLES_UNIT * load.floats * sizeof(float) <= NEAR_CACHES * cache_bytes;
    const int unit = is_near ? SAMPLES_UNIT : lanes > PART_LEAST ? lanes : PART_LEAST;
    assert(head > 0 && head < spec->layer_count && lanes > 0);
    const size_t fitting = cache_bytes / (load.floats * sizeof(float)) / (size_t)unit * (size_t)unit;
    const int part = fitting < (size_t)unit ? unit : fitting > SAMPLES_MOST ? SAMPLES_MOST : (int)fitting;
    size_t samples = (size_t)part;
    if (load.weights * sizeof(float) > cache_bytes) {
        const size_t matching = HEAD_SHARE * load.weights / load.floats;
        if (matching > samples) samples = matching > HEAD_SAMPLES ? HEAD_SAMPLES : matching;
    }
    return (ChunkPlan){head, rounded_up(samples, part), part};
}

// A net with a wide layer and OpenBLAS takes one large chunk instead of parts, as the product of the wide layer
// outweighs the convolutions. A batch norm needs the whole batch in one chunk.
ChunkPlan buffers_chunk(const Spec *spec, int lanes, bool through_blas) {
    const int head = through_blas || spec_needs_whole_batches(spec) ? 0 : head_of(spec);
    if (head > 0) return chunk_in_parts(spec, head, lanes);
    const int parts = chunk_of_parts(spec, through_blas);
    const int whole = rounded_up((size_t)spec->whole_batch, SAMPLES_UNIT);
    const int samples = spec_needs_whole_batches(spec) && whole > parts ? whole : parts;
    return (ChunkPlan){0, samples, samples};
}
