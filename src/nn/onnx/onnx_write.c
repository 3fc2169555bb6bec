// From a net to ONNX's messages, opset 17: what onnx_net.h's reader reads. Group normalisation is
// written by instances between reshapes and gelu by Erf, as PyTorch's exporters write them, for older runtimes.
#include "onnx_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/onnx/onnx_writer.h"

enum { OPSET = 17, IR_VERSION = 8 };

// Rows and columns, `times` times: pads have those of both ends.
static void add_sides(Writer *writer, const char *name, Sides sides, size_t times) {
    const int64_t both[] = {sides.rows, sides.columns, sides.rows, sides.columns};
    writer_set_wholes(writer, name, 2 * times, both);
}

static void add_window(Writer *writer, const Layer *layer) {
    const Sides plain = {layer->kernel, layer->kernel}, one = {1, 1}, pad = {layer->pad, layer->pad};
    const bool is_plain = layer_is_plain(layer), is_conv = layer->kind == LAYER_CONV;
    add_sides(writer, "kernel_shape", is_plain ? plain : layer->window.size, 1);
    add_sides(writer, "strides", !is_plain ? layer->window.stride : is_conv ? one : plain, 1);
    add_sides(writer, "pads", is_plain ? pad : layer->window.pad, 2);
    if (is_conv) add_sides(writer, "dilations", is_plain ? one : layer->dilation, 1);
    if (is_conv) writer_set_whole(writer, "group", is_plain ? 1 : layer->groups);
}

static void write_norm(Writer *writer, char *in, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    const int64_t channels = layer->in.channels, groups = layer->groups, split[] = {0, groups, -1},
                  wide[] = {channels, 1, 1};
    const bool flat = writer_rank(writer, layer->source) == 2;
    const int64_t back[] = {-1, channels, layer->in.rows, layer->in.columns};
    if (norm_weights(layer) != (size_t)channels || (groups == 1 && layer->in.rows * layer->in.columns == 1)) {
        const int64_t steps[] = {layer->in.rows, layer->in.columns};
        const int64_t *shape = writer_rank(writer, layer->source) == 3 ? steps : NULL;
        writer_node(writer, "LayerNormalization", out, in, writer_parameters(writer, layer->weight, 2, shape),
                    writer_parameters(writer, layer->bias, 2, shape));
        writer_set_whole(writer, "axis", 1);
        writer_set_real(writer, "epsilon", NORM_EPSILON);
        return;
    }
    if (flat)
        in = writer_node(writer, "Reshape", writer_text(writer, "image", l + 1), in,
                         writer_wholes(writer, "as_image", l + 1, 4, back), NULL);
    in = writer_node(writer, "Reshape", writer_text(writer, "split", l + 1), in,
                     writer_wholes(writer, "by_group", l + 1, 3, split), NULL);
    in = writer_node(writer, "InstanceNormalization", writer_text(writer, "norm", l + 1), in,
                     writer_reals(writer, "ones", l + 1, 1, &groups, writer->ones),
                     writer_reals(writer, "zeros", l + 1, 1, &groups, writer->zeros));
    writer_set_real(writer, "epsilon", NORM_EPSILON);
    in = writer_node(writer, "Reshape", writer_text(writer, "back", l + 1), in,
                     writer_wholes(writer, "by_channel", l + 1, 4, back), NULL);
    in = writer_node(writer, "Mul", writer_text(writer, "gain", l + 1), in,
                     writer_parameters(writer, layer->weight, 3, wide), NULL);
    writer_node(writer, "Add", out, in, writer_parameters(writer, layer->bias, 3, wide), NULL);
    writer->rank[l] = 4;
}

static void write_batch_norm(Writer *writer, char *in, char *out, const Layer *layer) {
    const size_t channels = norm_weights(layer);
    char *weight = writer_parameters(writer, layer->weight, 0, NULL),
         *bias = writer_parameters(writer, layer->bias, 0, NULL);
    char *mean = writer_parameters(writer, layer->bias + channels, 0, NULL);
    char *variance = writer_parameters(writer, layer->bias + 2 * channels, 0, NULL);
    writer_node(writer, "BatchNormalization", out, in, weight, bias);
    Onnx__NodeProto *node = writer->nodes[writer->node_count - 1];
    node->input[node->n_input++] = mean;
    node->input[node->n_input++] = variance;
    writer_set_real(writer, "epsilon", NORM_EPSILON);
}

