#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/blas.h"
#include "nn/buffers.h"
#include "nn/linear_blas.h"
#include "nn/regression.h"

// Whether the shapes want OpenBLAS, in chunks as large as they come, and the user allows it.
static Status wants_blas(bool *wants, const Spec *spec, Error *err) {
    bool allowed;
    TRY(blas_allowed(&allowed, err));
    int chunk = buffers_chunk(spec, true);
    *wants = false;
    for (int l = 0; l < spec->layer_count && allowed; l++)
        *wants |= linear_blas_pays(&spec->layers[l], chunk) || linear_blas_pays_backward(&spec->layers[l], chunk);
    return STATUS_OK;
}

Status net_blas_name(char name[NET_BLAS_NAME_BYTES], const Spec *spec, const Kernels *kernels, Error *err) {
    *name = 0;
    bool wants;
    TRY(wants_blas(&wants, spec, err));
    if (!wants) return STATUS_OK;
    Blas *blas;
    TRY(blas_open(&blas, kernels, err));
    snprintf(name, NET_BLAS_NAME_BYTES, "%s", blas_name(blas));
    blas_close(blas);
    return STATUS_OK;
}

static Status allocate(Net *net, Error *err) {
    net->buffers = malloc(sizeof *net->buffers);
    if (net->buffers) {
        net->arena_bytes = buffers_carve(net->buffers, NULL, &net->spec, net->kernels, net->chunk);
        net->arena = aligned_alloc(ARENA_ALIGNMENT, net->arena_bytes);
    }
    if (!net->arena)
        return fail_errno(err, STATUS_OS,
                          "no memory for the net's %zu bytes of activations; use fewer workers or a smaller net",
                          net->arena_bytes);
    buffers_carve(net->buffers, net->arena, &net->spec, net->kernels, net->chunk);
    return STATUS_OK;
}

Status net_init(Net *net, const Spec *spec, const Kernels *kernels, Error *err) {
    bool through_blas;
    TRY(wants_blas(&through_blas, spec, err));
    *net = (Net){.spec = *spec, .kernels = kernels, .chunk = buffers_chunk(spec, through_blas)};
    Status status = through_blas ? blas_open(&net->blas, kernels, err) : STATUS_OK;
    if (status == STATUS_OK) status = allocate(net, err);
    if (status != STATUS_OK) net_free(net);
    return status;
}

void net_free(Net *net) {
    free(net->arena);
    free(net->buffers);
    blas_close(net->blas);
    *net = (Net){0};
}

// Work on one chunk ---------------------------------------------------------------------------------------------------

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

static void load_values(Net *net, const Batch *batch, const uint32_t *indices, uint32_t first, Chunk chunk) {
    const LayerBuffers *to = &net->buffers->layers[0];
    const float *values = (const float *)(const void *)batch->pixels;
    size_t size = shape_size(net->spec.input);
    if (to->in)
        values_gather(to->in, values, indices, first, size, chunk.count, chunk.samples);
    else
        values_gather_rows(to->rows, values, indices, first, size, linear_row_floats(&net->spec.layers[0]),
                           chunk.count);
}

static int smaller(uint32_t a, int b) {
    return a < (uint32_t)b ? (int)a : b;
}

static void load_images(Net *net, const Batch *batch, const uint32_t *indices, uint32_t first, const Noise *noise,
                        Chunk chunk) {
    const LayerBuffers *to = &net->buffers->layers[0];
    const Shape shape = net->spec.input;
    const uint8_t *pixels = batch->pixels;
    uint8_t *images = net->buffers->images;
    const bool augments = noise && augment_is_on(&net->spec.augment), marks = batch->triggered > chunk.first;
    if (augments)
        augment_images(images, pixels, indices, first, &net->spec.augment, shape, noise, chunk.first, chunk.count);
    else if (marks)
        augment_copy(images, pixels, indices, first, shape, chunk.count);
    if (marks) augment_mark(images, net->spec.trigger, shape, smaller(batch->triggered - chunk.first, chunk.count));
    if (augments || marks) {
        pixels = images;
        indices = NULL;
        first = 0;
    }
    if (to->in)
        net->kernels->gather(to->in, pixels, indices, first, batch->scale, batch->shift, shape, chunk.count,
                             chunk.samples);
    else
        net->kernels->gather_rows(to->rows, pixels, indices, first, batch->scale, batch->shift, shape,
                                  linear_row_floats(&net->spec.layers[0]), chunk.count);
}

