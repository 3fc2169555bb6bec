#include "pass.h"

#include <string.h>

#include "nn/linear_blas.h"

static void dropout_forward(const Net *net, const LayerBuffers *at, int l, const Noise *noise, Chunk chunk) {
    const Layer *layer = &net->spec.layers[l];
    size_t features = dropout_features(layer);
    DropoutNoise drawn = {.key = rng_key(noise->seed, RNG_DROPOUT, noise->round, noise->client, (uint32_t)l),
                          .first_sample = noise->first_sample + chunk.first,
                          .step = noise->step,
                          .rate = layer->rate};
    net->at_work->dropout_draw(at->keep, &drawn, features, chunk.samples);
    net->at_work->dropout_apply(at->out, at->keep, layer->rate, features, shape_size(layer->in) / features,
                                chunk.samples);
}

static void linear_forward(const Net *net, const LayerBuffers *at, const Layer *layer, const float *parameters,
                           Chunk chunk) {
    const float *weight = parameters + layer->weight, *bias = parameters + layer->bias;
    if (net->blas && linear_blas_pays(layer, chunk.count))
        linear_blas_forward(at->out, net->blas, at->in, at->rows, weight, bias, layer, chunk.count, chunk.samples);
    else
        net->at_work->linear_forward(at->out, at->rows, at->in, weight, bias, layer, chunk.count, chunk.samples);
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

static void sequence_forward(const Net *net, const LayerBuffers *at, const Layer *layer, const float *weight,
                             Chunk chunk) {
    const Kernels *kernels = net->at_work;
    if (layer->kind == LAYER_EMBEDDING)
        kernels->embedding_forward(at->out, at->in, weight, layer, chunk.samples);
    else if (layer->kind == LAYER_POSITIONS)
        kernels->positions_forward(at->out, at->in, weight, layer, chunk.samples);
    else if (layer->kind == LAYER_LINEAR_EACH)
        kernels->linear_each_forward(at->out, at->rows, at->in, weight, layer, chunk.count, chunk.samples);
    else if (layer->kind == LAYER_ATTENTION)
        kernels->attention_forward(at->out, at->statistics, at->in, weight, layer, chunk.count, chunk.samples);
    else
        kernels->lstm_forward(at->out, at->statistics, net->buffers->scratch, at->in, weight, layer, chunk.samples);
}

static void layer_forward(const Net *net, const LayerBuffers *at, int l, const float *parameters, const Noise *noise,
                          bool trains, Chunk chunk) {
    const Kernels *kernels = net->at_work;
    const Layer *layer = &net->spec.layers[l];
    switch (layer->kind) {
    case LAYER_CONV:
        buffers_conv(layer, kernels)
            ->forward(at->out, net->buffers->scratch, at->in, at->packed, parameters + layer->bias, layer, chunk.count,
                      chunk.samples);
        break;
    case LAYER_POOL:
        kernels->pool_forward(at->out, at->in, layer, chunk.samples);
        break;
    case LAYER_NORM:
        kernels->norm_forward(at->out, at->statistics, at->in, parameters + layer->weight, parameters + layer->bias,
                              layer, chunk.samples);
        break;
    case LAYER_BATCH_NORM:
        kernels->batch_norm_forward(at->out, at->statistics, at->in, parameters + layer->weight, trains, layer,
                                    chunk.count, chunk.samples);
        break;
    case LAYER_EMBEDDING:
    case LAYER_POSITIONS:
    case LAYER_LSTM:
    case LAYER_ATTENTION:
    case LAYER_LINEAR_EACH:
        sequence_forward(net, at, layer, parameters + layer->weight, chunk);
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
        if (!layer->rectifies) kernels->relu_forward(at->out, shape_size(layer->out), chunk.samples);
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

// Part `number` of a chunk through the body; then its samples stand one a row for the head. What waits for no way back
// is overwritten by the next part, while it is near.
static void body_forward(const Net *net, const float *parameters, const Noise *noise, bool trains, Chunk part,
                         int number) {
    const NetBuffers *buffers = net->buffers;
    const Layer *head = &net->spec.layers[buffers->chunk.head];
    const float *given = NULL;
    for (int l = 0; l < buffers->chunk.head; l++) {
        LayerBuffers moved;
        const LayerBuffers *at = buffers_part(&moved, buffers, l, trains ? number : 0);
        if (net->spec.layers[l].source == SPEC_INPUT && number > 0 && !trains) {
            moved = *at;
            moved.in += (size_t)number * moved.steps.in;
            at = &moved;
        }
        layer_forward(net, at, l, parameters, noise, trains, part);
        given = at->out;
    }
    float *rows = buffers->layers[buffers->chunk.head].rows;
    net->at_work->linear_rows(rows + (size_t)(number * buffers->chunk.part) * linear_row_floats(head), given, head,
                              part.count, part.samples);
}

void net_forward(Net *net, const float *parameters, const Noise *noise, bool trains, Chunk chunk) {
    const ChunkPlan *plan = &net->buffers->chunk;
    for (int number = 0; plan->head > 0 && number < buffers_parts(plan, chunk.count); number++)
        body_forward(net, parameters, noise, trains, net_part(net, chunk, number), number);
    for (int l = plan->head; l < net->spec.layer_count; l++)
        layer_forward(net, &net->buffers->layers[l], l, parameters, noise, trains, chunk);
}
