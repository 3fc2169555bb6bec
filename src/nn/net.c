#include "net.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGNMENT = 64, SAMPLES_UNIT = 16, SAMPLES_MOST = 128 };

// A chunk's activations and gradients should fit in what most cores have as second-level cache.
static const size_t cache_bytes = 512 * 1024;

// Winograd's transforms pay off once enough channels share them.
enum { WINOGRAD_LEAST_CHANNELS = 6 };

// Where a layer's tensors lie in the arena. (C,H,W,N); relu and dropout work in place: their in and out coincide.
typedef struct LayerBuffers {
    const ConvKernels *conv; // how a convolution is computed; NULL for other layers
    float *in, *out;
    float *in_gradient; // NULL if nobody needs it
    float *out_gradient;
    float *packed, *packed_gradient; // of a convolution
    float *slopes;                   // of a convolution: its weight's gradient and its bias's
    float *rows;                     // of a linear layer: its input, sample by sample
    int8_t *keep;                    // dropout: (elements,N) or (channels,N)
} LayerBuffers;

typedef struct NetBuffers {
    LayerBuffers layers[SPEC_MAX_LAYERS];
    float *gradients[2]; // the outputs' and the inputs' gradient take turns in them
    float *scratch;
    uint8_t *labels; // (N)
    int first_layer; // the first with parameters: the way back ends there
} NetBuffers;

// ---- Carving the arena. One walk over the layers places everything; with base NULL it only measures.

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

static bool in_place(LayerKind kind) {
    return kind == LAYER_RELU || kind == LAYER_DROPOUT || kind == LAYER_DROPOUT2D;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

// How many features a dropout layer decides about.
static size_t dropout_features(const Layer *layer) {
    return layer->kind == LAYER_DROPOUT2D ? (size_t)layer->in.channels : shape_size(layer->in);
}

// Floats of a convolution's parameters: the bias lies behind the weight.
static size_t parameters_of(const Layer *layer) {
    return layer->bias - layer->weight + (size_t)layer->out.channels;
}

static void carve_forward(NetBuffers *buffers, Carver *carver, const Spec *spec, const Kernels *kernels, int samples) {
    size_t scratch = 0, n = (size_t)samples;
    buffers->first_layer = spec->layer_count;
    float *values = carve_floats(carver, shape_size(spec->input) * n);
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        LayerBuffers *at = &buffers->layers[l];
        *at = (LayerBuffers){.in = values};
        if (!in_place(layer->kind)) values = carve_floats(carver, shape_size(layer->out) * n);
        at->out = values;
        if (layer->kind == LAYER_CONV) {
            bool transformed =
                (layer->kernel == 3 || layer->kernel == 5) && layer->in.channels >= WINOGRAD_LEAST_CHANNELS;
            at->conv = transformed ? &kernels->winograd : &kernels->conv;
            ConvSizes sizes = at->conv->sizes(layer);
            at->packed = carve_floats(carver, sizes.packed);
            at->packed_gradient = carve_floats(carver, sizes.gradient);
            at->slopes = carve_floats(carver, parameters_of(layer));
            scratch = larger(scratch, sizes.scratch);
        }
        if (layer->kind == LAYER_LINEAR) {
            at->rows = carve_floats(carver, linear_row_floats(layer) * n);
            if (l > buffers->first_layer) scratch = larger(scratch, linear_scratch_floats(layer, samples));
        }
        if (layer->kind == LAYER_DROPOUT || layer->kind == LAYER_DROPOUT2D)
            at->keep = carve(carver, dropout_features(layer) * n);
        bool parameters = layer->kind == LAYER_CONV || layer->kind == LAYER_LINEAR;
        if (parameters && l < buffers->first_layer) buffers->first_layer = l;
    }
    buffers->scratch = carve_floats(carver, scratch);
    buffers->labels = carve(carver, n);
}

