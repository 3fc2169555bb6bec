// From a net to ONNX's messages, opset 17: what onnx_net.h's reader reads, though batch norms
// come back as part of the weights before them, or not at all. Group normalisation is written by instances
// between reshapes and gelu by Erf, as PyTorch's exporters write them, for older runtimes.
#include "onnx_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"

enum {
    OPSET = 17,
    IR_VERSION = 8,
    TYPE_FLOAT = 1,
    TYPE_INT64 = 7,
    MOST_NODES = 6 * SPEC_MAX_LAYERS,
    MOST_TENSORS = 10 * SPEC_MAX_LAYERS,
    ROOM_BYTES = SPEC_MAX_LAYERS << 14, // more than all messages but the weights take
};

// A graph as it grows. Everything lies in `room`, but for the weights, which are the caller's, and a row of ones and
// zeros.
typedef struct Writer {
    const Spec *spec;
    const float *parameters;
    uint8_t *room; // owned
    size_t used;
    float *ones, *zeros; // owned: as many as any layer has groups
    Onnx__NodeProto *nodes[MOST_NODES];
    Onnx__TensorProto *tensors[MOST_TENSORS];
    size_t node_count, tensor_count;
    bool flat[SPEC_MAX_LAYERS]; // what the layer gives has two dimensions
} Writer;

// bytes: a few hundred at most, for each of the few things that a layer is made of.
static void *take(Writer *writer, size_t bytes) {
    void *taken = writer->room + writer->used;
    writer->used += (bytes + 15) / 16 * 16;
    return taken;
}

static char *text(Writer *writer, const char *prefix, int number) {
    char *written = take(writer, 48);
    if (number < 0)
        snprintf(written, 48, "%s", prefix);
    else
        snprintf(written, 48, "%s%d", prefix, number);
    return written;
}

// Tensors -------------------------------------------------------------------------------------------------------------

static Onnx__TensorProto *add_tensor(Writer *writer, const char *name, int number, size_t rank, const int64_t *shape) {
    Onnx__TensorProto *tensor = take(writer, sizeof *tensor);
    onnx__tensor_proto__init(tensor);
    tensor->name = text(writer, name, number);
    tensor->dims = take(writer, rank * sizeof *shape + 1);
    if (rank > 0) memcpy(tensor->dims, shape, rank * sizeof *shape);
    tensor->n_dims = rank;
    tensor->has_data_type = 1;
    tensor->data_type = TYPE_FLOAT;
    writer->tensors[writer->tensor_count++] = tensor;
    return tensor;
}

// The numbers stay where they are.
static char *add_reals(Writer *writer, const char *name, int number, size_t rank, const int64_t *shape,
                       const float *reals) {
    size_t count = 1;
    for (size_t d = 0; d < rank; d++)
        count *= (size_t)shape[d];
    Onnx__TensorProto *tensor = add_tensor(writer, name, number, rank, shape);
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){count * sizeof *reals, (uint8_t *)(uintptr_t)reals};
    return tensor->name;
}

static char *add_scalar(Writer *writer, const char *name, int number, float value) {
    float *own = take(writer, sizeof *own);
    *own = value;
    return add_reals(writer, name, number, 0, NULL, own);
}

static char *add_shape(Writer *writer, const char *name, int number, int64_t count, const int64_t *extents) {
    Onnx__TensorProto *tensor = add_tensor(writer, name, number, 1, &count);
    tensor->data_type = TYPE_INT64;
    tensor->int64_data = take(writer, (size_t)count * sizeof *extents);
    memcpy(tensor->int64_data, extents, (size_t)count * sizeof *extents);
    tensor->n_int64_data = (size_t)count;
    return tensor->name;
}

// Nodes ---------------------------------------------------------------------------------------------------------------

enum { MOST_INPUTS = 5, MOST_ATTRIBUTES = 6 };