// noise: as in forward.
static void load_chunk(Net *net, const Batch *batch, const Noise *noise, Chunk chunk) {
    const uint32_t *indices = batch->indices ? batch->indices + chunk.first : NULL;
    uint32_t first = batch->first + chunk.first;
    if (net->spec.float_input)
        load_values(net, batch, indices, first, chunk);
    else
        load_images(net, batch, indices, first, noise, chunk);
    for (int s = 0; s < chunk.count; s++) {
        uint32_t sample = indices ? indices[s] : first + (uint32_t)s;
        if (net->spec.squared_loss)
            net->buffers->targets[s] = ((const float *)(const void *)batch->labels)[sample];
        else
            net->buffers->labels[s] = batch->label_of ? batch->label_of[batch->labels[sample]] : batch->labels[sample];
        if (chunk.first + (uint32_t)s < batch->triggered) net->buffers->labels[s] = batch->trigger_label;
    }
}

static const float *logits_of(const Net *net) {
    return net->buffers->layers[net->spec.layer_count - 1].out;
}

static double loss_of(const Net *net, float *gradient, uint32_t *hits, float scale, Chunk chunk) {
    const float *outputs = logits_of(net);
    if (net->spec.squared_loss)
        return squared_loss(gradient, hits, outputs, net->buffers->targets, scale, chunk.count, chunk.samples);
    return net->kernels->softmax_cross_entropy(gradient, hits, outputs, net->buffers->labels, scale, net->spec.classes,
                                               chunk.count, chunk.samples);
}

static void dropout_forward(const Net *net, const LayerBuffers *at, int l, const Noise *noise, Chunk chunk) {
    const Layer *layer = &net->spec.layers[l];
    size_t features = dropout_features(layer);
    DropoutNoise drawn = {.key = rng_key(noise->seed, RNG_DROPOUT, noise->round, noise->client, (uint32_t)l),
                          .first_sample = noise->first_sample + chunk.first,
                          .step = noise->step,
                          .rate = layer->rate};
    net->kernels->dropout_draw(at->keep, &drawn, features, chunk.samples);
    net->kernels->dropout_apply(at->out, at->keep, layer->rate, features, shape_size(layer->in) / features,
                                chunk.samples);
}

// What a batch's way through the net and back is for: a gradient, or a step of SGD.
typedef struct Pass {
    const float *parameters;
    float *stepping;    // the parameters again if they are to change; NULL if not
    float *gradient;    // or the velocity, if they are
    const float *shift; // of the slopes, if they are; NULL: none
    Sgd sgd;
    const Noise *noise;
    uint32_t count; // samples of the batch
} Pass;

static void linear_forward(const Net *net, const LayerBuffers *at, const Layer *layer, const float *parameters,
                           Chunk chunk) {
    const float *weight = parameters + layer->weight, *bias = parameters + layer->bias;
    if (net->blas && linear_blas_pays(layer, chunk.count))
        linear_blas_forward(at->out, net->blas, at->in, at->rows, weight, bias, layer, chunk.count, chunk.samples);
    else
        net->kernels->linear_forward(at->out, at->rows, at->in, weight, bias, layer, chunk.count, chunk.samples);
}

// What works in place works on a copy where others take its input, too.
static void bring_over(const LayerBuffers *at, const Layer *layer, Chunk chunk) {
    if (at->out != at->in) memcpy(at->out, at->in, shape_size(layer->out) * (size_t)chunk.samples * sizeof *at->out);
}

