#include "pass.h"

#include <string.h>

#include "nn/linear_blas.h"

// Chunks add up; the batch's last one completes the gradient, or the step.
static bool is_last(const Pass *pass, Chunk chunk) {
    return chunk.first + (uint32_t)chunk.count == pass->count;
}

// Whether the layer is the head's first one behind a body.
static bool heads_a_body(const Net *net, const Layer *layer) {
    return net->buffers->chunk.head > 0 && layer == &net->spec.layers[net->buffers->chunk.head];
}

// Where a linear layer's op writes its input's gradient; NULL: it stays in scratch, to be handed back.
static float *columns_of(const Net *net, const LayerBuffers *at, const Layer *layer) {
    return heads_a_body(net, layer) ? NULL : at->in_gradient;
}

// The body gets its part of what lies in scratch, one sample a row.
static void hand_back(const Net *net, const Layer *layer, Chunk chunk) {
    const ChunkPlan *plan = &net->buffers->chunk;
    const size_t rows = (size_t)plan->part * linear_row_floats(layer);
    for (int number = 0; number < buffers_parts(plan, chunk.count); number++) {
        const Chunk part = net_part(net, chunk, number);
        LayerBuffers moved;
        const LayerBuffers *at = buffers_part(&moved, net->buffers, plan->head, number);
        net->at_work->linear_columns(at->in_gradient, net->buffers->scratch + (size_t)number * rows, layer, part.count,
                                     part.samples);
    }
}

static void linear_backward_input(const Net *net, const LayerBuffers *at, const Layer *layer, const float *weight,
                                  Chunk chunk) {
    if (net->blas && linear_blas_pays_backward(layer, chunk.count))
        linear_blas_backward_input(at->in_gradient, net->blas, at->out_gradient, weight, layer, chunk.count,
                                   chunk.samples);
    else
        net->at_work->linear_backward_input(columns_of(net, at, layer), net->buffers->scratch, at->out_gradient, weight,
                                            layer, chunk.count, chunk.samples);
}

// Whether a step leaves the layer's parameters as they are.
static bool stands_still(const Net *net, const Layer *layer, const Pass *pass) {
    if (layer->frozen) return true;
    return pass->stepping && layer->weight >= net->still_first && layer->weight < net->still_end;
}

bool net_leaves(const Net *net, size_t parameter) {
    return spec_freezes_at(&net->spec, parameter) || (parameter >= net->still_first && parameter < net->still_end);
}

// A step finds `count` parameters where it leaves them.
static void bring_along(const Pass *pass, size_t first, size_t count) {
    if (pass->stepping != pass->parameters)
        memcpy(pass->stepping + first, pass->parameters + first, count * sizeof *pass->stepping);
}

// Of `count` parameters that are frozen, or stand still.
static void leave(const Pass *pass, size_t first, size_t count) {
    if (pass->stepping)
        bring_along(pass, first, count);
    else
        memset(pass->gradient + first, 0, count * sizeof *pass->gradient);
}

static void linear_backward_weight(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass,
                                   const Descent *descent, float *weight, Chunk chunk) {
    float *gradient = pass->gradient + layer->weight;
    if (spec_freezes_at(&net->spec, layer->weight))
        leave(pass, layer->weight, layer->bias - layer->weight);
    else if (net->blas && linear_blas_pays(layer, chunk.count))
        linear_blas_backward_weight(gradient, weight, net->blas, at->in, at->rows, at->out_gradient, descent, layer,
                                    chunk.count, chunk.samples);
    else
        net->at_work->linear_backward_weight(gradient, weight, at->rows, at->out_gradient, descent, layer, chunk.count,
                                             chunk.samples);
}

// Whether the way back and the step share one pass over the weight.
static bool steps_on_the_way(const Net *net, const LayerBuffers *at, const Layer *layer, const float *weight,
                             Chunk chunk) {
    const bool through_blas =
        net->blas && (linear_blas_pays(layer, chunk.count) || linear_blas_pays_backward(layer, chunk.count));
    return weight && at->in_gradient && !through_blas && !spec_freezes_at(&net->spec, layer->weight);
}