// Returns the name of what the node gives. inputs: up to three names; NULL: no more.
static char *add_node(Writer *writer, const char *op, char *gives, char *first, char *second, char *third) {
    Onnx__NodeProto *node = take(writer, sizeof *node);
    char *const inputs[MOST_INPUTS] = {first, second, third};
    onnx__node_proto__init(node);
    node->op_type = text(writer, op, -1);
    node->name = text(writer, op, (int)writer->node_count + 1);
    node->input = take(writer, sizeof inputs);
    memcpy(node->input, inputs, sizeof inputs);
    while (node->n_input < MOST_INPUTS && inputs[node->n_input])
        node->n_input++;
    node->output = take(writer, sizeof gives);
    *node->output = gives;
    node->n_output = 1;
    node->attribute = take(writer, MOST_ATTRIBUTES * sizeof *node->attribute);
    writer->nodes[writer->node_count++] = node;
    return gives;
}

// Of the node that was added last. types: as ONNX numbers them.
static Onnx__AttributeProto *add_attribute(Writer *writer, const char *name, int32_t type) {
    Onnx__NodeProto *node = writer->nodes[writer->node_count - 1];
    Onnx__AttributeProto *attribute = take(writer, sizeof *attribute);
    onnx__attribute_proto__init(attribute);
    attribute->name = text(writer, name, -1);
    attribute->has_type = 1;
    attribute->type = type;
    node->attribute[node->n_attribute++] = attribute;
    return attribute;
}

static void add_real(Writer *writer, const char *name, float value) {
    Onnx__AttributeProto *attribute = add_attribute(writer, name, 1);
    attribute->has_f = 1;
    attribute->f = value;
}

static void add_whole(Writer *writer, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute = add_attribute(writer, name, 2);
    attribute->has_i = 1;
    attribute->i = value;
}

// Rows and columns, `times` times: pads have those of both ends.
static void add_sides(Writer *writer, const char *name, Sides sides, size_t times) {
    Onnx__AttributeProto *attribute = add_attribute(writer, name, 7);
    attribute->ints = take(writer, 2 * times * sizeof *attribute->ints);
    for (size_t i = 0; i < times; i++) {
        attribute->ints[attribute->n_ints++] = sides.rows;
        attribute->ints[attribute->n_ints++] = sides.columns;
    }
}

// Layers --------------------------------------------------------------------------------------------------------------

static char *name_of(Writer *writer, int layer) {
    if (layer == SPEC_INPUT) return text(writer, "x", -1);
    return layer == writer->spec->layer_count - 1 ? text(writer, "y", -1) : text(writer, "v", layer + 1);
}

// The layer's weight, or bias, under PyTorch's name, perhaps of another rank.
static char *add_parameters(Writer *writer, size_t first, size_t rank, const int64_t *shape) {
    int t = 0;
    while (writer->spec->tensors[t].first != first)
        t++;
    const ParameterTensor *tensor = &writer->spec->tensors[t];
    if (!shape) rank = (size_t)tensor->rank, shape = tensor->shape;
    return add_reals(writer, tensor->name, -1, rank, shape, writer->parameters + first);
}

static void add_window(Writer *writer, const Layer *layer) {
    const Sides plain = {layer->kernel, layer->kernel}, one = {1, 1}, pad = {layer->pad, layer->pad};
    const bool is_plain = layer_is_plain(layer), is_conv = layer->kind == LAYER_CONV;
    add_sides(writer, "kernel_shape", is_plain ? plain : layer->window.size, 1);
    add_sides(writer, "strides", !is_plain ? layer->window.stride : is_conv ? one : plain, 1);
    add_sides(writer, "pads", is_plain ? pad : layer->window.pad, 2);
    if (is_conv) add_sides(writer, "dilations", is_plain ? one : layer->dilation, 1);
    if (is_conv) add_whole(writer, "group", is_plain ? 1 : layer->groups);
}