// Pooling may write its input's gradient over the input, unless a relu still has to look there.
static bool pool_overwrites(const Spec *spec, int l) {
    for (l--; l >= 0 && in_place(spec->layers[l].kind); l--)
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
        else if (!in_place(layer->kind))
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
        gradient = targets[l] != ELSEWHERE          ? buffers->gradients[targets[l]]
                   : in_place(spec->layers[l].kind) ? gradient
                                                    : at->in;
        at->in_gradient = gradient;
    }
}

static size_t carve_all(NetBuffers *buffers, char *base, const Spec *spec, const Kernels *kernels, int samples) {
    Carver carver = {base, 0};
    carve_forward(buffers, &carver, spec, kernels, samples);
    carve_backward(buffers, &carver, spec, samples);
    return carver.used;
}

// As many samples as the cache holds: fat matrices for nets of linear layers, 16 for most others.
static int choose_chunk(const Spec *spec) {
    size_t floats = shape_size(spec->input);
    for (int l = 0; l < spec->layer_count; l++)
        if (!in_place(spec->layers[l].kind)) floats += 2 * shape_size(spec->layers[l].out);
    size_t samples = cache_bytes / (floats * sizeof(float)) / SAMPLES_UNIT * SAMPLES_UNIT;
    if (samples < SAMPLES_UNIT) return SAMPLES_UNIT;
    return samples > SAMPLES_MOST ? SAMPLES_MOST : (int)samples;
}

Status net_init(Net *net, const Spec *spec, const Kernels *kernels, Error *err) {
    *net = (Net){.spec = *spec, .kernels = kernels, .chunk = choose_chunk(spec)};
    net->buffers = malloc(sizeof *net->buffers);
    if (!net->buffers) goto fail;
    net->arena_bytes = carve_all(net->buffers, NULL, &net->spec, kernels, net->chunk);
    net->arena = aligned_alloc(ARENA_ALIGNMENT, net->arena_bytes);
    if (!net->arena) goto fail;
    carve_all(net->buffers, net->arena, &net->spec, kernels, net->chunk);
    return STATUS_OK;
fail:
    free(net->buffers);
    return fail_errno(err, STATUS_OS,
                      "no memory for the net's %zu bytes of activations; use fewer workers or a smaller net",
                      net->arena_bytes);
}

void net_free(Net *net) {
    free(net->arena);
    free(net->buffers);
    *net = (Net){0};
}

// ---- Work on one chunk.

// A part of a batch: `count` samples from `first` on, in `samples` lanes.
typedef struct Chunk {
    uint32_t first;
    int count, samples;
} Chunk;

static Chunk chunk_at(const Net *net, const Batch *batch, uint32_t first) {
    uint32_t left = batch->count - first;
    int count = left < (uint32_t)net->chunk ? (int)left : net->chunk, lanes = net->kernels->lanes;
    return (Chunk){first, count, (count + lanes - 1) / lanes * lanes};
}

static void load_chunk(Net *net, const Batch *batch, Chunk chunk) {
    const uint32_t *indices = batch->indices ? batch->indices + chunk.first : NULL;
    uint32_t first = batch->first + chunk.first;
    net->kernels->gather(net->buffers->layers[0].in, batch->pixels, indices, first, batch->scale, batch->shift,
                         net->spec.input, chunk.count, chunk.samples);
    for (int s = 0; s < chunk.count; s++)
        net->buffers->labels[s] = batch->labels[indices ? indices[s] : first + (uint32_t)s];
}

static void dropout_forward(const Net *net, const LayerBuffers *at, int l, const Noise *noise, Chunk chunk) {
    const Layer *layer = &net->spec.layers[l];
    size_t features = dropout_features(layer);
    DropoutNoise drawn = {.key = rng_key(noise->seed, RNG_DROPOUT, noise->round, noise->client, (uint32_t)l),
                          .first_sample = chunk.first,
                          .step = noise->step,
                          .rate = layer->rate};
    net->kernels->dropout_draw(at->keep, &drawn, features, chunk.samples);
    net->kernels->dropout_apply(at->out, at->keep, layer->rate, features, shape_size(layer->in) / features,
                                chunk.samples);
}

