// Part of pass.h: the forward pass on a CPU.
#include "pass.h"

#include "nn/layers/layer.h"

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
    const ChunkPlan *plan = &net->buffers->chunk;
    for (int number = 0; plan->head > 0 && number < buffers_parts(plan, chunk.count); number++)
        body_forward(net, parameters, noise, trains, net_part(net, chunk, number), number);
    for (int l = plan->head; l < net->spec.layer_count; l++)
        layer_forward(net, &net->buffers->layers[l], l, parameters, noise, trains, chunk);
}