static char *flatten(Writer *writer, char *in, int l) {
    const Layer *layer = &writer->spec->layers[l];
    if (layer->source != SPEC_INPUT && writer->flat[layer->source]) return in;
    in = add_node(writer, "Flatten", text(writer, "flat", l + 1), in, NULL, NULL);
    add_whole(writer, "axis", 1);
    return in;
}

static void write_norm(Writer *writer, char *in, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    const int64_t channels = layer->in.channels, groups = layer->groups, split[] = {0, groups, -1},
                  wide[] = {channels, 1, 1};
    const bool flat = layer->source != SPEC_INPUT && writer->flat[layer->source];
    const int64_t back[] = {-1, channels, layer->in.rows, layer->in.columns};
    if (norm_weights(layer) != (size_t)channels || (groups == 1 && layer->in.rows * layer->in.columns == 1)) {
        add_node(writer, "LayerNormalization", out, in, add_parameters(writer, layer->weight, 0, NULL),
                 add_parameters(writer, layer->bias, 0, NULL));
        add_whole(writer, "axis", 1);
        add_real(writer, "epsilon", NORM_EPSILON);
        return;
    }
    if (flat)
        in = add_node(writer, "Reshape", text(writer, "image", l + 1), in,
                      add_shape(writer, "as_image", l + 1, 4, back), NULL);
    in = add_node(writer, "Reshape", text(writer, "split", l + 1), in, add_shape(writer, "by_group", l + 1, 3, split),
                  NULL);
    in = add_node(writer, "InstanceNormalization", text(writer, "norm", l + 1), in,
                  add_reals(writer, "ones", l + 1, 1, &groups, writer->ones),
                  add_reals(writer, "zeros", l + 1, 1, &groups, writer->zeros));
    add_real(writer, "epsilon", NORM_EPSILON);
    in = add_node(writer, "Reshape", text(writer, "back", l + 1), in, add_shape(writer, "by_channel", l + 1, 4, back),
                  NULL);
    in = add_node(writer, "Mul", text(writer, "gain", l + 1), in, add_parameters(writer, layer->weight, 3, wide), NULL);
    add_node(writer, "Add", out, in, add_parameters(writer, layer->bias, 3, wide), NULL);
    writer->flat[l] = false;
}

static void write_batch_norm(Writer *writer, char *in, char *out, const Layer *layer) {
    const size_t channels = norm_weights(layer);
    char *weight = add_parameters(writer, layer->weight, 0, NULL), *bias = add_parameters(writer, layer->bias, 0, NULL);
    char *mean = add_parameters(writer, layer->bias + channels, 0, NULL);
    char *variance = add_parameters(writer, layer->bias + 2 * channels, 0, NULL);
    add_node(writer, "BatchNormalization", out, in, weight, bias);
    Onnx__NodeProto *node = writer->nodes[writer->node_count - 1];
    node->input[node->n_input++] = mean;
    node->input[node->n_input++] = variance;
    add_real(writer, "epsilon", NORM_EPSILON);
}

static void write_activation(Writer *writer, char *in, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    switch (layer->activation) {
    case ACTIVATION_TANH:
        add_node(writer, "Tanh", out, in, NULL, NULL);
        break;
    case ACTIVATION_SIGMOID:
        add_node(writer, "Sigmoid", out, in, NULL, NULL);
        break;
    case ACTIVATION_LEAKY_RELU:
        add_node(writer, "LeakyRelu", out, in, NULL, NULL);
        add_real(writer, "alpha", layer->rate);
        break;
    case ACTIVATION_RELU6:
        add_node(writer, "Clip", out, in, add_scalar(writer, "low", l + 1, 0), add_scalar(writer, "high", l + 1, 6));
        break;
    case ACTIVATION_GELU: {
        char *shrunk = add_node(writer, "Div", text(writer, "shrunk", l + 1), in,
                                add_scalar(writer, "root", l + 1, (float)M_SQRT2), NULL);
        char *erf = add_node(writer, "Erf", text(writer, "erf", l + 1), shrunk, NULL, NULL);
        char *share =
            add_node(writer, "Add", text(writer, "share", l + 1), erf, add_scalar(writer, "one", l + 1, 1), NULL);
        char *twice = add_node(writer, "Mul", text(writer, "twice", l + 1), in, share, NULL);
        add_node(writer, "Mul", out, twice, add_scalar(writer, "half", l + 1, 0.5f), NULL);
    }
    }
}