static void linear_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass, Chunk chunk) {
    const bool still = stands_still(net, layer, pass), step = !still && pass->stepping && is_last(pass, chunk);
    float *weight = step ? pass->stepping + layer->weight : NULL, *gradient = pass->gradient + layer->weight;
    const bool joined = steps_on_the_way(net, at, layer, weight, chunk);
    if (at->in_gradient && !joined) linear_backward_input(net, at, layer, pass->parameters + layer->weight, chunk);
    if (still) return;
    Descent descent = {.keep = chunk.first > 0 ? 1
                               : net->rests    ? 0
                                               : pass->sgd.momentum,
                       .begins = net->rests && pass->sgd.momentum != 0 && chunk.first == 0,
                       .lr = pass->sgd.lr,
                       .weight_decay = pass->sgd.weight_decay,
                       .upwards = net->steps % 2 != 0};
    if (step && pass->stepping != pass->parameters) descent.before = pass->parameters + layer->weight;
    if (step && pass->shift) descent.shift = pass->shift + layer->weight;
    if (joined)
        net->at_work->linear_backward_step(columns_of(net, at, layer), net->buffers->scratch, gradient, weight,
                                           at->rows, at->out_gradient, &descent, layer, chunk.count, chunk.samples);
    else
        linear_backward_weight(net, at, layer, pass, &descent, weight, chunk);
    if (descent.before) bring_along(pass, layer->bias, (size_t)layer->out.channels);
    if (descent.shift) descent.shift = pass->shift + layer->bias;
    if (spec_freezes_at(&net->spec, layer->bias))
        leave(pass, layer->bias, (size_t)layer->out.channels);
    else
        net->at_work->linear_backward_bias(pass->gradient + layer->bias, step ? pass->stepping + layer->bias : NULL,
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
        net->at_work->dropout_apply(at->in_gradient, at->keep, layer->rate, features, shape_size(layer->in) / features,
                                    chunk.samples);
}

// The layer's parameters from its number `first` on.
static void finish_run(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass, size_t first,
                       size_t count) {
    const size_t place = layer->weight + first;
    if (pass->stepping && net->rests) memset(pass->gradient + place, 0, count * sizeof *pass->gradient);
    if (pass->stepping) {
        bring_along(pass, place, count);
        net->at_work->sgd_step(pass->stepping + place, pass->gradient + place, at->slopes + first, &pass->sgd, count);
    } else {
        memcpy(pass->gradient + place, at->slopes + first, count * sizeof *at->slopes);
    }
}

static void finish_tensors(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass) {
    const Spec *spec = &net->spec;
    const size_t end = layer->weight + layer_parameters(layer);
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        if (tensor->first < layer->weight || tensor->first >= end) continue;
        if (tensor->frozen || tensor->follows)
            leave(pass, tensor->first, tensor->count);
        else
            finish_run(net, at, layer, pass, tensor->first - layer->weight, tensor->count);
    }
}

static void finish_slopes(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass) {
    const ConvKernels *conv = buffers_conv(layer, net->at_work);
    if (conv) conv->unpack(at->slopes, at->packed_gradient, layer);
    size_t count = layer_parameters(layer);
    for (size_t i = 0; i < count && pass->shift; i++)
        at->slopes[i] += pass->shift[layer->weight + i];
    if (net->spec.freezes || layer->kind == LAYER_BATCH_NORM)
        finish_tensors(net, at, layer, pass);
    else
        finish_run(net, at, layer, pass, 0, count);
}

// The batch's last chunk has been through the layer.
static void finish_layer(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass) {
    if (!layer_has_parameters(layer)) return;
    if (stands_still(net, layer, pass))
        leave(pass, layer->weight, layer_parameters(layer));
    else if (at->slopes)
        finish_slopes(net, at, layer, pass);
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
        net->at_work->add(at->other_gradient, at->other_gradient, part, features, chunk.samples);
    else
        memcpy(at->other_gradient, part, features * n * sizeof *part);
}