static void write_activation(Writer *writer, char *in, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    switch (layer->activation) {
    case ACTIVATION_TANH:
        writer_node(writer, "Tanh", out, in, NULL, NULL);
        break;
    case ACTIVATION_SIGMOID:
        writer_node(writer, "Sigmoid", out, in, NULL, NULL);
        break;
    case ACTIVATION_LEAKY_RELU:
        writer_node(writer, "LeakyRelu", out, in, NULL, NULL);
        writer_set_real(writer, "alpha", layer->rate);
        break;
    case ACTIVATION_RELU6:
        writer_node(writer, "Clip", out, in, writer_scalar(writer, "low", l + 1, 0),
                    writer_scalar(writer, "high", l + 1, 6));
        break;
    case ACTIVATION_GELU: {
        char *shrunk = writer_node(writer, "Div", writer_text(writer, "shrunk", l + 1), in,
                                   writer_scalar(writer, "root", l + 1, (float)M_SQRT2), NULL);
        char *erf = writer_node(writer, "Erf", writer_text(writer, "erf", l + 1), shrunk, NULL, NULL);
        char *share = writer_node(writer, "Add", writer_text(writer, "share", l + 1), erf,
                                  writer_scalar(writer, "one", l + 1, 1), NULL);
        char *twice = writer_node(writer, "Mul", writer_text(writer, "twice", l + 1), in, share, NULL);
        writer_node(writer, "Mul", out, twice, writer_scalar(writer, "half", l + 1, 0.5f), NULL);
    }
    }
}

// Of layers of images. False: it takes images of one pixel from a vector.
static bool write_windows(Writer *writer, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    const bool is_conv = layer->kind == LAYER_CONV;
    char *in = writer_as(writer, layer->source, 4), *weight = NULL, *bias = NULL;
    if (!in) return false;
    if (is_conv) weight = writer_parameters(writer, layer->weight, 0, NULL);
    if (is_conv) bias = writer_parameters(writer, layer->bias, 0, NULL);
    const char *pool = layer->kind == LAYER_POOL ? "MaxPool" : "AveragePool";
    writer_node(writer, is_conv ? "Conv" : pool, out, in, weight, bias);
    add_window(writer, layer);
    if (layer->kind == LAYER_AVERAGE) writer_set_whole(writer, "count_include_pad", 1);
    writer->rank[l] = 4;
    return true;
}

static bool write_linear(Writer *writer, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    writer_node(writer, "Gemm", out, writer_as(writer, layer->source, 2),
                writer_parameters(writer, layer->weight, 0, NULL), writer_parameters(writer, layer->bias, 0, NULL));
    writer_set_whole(writer, "transB", 1);
    writer->rank[l] = 2;
    return true;
}

static bool write_two(Writer *writer, char *in, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    const bool is_sum = layer->kind == LAYER_ADD;
    if (!is_sum && writer->rank[l] == 3) in = writer_as(writer, layer->source, writer->rank[l] = 4);
    if ((writer_rank(writer, layer->other) == 2) != (writer->rank[l] == 2)) return false;
    char *other = writer_as(writer, layer->other, writer->rank[l]);
    if (!other) return false;
    writer_node(writer, is_sum ? "Add" : "Concat", out, in, other, NULL);
    if (!is_sum) writer_set_whole(writer, "axis", 1);
    return true;
}