// False: ONNX's opset has no op for it.
static bool write_layer(Writer *writer, int l) {
    const Layer *layer = &writer->spec->layers[l];
    char *in = name_of(writer, layer->source), *out = name_of(writer, l), *weight = NULL, *bias = NULL;
    writer->flat[l] = layer->source != SPEC_INPUT && writer->flat[layer->source];
    if (layer->kind == LAYER_CONV || layer->kind == LAYER_LINEAR) {
        weight = add_parameters(writer, layer->weight, 0, NULL);
        bias = add_parameters(writer, layer->bias, 0, NULL);
    }
    switch (layer->kind) {
    case LAYER_CONV:
    case LAYER_POOL:
    case LAYER_AVERAGE:
        if (writer->flat[l]) return false; // images of one pixel from a vector
        add_node(writer,
                 weight                      ? "Conv"
                 : layer->kind == LAYER_POOL ? "MaxPool"
                                             : "AveragePool",
                 out, in, weight, bias);
        add_window(writer, layer);
        if (layer->kind == LAYER_AVERAGE) add_whole(writer, "count_include_pad", 1);
        return true;
    case LAYER_LINEAR:
        add_node(writer, "Gemm", out, flatten(writer, in, l), weight, bias);
        add_whole(writer, "transB", 1);
        writer->flat[l] = true;
        return true;
    case LAYER_RELU:
        return add_node(writer, "Relu", out, in, NULL, NULL) != NULL;
    case LAYER_DROPOUT:
        return add_node(writer, "Dropout", out, in, add_scalar(writer, "rate", l + 1, layer->rate), NULL) != NULL;
    case LAYER_DROPOUT2D:
        return add_node(writer, "Identity", out, in, NULL, NULL) != NULL; // nothing but in training
    case LAYER_ACTIVATION:
        write_activation(writer, in, out, l);
        return true;
    case LAYER_NORM:
        if (layer->each) return false;
        write_norm(writer, in, out, l);
        return true;
    case LAYER_ADD:
    case LAYER_CONCAT:
        if (writer->flat[l] != writer->flat[layer->other]) return false;
        add_node(writer, layer->kind == LAYER_ADD ? "Add" : "Concat", out, in, name_of(writer, layer->other), NULL);
        if (layer->kind == LAYER_CONCAT) add_whole(writer, "axis", 1);
        return true;
    case LAYER_BATCH_NORM:
        write_batch_norm(writer, in, out, layer);
        return true;
    case LAYER_LINEAR_EACH:
    case LAYER_EMBEDDING:
    case LAYER_LSTM:
    case LAYER_ATTENTION:
        return false; // nets of sequences are not written
    }
    return false;
}

// The file ------------------------------------------------------------------------------------------------------------