// What a batch's way through the net and back is for: a gradient, or a step of SGD.
typedef struct Pass {
    const float *parameters;
    float *stepping; // the parameters again if they are to change; NULL if not
    float *gradient; // or the velocity, if they are
    Sgd sgd;
    const Noise *noise;
    uint32_t count; // samples of the batch
} Pass;

static void forward(Net *net, const float *parameters, const Noise *noise, Chunk chunk) {
    const Kernels *kernels = net->kernels;
    for (int l = 0; l < net->spec.layer_count; l++) {
        const Layer *layer = &net->spec.layers[l];
        const LayerBuffers *at = &net->buffers->layers[l];
        switch (layer->kind) {
        case LAYER_CONV:
            at->conv->forward(at->out, net->buffers->scratch, at->in, at->packed, parameters + layer->bias, layer,
                              chunk.count, chunk.samples);
            break;
        case LAYER_POOL:
            kernels->pool_forward(at->out, at->in, layer, chunk.samples);
            break;
        case LAYER_RELU:
            kernels->relu_forward(at->out, shape_size(layer->out), chunk.samples);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D:
            if (noise) dropout_forward(net, at, l, noise, chunk);
            break;
        case LAYER_LINEAR:
            kernels->linear_forward(at->out, at->rows, at->in, parameters + layer->weight, parameters + layer->bias,
                                    layer, chunk.count, chunk.samples);
            break;
        }
    }
}

// Chunks add up; the batch's last one completes the step.
static void linear_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass, Chunk chunk) {
    const Kernels *kernels = net->kernels;
    if (at->in_gradient)
        kernels->linear_backward_input(at->in_gradient, net->buffers->scratch, at->out_gradient,
                                       pass->parameters + layer->weight, layer, chunk.count, chunk.samples);
    bool step = pass->stepping && chunk.first + (uint32_t)chunk.count == pass->count;
    Descent descent = {
        .keep = chunk.first > 0 ? 1 : pass->sgd.momentum, .lr = pass->sgd.lr, .weight_decay = pass->sgd.weight_decay};
    kernels->linear_backward_weight(pass->gradient + layer->weight, pass->gradient + layer->bias,
                                    step ? pass->stepping + layer->weight : NULL,
                                    step ? pass->stepping + layer->bias : NULL, at->rows, at->out_gradient, &descent,
                                    layer, chunk.count, chunk.samples);
}

// From the logits' gradient back to the first layer with parameters, whose input gradient nobody needs.
static void backward(Net *net, const Pass *pass, Chunk chunk) {
    const Kernels *kernels = net->kernels;
    for (int l = net->spec.layer_count - 1; l >= net->buffers->first_layer; l--) {
        const Layer *layer = &net->spec.layers[l];
        const LayerBuffers *at = &net->buffers->layers[l];
        switch (layer->kind) {
        case LAYER_CONV:
            at->conv->backward(at->packed_gradient, at->slopes + (layer->bias - layer->weight), at->in_gradient,
                               net->buffers->scratch, at->in, at->out_gradient, at->packed, layer, chunk.count,
                               chunk.samples);
            break;
        case LAYER_POOL:
            kernels->pool_backward(at->in_gradient, at->in, at->out_gradient, layer, chunk.samples);
            break;
        case LAYER_RELU:
            kernels->relu_backward(at->out_gradient, at->out, shape_size(layer->out), chunk.samples);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D: {
            size_t features = dropout_features(layer);
            if (pass->noise)
                kernels->dropout_apply(at->out_gradient, at->keep, layer->rate, features,
                                       shape_size(layer->in) / features, chunk.samples);
            break;
        }
        case LAYER_LINEAR:
            linear_backward(net, at, layer, pass, chunk);
            break;
        }
    }
}

// ---- Whole batches.

static void pack_convolutions(Net *net, const float *parameters) {
    for (int l = 0; l < net->spec.layer_count; l++) {
        const LayerBuffers *at = &net->buffers->layers[l];
        const Layer *layer = &net->spec.layers[l];
        if (at->conv) at->conv->pack(at->packed, parameters + layer->weight, layer);
    }
}