// False: ONNX's opset has no op for it.
static bool write_layer(Writer *writer, int l) {
    const Layer *layer = &writer->spec->layers[l];
    char *in = writer_name(writer, layer->source), *out = writer_name(writer, l);
    writer->rank[l] = writer_rank(writer, layer->source);
    switch (layer->kind) {
    case LAYER_CONV:
    case LAYER_POOL:
    case LAYER_AVERAGE:
        return write_windows(writer, out, l);
    case LAYER_LINEAR:
        return write_linear(writer, out, l);
    case LAYER_RELU:
        return writer_node(writer, "Relu", out, in, NULL, NULL) != NULL;
    case LAYER_DROPOUT:
        return writer_node(writer, "Dropout", out, in, writer_scalar(writer, "rate", l + 1, layer->rate), NULL) != NULL;
    case LAYER_DROPOUT2D:
        return writer_node(writer, "Identity", out, in, NULL, NULL) != NULL; // nothing but in training
    case LAYER_ACTIVATION:
        write_activation(writer, in, out, l);
        return true;
    case LAYER_NORM:
        if (layer->each) return write_norm_each(writer, out, l);
        write_norm(writer, in, out, l);
        return true;
    case LAYER_ADD:
    case LAYER_CONCAT:
        return write_two(writer, in, out, l);
    case LAYER_BATCH_NORM:
        if (writer->rank[l] == 3) in = writer_as(writer, layer->source, writer->rank[l] = 4);
        write_batch_norm(writer, in, out, layer);
        return true;
    case LAYER_LINEAR_EACH:
        return write_linear_each(writer, out, l);
    case LAYER_EMBEDDING:
        return write_embedding(writer, out, l);
    case LAYER_POSITIONS:
        return write_positions(writer, out, l);
    case LAYER_LSTM:
        return write_lstm(writer, out, l);
    case LAYER_ATTENTION:
        return write_attention(writer, out, l);
    }
    return false;
}

// The file ------------------------------------------------------------------------------------------------------------

// A tensor of floats whose first extent is the number of samples.
static void describe(Writer *writer, Onnx__ValueInfoProto **info, char *name, size_t rank, const int64_t *shape) {
    Onnx__TypeProto *type = writer_take(writer, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = writer_take(writer, sizeof *tensor);
    *info = writer_take(writer, sizeof **info);
    onnx__value_info_proto__init(*info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    tensor->shape = writer_take(writer, sizeof *tensor->shape);
    onnx__tensor_shape_proto__init(tensor->shape);
    tensor->shape->dim = writer_take(writer, (rank + 1) * sizeof *tensor->shape->dim);
    tensor->shape->n_dim = rank + 1;
    for (size_t d = 0; d <= rank; d++) {
        Onnx__TensorShapeProto__Dimension *extent = tensor->shape->dim[d] = writer_take(writer, sizeof *extent);
        onnx__tensor_shape_proto__dimension__init(extent);
        if (d == 0) extent->dim_param = writer_text(writer, "n", -1);
        extent->has_dim_value = d > 0;
        extent->dim_value = d > 0 ? shape[d - 1] : 0;
    }
    tensor->has_elem_type = 1;
    tensor->elem_type = ONNX_FLOAT;
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
    describe(writer, &input, writer_name(writer, SPEC_INPUT), 3, image);
    describe(writer, &output, writer_name(writer, spec->layer_count - 1), 1, &classes);
    graph.name = writer_text(writer, "net", -1);
    graph.node = writer->nodes, graph.n_node = writer->node_count;
    graph.initializer = writer->tensors, graph.n_initializer = writer->tensor_count;
    graph.input = &input, graph.output = &output, graph.n_input = graph.n_output = 1;
    opset.domain = writer_text(writer, "", -1);
    opset.has_version = model.has_ir_version = 1;
    opset.version = OPSET, model.ir_version = IR_VERSION;
    model.producer_name = writer_text(writer, "sounder", -1);
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
    if (writer->rank[spec->layer_count - 1] != 2) { // classes as a vector
        Onnx__NodeProto *last = writer->nodes[writer->node_count - 1];
        char *out = *last->output;
        *last->output = writer_text(writer, "pixel", -1);
        writer_node(writer, "Flatten", out, *last->output, NULL, NULL);
        writer_set_whole(writer, "axis", 1);
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
        writer->own = malloc((writer_own_floats(spec) + 1) * sizeof *writer->own);
    }
    Status status;
    if (!writer || !writer->room || !writer->ones || !writer->zeros || !writer->own) {
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
        free(writer->own);
    }
    free(writer);
    return status;
}