static void sequence_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass,
                              Chunk chunk) {
    const Kernels *kernels = net->at_work;
    const float *weight = pass->parameters + layer->weight;
    if (layer->kind == LAYER_EMBEDDING)
        kernels->embedding_backward(at->slopes, at->in, at->out_gradient, layer, chunk.samples);
    else if (layer->kind == LAYER_POSITIONS)
        kernels->positions_backward(at->slopes, at->out_gradient, layer, chunk.samples);
    else if (layer->kind == LAYER_LINEAR_EACH)
        kernels->linear_each_backward(at->slopes, at->in_gradient, net->buffers->scratch, at->rows, at->out_gradient,
                                      weight, layer, chunk.count, chunk.samples);
    else if (layer->kind == LAYER_ATTENTION)
        kernels->attention_backward(at->slopes, at->in_gradient, at->statistics, net->buffers->scratch,
                                    at->out_gradient, weight, layer, chunk.count, chunk.samples);
    else
        kernels->lstm_backward(at->slopes, at->in_gradient, at->statistics, net->buffers->scratch, at->out_gradient,
                               weight, layer, chunk.samples);
}

static void conv_or_norm_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass,
                                  Chunk chunk) {
    float *bias = at->slopes + (layer->bias - layer->weight);
    if (layer->kind == LAYER_CONV)
        buffers_conv(layer, net->at_work)
            ->backward(at->packed_gradient, bias, at->in_gradient, at->adds, net->buffers->scratch, at->in,
                       at->out_gradient, at->packed, layer, chunk.count, chunk.samples);
    else if (layer->kind == LAYER_BATCH_NORM)
        net->at_work->batch_norm_backward(at->slopes, at->in_gradient, at->statistics, at->in, at->out_gradient,
                                          pass->parameters + layer->weight, layer, chunk.count, chunk.samples);
    else
        net->at_work->norm_backward(at->slopes, bias, at->in_gradient, at->statistics, at->in, at->out_gradient,
                                    pass->parameters + layer->weight, layer, chunk.samples);
}

static void layer_backward(const Net *net, const LayerBuffers *at, const Layer *layer, const Pass *pass, Chunk chunk) {
    const Kernels *kernels = net->at_work;
    switch (layer->kind) {
    case LAYER_CONV:
    case LAYER_NORM:
    case LAYER_BATCH_NORM:
        conv_or_norm_backward(net, at, layer, pass, chunk);
        break;
    case LAYER_EMBEDDING:
    case LAYER_POSITIONS:
    case LAYER_LSTM:
    case LAYER_LINEAR_EACH:
    case LAYER_ATTENTION:
        sequence_backward(net, at, layer, pass, chunk);
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
        if (!layer->rectified) kernels->relu_backward(at->in_gradient, at->out, shape_size(layer->out), chunk.samples);
        break;
    case LAYER_DROPOUT:
    case LAYER_DROPOUT2D:
        dropout_backward(net, at, layer, pass->noise, chunk);
        break;
    case LAYER_LINEAR:
        linear_backward(net, at, layer, pass, chunk);
        if (at->in_gradient && heads_a_body(net, layer)) hand_back(net, layer, chunk);
        break;
    case LAYER_ADD:
    case LAYER_CONCAT:
        pass_to_other(net, at, layer, chunk);
        break;
    }
    if (at->sum) kernels->add(at->sum, at->sum, at->in_gradient, shape_size(layer->in), chunk.samples);
}

// Layers end - 1 to first; number: of the part that the chunk is.
static void layers_backward(const Net *net, int first, int end, const Pass *pass, Chunk chunk, int number) {
    for (int l = end - 1; l >= first; l--) {
        LayerBuffers moved;
        const LayerBuffers *at = buffers_part(&moved, net->buffers, l, number);
        if (at->works) layer_backward(net, at, &net->spec.layers[l], pass, chunk);
        if (is_last(pass, chunk)) finish_layer(net, at, &net->spec.layers[l], pass);
    }
}

void net_backward(Net *net, const Pass *pass, Chunk chunk) {
    const ChunkPlan *plan = &net->buffers->chunk;
    layers_backward(net, plan->head, net->spec.layer_count, pass, chunk, 0);
    for (int number = 0; plan->head > 0 && number < buffers_parts(plan, chunk.count); number++)
        layers_backward(net, 0, plan->head, pass, net_part(net, chunk, number), number);
}