// A tensor of floats whose first extent is the number of samples.
static void describe(Writer *writer, Onnx__ValueInfoProto **info, char *name, size_t rank, const int64_t *shape) {
    Onnx__TypeProto *type = take(writer, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = take(writer, sizeof *tensor);
    *info = take(writer, sizeof **info);
    onnx__value_info_proto__init(*info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    tensor->shape = take(writer, sizeof *tensor->shape);
    onnx__tensor_shape_proto__init(tensor->shape);
    tensor->shape->dim = take(writer, (rank + 1) * sizeof *tensor->shape->dim);
    tensor->shape->n_dim = rank + 1;
    for (size_t d = 0; d <= rank; d++) {
        Onnx__TensorShapeProto__Dimension *extent = tensor->shape->dim[d] = take(writer, sizeof *extent);
        onnx__tensor_shape_proto__dimension__init(extent);
        if (d == 0) extent->dim_param = text(writer, "n", -1);
        extent->has_dim_value = d > 0;
        extent->dim_value = d > 0 ? shape[d - 1] : 0;
    }
    tensor->has_elem_type = 1;
    tensor->elem_type = TYPE_FLOAT;
    type->tensor_type = tensor;
    (*info)->name = name;
    (*info)->type = type;
}

static Status pack(void **bytes, size_t *count, Writer *writer, const char *path, Error *err) {
    const Spec *spec = writer->spec;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets = &opset;
    Onnx__ValueInfoProto *input, *output;
    const int64_t image[] = {spec->input.channels, spec->input.rows, spec->input.columns}, classes = spec->classes;
    describe(writer, &input, name_of(writer, SPEC_INPUT), 3, image);
    describe(writer, &output, name_of(writer, spec->layer_count - 1), 1, &classes);
    graph.name = text(writer, "net", -1);
    graph.node = writer->nodes, graph.n_node = writer->node_count;
    graph.initializer = writer->tensors, graph.n_initializer = writer->tensor_count;
    graph.input = &input, graph.output = &output, graph.n_input = graph.n_output = 1;
    opset.domain = text(writer, "", -1);
    opset.has_version = model.has_ir_version = 1;
    opset.version = OPSET, model.ir_version = IR_VERSION;
    model.producer_name = text(writer, "sounder", -1);
    model.graph = &graph, model.opset_import = &opsets, model.n_opset_import = 1;
    *count = onnx__model_proto__get_packed_size(&model);
    *bytes = malloc(*count);
    if (!*bytes) return fail(err, STATUS_OS, "no memory for the %zu bytes of %s", *count, path);
    onnx__model_proto__pack(&model, *bytes);
    return STATUS_OK;
}

static Status write_graph(void **bytes, size_t *count, Writer *writer, const char *path, Error *err) {
    const Spec *spec = writer->spec;
    for (int l = 0; l < spec->layer_count; l++)
        if (!write_layer(writer, l))
            return fail(err, STATUS_USAGE, "%s: layer %d of the net has no op in ONNX that takes what it takes", path,
                        l + 1);
    if (!writer->flat[spec->layer_count - 1]) { // classes as a vector
        Onnx__NodeProto *last = writer->nodes[writer->node_count - 1];
        char *out = *last->output;
        *last->output = text(writer, "pixel", -1);
        add_node(writer, "Flatten", out, *last->output, NULL, NULL);
        add_whole(writer, "axis", 1);
    }
    return pack(bytes, count, writer, path, err);
}

Status onnx_write_net(void **bytes, size_t *count, const Spec *spec, const float *parameters, const char *path,
                      Error *err) {
    size_t widest = 1;
    for (int l = 0; l < spec->layer_count; l++)
        if ((size_t)spec->layers[l].in.channels > widest) widest = (size_t)spec->layers[l].in.channels;
    Writer *writer = calloc(1, sizeof *writer);
    if (writer) {
        *writer = (Writer){.spec = spec, .parameters = parameters, .room = calloc(1, ROOM_BYTES)};
        writer->ones = malloc(widest * sizeof *writer->ones);
        writer->zeros = calloc(widest, sizeof *writer->zeros);
    }
    Status status;
    if (!writer || !writer->room || !writer->ones || !writer->zeros) {
        status = fail(err, STATUS_OS, "no memory for the graph of %s", path);
    } else {
        for (size_t i = 0; i < widest; i++)
            writer->ones[i] = 1;
        status = write_graph(bytes, count, writer, path, err);
    }
    if (writer) {
        free(writer->room);
        free(writer->ones);
        free(writer->zeros);
    }
    free(writer);
    return status;
}
