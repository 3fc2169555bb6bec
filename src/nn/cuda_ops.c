#include "cuda_ops.h"

#include "nn/buffers.h"
#include "nn/cuda_kernels.h"

enum { ALIGNMENT = 256 }; // bytes: as cudaMalloc's, so that no tensor shares a line with another

// One walk over the layers places everything; with base NULL it only measures.
typedef struct Carver {
    char *base;
    size_t used;  // bytes
    size_t lanes; // M * N
} Carver;

static void *carve(Carver *carver, size_t bytes) {
    void *place = carver->base ? carver->base + carver->used : NULL;
    carver->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

// A tensor (M, features,N).
static float *carve_lanes(Carver *carver, size_t features) {
    return carve(carver, features * carver->lanes * sizeof(float));
}

// The layers from `l` on that one op computes: writes it and returns their number.
static int fuse(CudaOp *op, const Spec *spec, int l) {
    const Layer *layer = &spec->layers[l], *next = l + 1 < spec->layer_count ? layer + 1 : NULL;
    bool before_relu = next && next->kind == LAYER_RELU, relu_then_pool = false;
    if (layer->kind == LAYER_RELU) relu_then_pool = next && next->kind == LAYER_POOL;
    bool relu = relu_then_pool || (before_relu && (layer->kind == LAYER_LINEAR || layer->kind == LAYER_POOL));
    *op = (CudaOp){.layer = relu_then_pool ? next : layer, .number = relu_then_pool ? l + 1 : l, .relu = relu};
    return relu ? 2 : 1;
}

static void list_ops(CudaOps *ops, const Spec *spec) {
    ops->count = 0;
    for (int l = 0; l < spec->layer_count;)
        l += fuse(&ops->ops[ops->count++], spec, l);
    ops->first = 0;
    while (ops->first < ops->count && !layer_has_parameters(ops->ops[ops->first].layer))
        ops->first++;
}

static void carve_forward(CudaOps *ops, Carver *carver, const Spec *spec, bool training) {
    float *values = carve_lanes(carver, shape_size(spec->input));
    for (int i = 0; i < ops->count; i++) {
        CudaOp *op = &ops->ops[i];
        op->in = values;
        if (!layer_is_in_place(op->layer)) values = carve_lanes(carver, shape_size(op->layer->out));
        op->out = values;
        bool drops = op->layer->kind == LAYER_DROPOUT || op->layer->kind == LAYER_DROPOUT2D;
        if (drops && training) op->keep = carve(carver, dropout_features(op->layer) * carver->lanes);
    }
    ops->logits = values;
}

// The outputs' and the inputs' gradient take turns in two buffers.
static void carve_backward(CudaOps *ops, Carver *carver, const Spec *spec) {
    size_t features[2] = {(size_t)spec->classes, 0};
    int current = 0;
    for (int i = ops->count - 1; i > ops->first; i--) {
        const CudaOp *op = &ops->ops[i];
        if (!layer_is_in_place(op->layer)) current = 1 - current;
        size_t needed = shape_size(op->layer->in);
        if (features[current] < needed) features[current] = needed;
    }
    float *buffers[2] = {carve_lanes(carver, features[0]), carve_lanes(carver, features[1])};
    ops->logits_gradient = buffers[0];
    current = 0;
    for (int i = ops->count - 1; i >= ops->first; i--) {
        CudaOp *op = &ops->ops[i];
        op->out_gradient = buffers[current];
        if (i == ops->first) break;
        if (!layer_is_in_place(op->layer)) current = 1 - current;
        op->in_gradient = buffers[current];
    }
}

static void carve_scratch(CudaOps *ops, Carver *carver, int models, int samples) {
    size_t most = 0;
    for (int i = 0; i < ops->count; i++) {
        const Layer *layer = ops->ops[i].layer;
        size_t floats = layer->kind == LAYER_CONV ? cuda_conv_scratch_floats(layer, models, samples) : 0;
        if (most < floats) most = floats;
    }
    ops->scratch = most > 0 ? carve(carver, most * sizeof(float)) : NULL;
}

size_t cuda_ops_carve(CudaOps *ops, char *base, const Spec *spec, int models, int samples, bool training) {
    Carver carver = {.base = base, .lanes = (size_t)models * (size_t)samples};
    list_ops(ops, spec);
    carve_forward(ops, &carver, spec, training);
    if (training) {
        carve_backward(ops, &carver, spec);
        carve_scratch(ops, &carver, models, samples);
    }
    return carver.used;
}