// One behind the other: channels come first in all tensors.
static void concat_forward(const LayerBuffers *at, const Layer *layer, Chunk chunk) {
    const size_t n = (size_t)chunk.samples, all = shape_size(layer->out) * n, own = shape_size(layer->in) * n;
    memcpy(at->out, at->in, own * sizeof *at->out);
    memcpy(at->out + own, at->other, (all - own) * sizeof *at->out);
}

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
        case LAYER_NORM:
            kernels->norm_forward(at->out, at->statistics, at->in, parameters + layer->weight, parameters + layer->bias,
                                  layer, chunk.samples);
            break;
        case LAYER_ADD:
            kernels->add(at->out, at->in, at->other, shape_size(layer->out), chunk.samples);
            break;
        case LAYER_CONCAT:
            concat_forward(at, layer, chunk);
            break;
        case LAYER_AVERAGE:
            kernels->average_forward(at->out, at->in, layer, chunk.samples);
            break;
        case LAYER_ACTIVATION:
            kernels->activation_forward(at->out, at->in, layer, chunk.samples);
            break;
        case LAYER_RELU:
            bring_over(at, layer, chunk);
            kernels->relu_forward(at->out, shape_size(layer->out), chunk.samples);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D:
            bring_over(at, layer, chunk);
            if (noise) dropout_forward(net, at, l, noise, chunk);
            break;
        case LAYER_LINEAR:
            linear_forward(net, at, layer, parameters, chunk);
            break;
        }
    }
}

// Chunks add up; the batch's last one completes the gradient, or the step.
static bool is_last(const Pass *pass, Chunk chunk) {
    return chunk.first + (uint32_t)chunk.count == pass->count;
}

static void linear_backward_input(const Net *net, const LayerBuffers *at, const Layer *layer, const float *weight,
                                  Chunk chunk) {
    if (net->blas && linear_blas_pays_backward(layer, chunk.count))
        linear_blas_backward_input(at->in_gradient, net->blas, at->out_gradient, weight, layer, chunk.count,
                                   chunk.samples);
    else
        net->kernels->linear_backward_input(at->in_gradient, net->buffers->scratch, at->out_gradient, weight, layer,
                                            chunk.count, chunk.samples);
}

// Whether a step leaves the layer's parameters as they are.
static bool stands_still(const Net *net, const Layer *layer, const Pass *pass) {
    return pass->stepping && layer->weight >= net->still_first && layer->weight < net->still_end;
}

static void linear_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass, Chunk chunk) {
    const Kernels *kernels = net->kernels;
    if (at->in_gradient) linear_backward_input(net, at, layer, pass->parameters + layer->weight, chunk);
    if (stands_still(net, layer, pass)) return;
    bool step = pass->stepping && is_last(pass, chunk);
    Descent descent = {.keep = chunk.first > 0 ? 1 : pass->sgd.momentum,
                       .lr = pass->sgd.lr,
                       .weight_decay = pass->sgd.weight_decay,
                       .upwards = net->steps % 2 != 0};
    if (step && pass->shift) descent.shift = pass->shift + layer->weight;
    float *gradient = pass->gradient + layer->weight, *weight = step ? pass->stepping + layer->weight : NULL;
    if (net->blas && linear_blas_pays(layer, chunk.count))
        linear_blas_backward_weight(gradient, weight, net->blas, at->in, at->rows, at->out_gradient, &descent, layer,
                                    chunk.count, chunk.samples);
    else
        kernels->linear_backward_weight(gradient, weight, at->rows, at->out_gradient, &descent, layer, chunk.count,
                                        chunk.samples);
    if (descent.shift) descent.shift = pass->shift + layer->bias;
    kernels->linear_backward_bias(pass->gradient + layer->bias, step ? pass->stepping + layer->bias : NULL,
                                  at->out_gradient, &descent, layer, chunk.samples);
}

