#include "pass.h"

#include <assert.h>
#include <string.h>

#include "nn/layers/layer.h"

// Forward -------------------------------------------------------------------------------------------------------------

// One layer's part of the forward pass: everything that its row needs is in the call.
static void layer_forward(const Net *net, const LayerBuffers *at, int l, const float *parameters, const Noise *noise,
                          bool trains, Chunk chunk) {
    LayerCall call = layer_call(net, l, at, parameters, chunk);
    call.noise = noise;
    call.trains = trains;
    layer_type(call.layer)->forward(&call);
}

// Takes part `number` of a chunk through the body, and writes its output as rows for the head. In training every part
// has its own values, which wait for the backward pass. An evaluation keeps no values: all parts then use the first
// part's tensors, which stay in the cache, and only the net's input, loaded for the whole chunk, has its own place per
// part.
static void body_forward(const Net *net, const float *parameters, const Noise *noise, bool trains, Chunk part,
                         int number) {
    const NetBuffers *buffers = net->buffers;
    assert(buffers->chunk.head > 0 && part.count >= 1 && part.count <= buffers->chunk.part);
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

// First the whole body, part by part, then the head on all samples of the chunk.
void net_forward(Net *net, const float *parameters, const Noise *noise, bool trains, Chunk chunk) {
    assert(chunk.count >= 1 && chunk.count <= chunk.samples && chunk.samples % net->at_work->lanes == 0);
    assert(chunk.count <= net->buffers->chunk.samples);
    const ChunkPlan *plan = &net->buffers->chunk;
    for (int number = 0; plan->head > 0 && number < buffers_parts(plan, chunk.count); number++)
        body_forward(net, parameters, noise, trains, net_part(net, chunk, number), number);
    for (int l = plan->head; l < net->spec.layer_count; l++)
        layer_forward(net, &net->buffers->layers[l], l, parameters, noise, trains, chunk);
}

// Backward ------------------------------------------------------------------------------------------------------------

bool pass_leaves_layer(const Net *net, const Layer *layer, const Pass *pass) {
    if (layer->frozen) return true;
    return pass->stepping && layer->weight >= net->still_first && layer->weight < net->still_end;
}

bool net_leaves(const Net *net, size_t parameter) {
    return spec_freezes_at(&net->spec, parameter) || (parameter >= net->still_first && parameter < net->still_end);
}

void pass_bring_along(const Pass *pass, size_t first, size_t count) {
    assert(pass->stepping);
    if (pass->stepping != pass->parameters)
        memcpy(pass->stepping + first, pass->parameters + first, count * sizeof *pass->stepping);
}

void pass_leave(const Pass *pass, size_t first, size_t count) {
    if (pass->stepping)
        pass_bring_along(pass, first, count);
    else
        memset(pass->gradient + first, 0, count * sizeof *pass->gradient);
}

// Completes `count` of the layer's parameters from number `first` of the layer on: makes their step with the summed
// gradient, or copies the gradient out. A velocity that rests is cleared first, as sgd_step reads it.
static void finish_run(const LayerCall *call, size_t first, size_t count) {
    const Pass *pass = call->pass;
    const size_t place = call->layer->weight + first;
    assert(first + count <= layer_parameters(call->layer) && place + count <= call->net->spec.parameter_count);
    const float *summed = call->at->gradient + first;
    float *stored = pass->gradient + place;
    if (pass->stepping) {
        if (call->net->rests) memset(stored, 0, count * sizeof *stored);
        pass_bring_along(pass, place, count);
        call->kernels->sgd_step(pass->stepping + place, stored, summed, &pass->sgd, count);
    } else {
        memcpy(stored, summed, count * sizeof *stored);
    }
}

// Completes a layer tensor by tensor, since frozen tensors and running statistics must stay as they are.
static void finish_tensors(const LayerCall *call) {
    const Spec *spec = &call->net->spec;
    const size_t begin = call->layer->weight, end = begin + layer_parameters(call->layer);
    for (const ParameterTensor *tensor = spec->tensors; tensor < spec->tensors + spec->tensor_count; tensor++) {
        if (tensor->first < begin || tensor->first >= end) continue;
        if (tensor->frozen || tensor->follows)
            pass_leave(call->pass, tensor->first, tensor->count);
        else
            finish_run(call, tensor->first - begin, tensor->count);
    }
}

// Completes a layer whose gradient was summed in the arena. The whole layer is one run unless some of its tensors are
// special, which is rare: long runs make the step's loop fast.
static void finish_gradient(const LayerCall *call) {
    const Layer *layer = call->layer;
    const size_t count = layer_parameters(layer);
    if (layer_type(layer)->unpack) layer_type(layer)->unpack(call);
    for (size_t i = 0; i < count && call->pass->shift; i++)
        call->at->gradient[i] += call->pass->shift[layer->weight + i];
    if (call->net->spec.freezes || layer_has(layer, OVER_BATCH))
        finish_tensors(call);
    else
        finish_run(call, 0, count);
}

// Completes the layer after the batch's last chunk, and then tells the hook, which may send the gradient at once.
static void finish_layer(const LayerCall *call) {
    const GradientHook *hook = &call->net->on_gradient;
    const Layer *layer = call->layer;
    const Pass *pass = call->pass;
    if (!layer_has_parameters(layer)) return;
    if (pass_leaves_layer(call->net, layer, pass))
        pass_leave(pass, layer->weight, layer_parameters(layer));
    else if (call->at->gradient)
        finish_gradient(call);
    if (!pass->stepping && hook->complete) hook->complete(hook->context, layer->weight);
}

// The backward pass through layers end - 1 to first. number: the chunk's number among the parts. A layer writes its
// input's gradient; if other readers of that value have written their part already, the layer's own part is added to
// theirs afterwards.
static void layers_backward(const Net *net, int first, int end, const Pass *pass, Chunk chunk, int number) {
    for (int l = end - 1; l >= first; l--) {
        LayerBuffers moved;
        const LayerBuffers *at = buffers_part(&moved, net->buffers, l, number);
        LayerCall call = layer_call(net, l, at, pass->parameters, chunk);
        call.noise = pass->noise;
        call.trains = true;
        call.pass = pass;
        if (at->works) layer_type(call.layer)->backward(&call);
        if (net->term && l == net->spec.layer_count - 1) net->term->add(&call);
        if (at->works && at->sum)
            call.kernels->add(at->sum, at->sum, at->in_gradient, shape_size(call.layer->in), call.samples);
        if (pass_is_last(pass, chunk)) finish_layer(&call);
    }
}

// The head first, on the whole chunk, then the body part by part. A layer's parameters are complete when the batch's
// last sample has passed: for the body that is the last part of the last chunk.
void net_backward(Net *net, const Pass *pass, Chunk chunk) {
    const ChunkPlan *plan = &net->buffers->chunk;
    layers_backward(net, plan->head, net->spec.layer_count, pass, chunk, 0);
    for (int number = 0; plan->head > 0 && number < buffers_parts(plan, chunk.count); number++)
        layers_backward(net, 0, plan->head, pass, net_part(net, chunk, number), number);
}
