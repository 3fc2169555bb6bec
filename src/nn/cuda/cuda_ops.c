#include "cuda_ops.h"

#include "nn/carver.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/flow.h"
#include "nn/layers/cuda_layer.h"

enum { ALIGNMENT = 256 }; // bytes: cudaMalloc's, so that no two tensors share a line

// The arena, and the columns of its tensors.
typedef struct Arena {
    Carver carver;
    size_t lanes; // M * N
} Arena;

// Places a tensor (M, features,N).
static float *carve_lanes(Arena *arena, size_t features) {
    return carve(&arena->carver, features * arena->lanes * sizeof(float));
}

// Writes the op that computes the layers from `l` on, and returns their number: two if a relu can be joined with its
// neighbour, because no other layer reads the value between them. A fused pair saves a launch and a pass over the
// values.
static int fuse(CudaOp *op, const Spec *spec, const int *readers, int l) {
    const Layer *layer = &spec->layers[l], *next = l + 1 < spec->layer_count ? layer + 1 : NULL;
    if (next && (next->source != l || readers[l] > 1)) next = NULL;
    const bool before_relu = next && next->kind == LAYER_RELU && cuda_layer(layer)->traits & JOINS_RELU_BEHIND;
    const bool relu_first = next && layer->kind == LAYER_RELU && cuda_layer(next)->traits & JOINS_RELU_BEFORE;
    const bool relu = relu_first || before_relu;
    *op = (CudaOp){.layer = relu_first ? next : layer, .number = relu_first ? l + 1 : l, .relu = relu};
    return relu ? 2 : 1;
}

// Joins the backward pass of the relu in the op before with that of its only reader, which then writes the gradient
// once instead of twice.
static void pass_relu(CudaOp *before, CudaOp *op) {
    before->relu_is_left = op->relu_before = before->relu && cuda_layer(before->layer)->traits & READS_RELU_OUTPUT &&
                                             cuda_layer(op->layer)->traits & ENDS_RELU_BEFORE;
}

// Lists the ops, and describes them to flow_plan as nodes. A node's numbers are those of ops, not of layers.
static void list_ops(CudaOps *ops, FlowNode *nodes, const Spec *spec) {
    const SpecReaders readers = spec_readers(spec);
    int op_of[SPEC_MAX_LAYERS]; // op_of: the op that computes each layer's value
    ops->count = 0;
    for (int l = 0; l < spec->layer_count;) {
        CudaOp *op = &ops->ops[ops->count];
        const int first = l, source = spec->layers[l].source;
        l += fuse(op, spec, readers.count, l);
        if (source != SPEC_INPUT && readers.count[source] == 1) pass_relu(&ops->ops[op_of[source]], op);
        for (int i = first; i < l; i++)
            op_of[i] = ops->count;
        const Layer *layer = op->layer;
        nodes[ops->count++] = (FlowNode){
            .source = source == SPEC_INPUT ? FLOW_INPUT : op_of[source],
            .other = layer->other == SPEC_INPUT ? FLOW_INPUT : op_of[layer->other],
            .has_parameters = layer_learns(layer),
            .in_place = layer_has(layer, IN_PLACE),
            .looks_back = layer_has(layer, READS_OUTPUT) || (op->relu && cuda_layer(layer)->traits & READS_RELU_OUTPUT),
            // Not PASSES_A_PART: a part of a tensor has another distance between models than a tensor of its size.
            .passes = layer_has(layer, PASSES_GRADIENT),
            .adds = cuda_layer(layer)->traits & ADDS_TO_GRADIENT,
            .lasts = layer_has(layer, HEADS), // for the steps of all linear layers after the backward pass
            .in = shape_size(layer->in),
            .out = shape_size(layer->out),
        };
    }
    // No gradient is needed before the first op that learns, so the backward pass ends there.
    ops->first = 0;
    while (ops->first < ops->count && !layer_learns(ops->ops[ops->first].layer))
        ops->first++;
}

// Places the tensors of the forward pass. Dropout's mask exists only for training. Values are stored in the order of
// the layers; a layer that works in place has its input's tensor.
static void carve_forward(CudaOps *ops, Arena *arena, const Flow *flow, const FlowNode *nodes, const Spec *spec,
                          bool training) {
    float *input = carve_lanes(arena, shape_size(spec->input));
    for (int i = 0; i < ops->count; i++) {
        CudaOp *op = &ops->ops[i];
        const Layer *layer = op->layer;
        op->in = nodes[i].source == FLOW_INPUT ? input : ops->ops[nodes[i].source].out;
        op->other = nodes[i].other == FLOW_INPUT ? NULL : ops->ops[nodes[i].other].out;
        op->out = flow->places[i].owner == i ? carve_lanes(arena, shape_size(layer->out)) : op->in;
        const size_t kept = cuda_layer_statistics(layer);
        if (cuda_layer(layer)->traits & DROPS && training)
            op->keep = carve(&arena->carver, dropout_features(layer) * arena->lanes);
        if (kept > 0) op->statistics = carve_lanes(arena, kept);
    }
    ops->logits = ops->ops[ops->count - 1].out;
}

// Places the slots of gradients and gives every op the slots that the flow chose for it. Ops whose gradients are never
// alive together share a slot: in a chain two slots take turns.
static void carve_backward(CudaOps *ops, Arena *arena, const Flow *flow) {
    float *slots[FLOW_MAX_SLOTS];
    for (int slot = 0; slot < flow->slot_count; slot++)
        slots[slot] = carve_lanes(arena, flow->slots[slot]);
#define AT(slot) ((slot) == FLOW_NOWHERE ? NULL : slots[slot])
    for (int i = 0; i < ops->count; i++) {
        CudaOp *op = &ops->ops[i];
        const FlowPlace *place = &flow->places[i];
        op->works = place->works;
        op->out_gradient = AT(place->gradient);
        op->in_gradient = AT(place->in_gradient);
        op->adds = place->adds;
        op->sum = AT(place->sum);
        op->other_gradient = AT(place->other_gradient);
        op->other_adds = place->other_adds;
    }
#undef AT
    ops->logits_gradient = slots[0];
}

// The ops of a stream run one after the other, so all share the largest scratch.
static void carve_scratch(CudaOps *ops, Arena *arena, int models, int samples) {
    size_t most = 0;
    for (int i = 0; i < ops->count; i++) {
        const Layer *layer = ops->ops[i].layer;
        size_t floats = cuda_layer(layer)->scratch ? cuda_layer(layer)->scratch(layer, models, samples) : 0;
        if (most < floats) most = floats;
    }
    ops->scratch = most > 0 ? carve(&arena->carver, most * sizeof(float)) : NULL;
}

// As on the CPU (buffers.c), one plan serves for measuring and placing; evaluation alone needs no gradients.
size_t cuda_ops_carve(CudaOps *ops, char *base, const Spec *spec, int models, int samples, bool training) {
    Arena arena = {.carver = {.base = base, .alignment = ALIGNMENT}, .lanes = (size_t)models * (size_t)samples};
    FlowNode nodes[SPEC_MAX_LAYERS];
    Flow flow;
    list_ops(ops, nodes, spec);
    flow_plan(&flow, nodes, ops->count);
    carve_forward(ops, &arena, &flow, nodes, spec, training);
    if (training) {
        carve_backward(ops, &arena, &flow);
        carve_scratch(ops, &arena, models, samples);
    }
    return arena.carver.used;
}