static void bring_back(const LayerBuffers *at, const Layer *layer, Chunk chunk) {
    const size_t count = shape_size(layer->out) * (size_t)chunk.samples;
    if (at->in_gradient != at->out_gradient) memcpy(at->in_gradient, at->out_gradient, count * sizeof *at->in_gradient);
}

static void dropout_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Noise *noise,
                             Chunk chunk) {
    const size_t features = dropout_features(layer);
    bring_back(at, layer, chunk);
    if (noise)
        net->kernels->dropout_apply(at->in_gradient, at->keep, layer->rate, features, shape_size(layer->in) / features,
                                    chunk.samples);
}

static void finish_slopes(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass) {
    if (at->conv) at->conv->unpack(at->slopes, at->packed_gradient, layer);
    size_t count = layer_parameters(layer);
    for (size_t i = 0; i < count && pass->shift; i++)
        at->slopes[i] += pass->shift[layer->weight + i];
    if (pass->stepping)
        net->kernels->sgd_step(pass->stepping + layer->weight, pass->gradient + layer->weight, at->slopes, &pass->sgd,
                               count);
    else
        memcpy(pass->gradient + layer->weight, at->slopes, count * sizeof *at->slopes);
}

// The batch's last chunk has been through the layer.
static void finish_layer(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass) {
    if (!layer_has_parameters(layer)) return;
    if (stands_still(net, layer, pass)) return;
    if (at->slopes) finish_slopes(net, at, layer, pass);
    if (!pass->stepping && net->on_gradient.complete)
        net->on_gradient.complete(net->on_gradient.context, layer->weight);
}

// The gradient of a sum or a join goes to both parts; what goes to the first lies where it is.
static void pass_to_other(const Net *net, const LayerBuffers *at, const Layer *layer, Chunk chunk) {
    if (!at->other_gradient) return;
    const size_t n = (size_t)chunk.samples, behind = layer->kind == LAYER_CONCAT ? shape_size(layer->in) : 0;
    const size_t features = shape_size(layer->out) - behind;
    const float *part = at->out_gradient + behind * n;
    if (at->other_adds)
        net->kernels->add(at->other_gradient, at->other_gradient, part, features, chunk.samples);
    else
        memcpy(at->other_gradient, part, features * n * sizeof *part);
}

static void conv_or_norm_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass,
                                  Chunk chunk) {
    float *bias = at->slopes + (layer->bias - layer->weight);
    if (layer->kind == LAYER_CONV)
        at->conv->backward(at->packed_gradient, bias, at->in_gradient, net->buffers->scratch, at->in, at->out_gradient,
                           at->packed, layer, chunk.count, chunk.samples);
    else
        net->kernels->norm_backward(at->slopes, bias, at->in_gradient, at->statistics, at->in, at->out_gradient,
                                    pass->parameters + layer->weight, layer, chunk.samples);
}

static void layer_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass, Chunk chunk) {
    const Kernels *kernels = net->kernels;
    switch (layer->kind) {
    case LAYER_CONV:
    case LAYER_NORM:
        conv_or_norm_backward(net, at, layer, pass, chunk);
        break;
    case LAYER_POOL:
        kernels->pool_backward(at->in_gradient, at->in, at->out_gradient, layer, chunk.samples);
        break;
    case LAYER_AVERAGE:
        kernels->average_backward(at->in_gradient, at->out_gradient, layer, chunk.samples);
        break;
    case LAYER_ACTIVATION:
        kernels->activation_backward(at->in_gradient, at->in, at->out_gradient, layer, chunk.samples);
        break;
    case LAYER_RELU:
        bring_back(at, layer, chunk);
        kernels->relu_backward(at->in_gradient, at->out, shape_size(layer->out), chunk.samples);
        break;
    case LAYER_DROPOUT:
    case LAYER_DROPOUT2D:
        dropout_backward(net, at, layer, pass->noise, chunk);
        break;
    case LAYER_LINEAR:
        linear_backward(net, at, layer, pass, chunk);
        break;
    case LAYER_ADD:
    case LAYER_CONCAT:
        pass_to_other(net, at, layer, chunk);
        break;
    }
    if (at->sum) kernels->add(at->sum, at->sum, at->in_gradient, shape_size(layer->in), chunk.samples);
}