// Convolutions add to their gradients chunk by chunk, from zero.
static void zero_convolutions(Net *net) {
    for (int l = 0; l < net->spec.layer_count; l++) {
        const LayerBuffers *at = &net->buffers->layers[l];
        const Layer *layer = &net->spec.layers[l];
        if (!at->conv) continue;
        memset(at->packed_gradient, 0, at->conv->sizes(layer).gradient * sizeof *at->packed_gradient);
        memset(at->slopes, 0, parameters_of(layer) * sizeof *at->slopes);
    }
}

static void finish_convolutions(Net *net, const Pass *pass) {
    for (int l = 0; l < net->spec.layer_count; l++) {
        const LayerBuffers *at = &net->buffers->layers[l];
        const Layer *layer = &net->spec.layers[l];
        if (!at->conv) continue;
        at->conv->unpack(at->slopes, at->packed_gradient, layer);
        size_t count = parameters_of(layer);
        if (pass->stepping)
            net->kernels->sgd_step(pass->stepping + layer->weight, pass->gradient + layer->weight, at->slopes,
                                   pass->sgd.lr, pass->sgd.momentum, pass->sgd.weight_decay, count);
        else
            memcpy(pass->gradient + layer->weight, at->slopes, count * sizeof *at->slopes);
    }
}

static const float *logits_of(const Net *net) {
    return net->buffers->layers[net->spec.layer_count - 1].out;
}

// There and back. The batch is not empty. Returns the sum of the samples' losses.
static double train(Net *net, const Pass *pass, const Batch *batch) {
    pack_convolutions(net, pass->parameters);
    zero_convolutions(net);
    float scale = 1.0f / (float)batch->count;
    double loss_sum = 0;
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->chunk) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, chunk);
        forward(net, pass->parameters, pass->noise, chunk);
        loss_sum +=
            net->kernels->softmax_cross_entropy(net->buffers->gradients[0], NULL, logits_of(net), net->buffers->labels,
                                                scale, net->spec.classes, chunk.count, chunk.samples);
        backward(net, pass, chunk);
    }
    finish_convolutions(net, pass);
    return loss_sum;
}

void net_gradient(Net *net, float *gradient, BatchResult *result, const float *parameters, const Batch *batch,
                  const Noise *noise) {
    *result = (BatchResult){0};
    Pass pass = {.parameters = parameters, .gradient = gradient, .noise = noise, .count = batch->count};
    if (batch->count > 0)
        result->loss_sum = train(net, &pass, batch);
    else
        memset(gradient, 0, net->spec.parameter_count * sizeof *gradient);
}

void net_train_step(Net *net, float *parameters, float *velocity, BatchResult *result, const Sgd *sgd,
                    const Batch *batch, const Noise *noise) {
    *result = (BatchResult){0};
    Pass pass = {.parameters = parameters,
                 .stepping = parameters,
                 .gradient = velocity,
                 .sgd = *sgd,
                 .noise = noise,
                 .count = batch->count};
    if (batch->count > 0) result->loss_sum = train(net, &pass, batch);
}

void net_evaluate(Net *net, BatchResult *result, const float *parameters, const Batch *batch) {
    *result = (BatchResult){0};
    pack_convolutions(net, parameters);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->chunk) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, chunk);
        forward(net, parameters, NULL, chunk);
        uint32_t hits;
        result->loss_sum += net->kernels->softmax_cross_entropy(NULL, &hits, logits_of(net), net->buffers->labels, 1,
                                                                net->spec.classes, chunk.count, chunk.samples);
        result->hits += hits;
    }
}

void net_logits(Net *net, float *logits, const float *parameters, const Batch *batch) {
    pack_convolutions(net, parameters);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->chunk) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, chunk);
        forward(net, parameters, NULL, chunk);
        for (int s = 0; s < chunk.count; s++)
            for (int k = 0; k < net->spec.classes; k++)
                *logits++ = logits_of(net)[k * chunk.samples + s];
    }
}