// From the logits' gradient back to the first layer with parameters, whose input gradient nobody needs.
static void backward(Net *net, const Pass *pass, Chunk chunk) {
    for (int l = net->spec.layer_count - 1; l >= net->buffers->first_layer; l--) {
        const LayerBuffers *at = &net->buffers->layers[l];
        if (!at->works) continue;
        layer_backward(net, at, &net->spec.layers[l], pass, chunk);
        if (is_last(pass, chunk)) finish_layer(net, at, &net->spec.layers[l], pass);
    }
}

// Whole batches -------------------------------------------------------------------------------------------------------

static void pack_convolutions(Net *net, const float *parameters) {
    for (int l = 0; l < net->spec.layer_count; l++) {
        const LayerBuffers *at = &net->buffers->layers[l];
        const Layer *layer = &net->spec.layers[l];
        if (at->conv) at->conv->pack(at->packed, parameters + layer->weight, layer);
    }
}

// Convolutions and norms add to their gradients chunk by chunk, from zero.
static void zero_slopes(Net *net) {
    for (int l = 0; l < net->spec.layer_count; l++) {
        const LayerBuffers *at = &net->buffers->layers[l];
        const Layer *layer = &net->spec.layers[l];
        if (at->conv) memset(at->packed_gradient, 0, at->conv->sizes(layer).gradient * sizeof *at->packed_gradient);
        if (at->slopes) memset(at->slopes, 0, layer_parameters(layer) * sizeof *at->slopes);
    }
}

static void count_progress(const Net *net, Chunk chunk) {
    // Relaxed: whoever watches only looks whether it grows.
    if (net->progress) atomic_fetch_add_explicit(net->progress, (uint64_t)chunk.count, memory_order_relaxed);
}

// There and back. The batch is not empty. Returns the sum of the samples' losses.
static double train(Net *net, const Pass *pass, const Batch *batch) {
    pack_convolutions(net, pass->parameters);
    zero_slopes(net);
    float scale = 1.0f / (float)batch->count;
    double loss_sum = 0;
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->chunk) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, pass->noise, chunk);
        forward(net, pass->parameters, pass->noise, chunk);
        loss_sum += loss_of(net, net->buffers->gradients[0], NULL, scale, chunk);
        backward(net, pass, chunk);
        count_progress(net, chunk);
    }
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
                    const float *shift, const Batch *batch, const Noise *noise) {
    *result = (BatchResult){0};
    Pass pass = {.parameters = parameters,
                 .stepping = parameters,
                 .gradient = velocity,
                 .shift = shift,
                 .sgd = *sgd,
                 .noise = noise,
                 .count = batch->count};
    net->steps++;
    if (batch->count > 0) result->loss_sum = train(net, &pass, batch);
}

void net_evaluate(Net *net, BatchResult *result, const float *parameters, const Batch *batch) {
    *result = (BatchResult){0};
    pack_convolutions(net, parameters);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->chunk) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, NULL, chunk);
        forward(net, parameters, NULL, chunk);
        uint32_t hits;
        result->loss_sum += loss_of(net, NULL, &hits, 1, chunk);
        result->hits += hits;
        count_progress(net, chunk);
    }
}

void net_logits(Net *net, float *logits, const float *parameters, const Batch *batch) {
    pack_convolutions(net, parameters);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->chunk) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, NULL, chunk);
        forward(net, parameters, NULL, chunk);
        for (int s = 0; s < chunk.count; s++)
            for (int k = 0; k < net->spec.classes; k++)
                *logits++ = logits_of(net)[k * chunk.samples + s];
    }
}
