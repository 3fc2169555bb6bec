#include "onnx_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *writer_take(Writer *writer, size_t bytes) {
    void *taken = writer->room + writer->used;
    writer->used += (bytes + 15) / 16 * 16;
    return taken;
}

char *writer_text(Writer *writer, const char *prefix, int number) {
    char *written = writer_take(writer, 48);
    if (number < 0)
        snprintf(written, 48, "%s", prefix);
    else
        snprintf(written, 48, "%s%d", prefix, number);
    return written;
}

size_t writer_own_floats(const Spec *spec) {
    size_t count = 0;
    for (int l = 0; l < spec->layer_count; l++) {
        const LayerKind kind = spec->layers[l].kind;
        if (kind == LAYER_LINEAR_EACH || kind == LAYER_LSTM || kind == LAYER_ATTENTION)
            count += layer_parameters(&spec->layers[l]);
    }
    return count;
}

float *writer_own(Writer *writer, size_t count) {
    float *own = writer->own + writer->own_used;
    writer->own_used += count;
    return own;
}

// Tensors -------------------------------------------------------------------------------------------------------------

static Onnx__TensorProto *add_tensor(Writer *writer, const char *name, int number, size_t rank, const int64_t *shape) {
    Onnx__TensorProto *tensor = writer_take(writer, sizeof *tensor);
    onnx__tensor_proto__init(tensor);
    tensor->name = writer_text(writer, name, number);
    tensor->dims = writer_take(writer, rank * sizeof *shape + 1);
    if (rank > 0) memcpy(tensor->dims, shape, rank * sizeof *shape);
    tensor->n_dims = rank;
    tensor->has_data_type = 1;
    tensor->data_type = ONNX_FLOAT;
    writer->tensors[writer->tensor_count++] = tensor;
    return tensor;
}

char *writer_reals(Writer *writer, const char *name, int number, size_t rank, const int64_t *shape,
                   const float *reals) {
    size_t count = 1;
    for (size_t d = 0; d < rank; d++)
        count *= (size_t)shape[d];
    Onnx__TensorProto *tensor = add_tensor(writer, name, number, rank, shape);
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){count * sizeof *reals, (uint8_t *)(uintptr_t)reals};
    return tensor->name;
}

char *writer_scalar(Writer *writer, const char *name, int number, float value) {
    float *own = writer_take(writer, sizeof *own);
    *own = value;
    return writer_reals(writer, name, number, 0, NULL, own);
}

char *writer_wholes(Writer *writer, const char *name, int number, int64_t count, const int64_t *extents) {
    Onnx__TensorProto *tensor = add_tensor(writer, name, number, 1, &count);
    tensor->data_type = ONNX_INT64;
    tensor->int64_data = writer_take(writer, (size_t)count * sizeof *extents);
    memcpy(tensor->int64_data, extents, (size_t)count * sizeof *extents);
    tensor->n_int64_data = (size_t)count;
    return tensor->name;
}

enum { MOST_INPUTS = 5, MOST_OUTPUTS = 2, MOST_ATTRIBUTES = 6 };

char *writer_whole(Writer *writer, const char *name, int number, int64_t value) {
    char *written = writer_wholes(writer, name, number, 1, &value);
    writer->tensors[writer->tensor_count - 1]->n_dims = 0;
    return written;
}

// Nodes ---------------------------------------------------------------------------------------------------------------

char *writer_node(Writer *writer, const char *op, char *gives, char *first, char *second, char *third) {
    Onnx__NodeProto *node = writer_take(writer, sizeof *node);
    char *const inputs[MOST_INPUTS] = {first, second, third};
    onnx__node_proto__init(node);
    node->op_type = writer_text(writer, op, -1);
    node->name = writer_text(writer, op, (int)writer->node_count + 1);
    node->input = writer_take(writer, sizeof inputs);
    memcpy(node->input, inputs, sizeof inputs);
    while (node->n_input < MOST_INPUTS && inputs[node->n_input])
        node->n_input++;
    node->output = writer_take(writer, MOST_OUTPUTS * sizeof gives);
    *node->output = gives;
    node->n_output = 1;
    node->attribute = writer_take(writer, MOST_ATTRIBUTES * sizeof *node->attribute);
    writer->nodes[writer->node_count++] = node;
    return gives;
}

// Of the node that was added last. types: as ONNX numbers them.
static Onnx__AttributeProto *add_attribute(Writer *writer, const char *name, int32_t type) {
    Onnx__NodeProto *node = writer->nodes[writer->node_count - 1];
    Onnx__AttributeProto *attribute = writer_take(writer, sizeof *attribute);
    onnx__attribute_proto__init(attribute);
    attribute->name = writer_text(writer, name, -1);
    attribute->has_type = 1;
    attribute->type = type;
    node->attribute[node->n_attribute++] = attribute;
    return attribute;
}

void writer_set_real(Writer *writer, const char *name, float value) {
    Onnx__AttributeProto *attribute = add_attribute(writer, name, 1);
    attribute->has_f = 1;
    attribute->f = value;
}

void writer_set_whole(Writer *writer, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute = add_attribute(writer, name, 2);
    attribute->has_i = 1;
    attribute->i = value;
}

void writer_set_wholes(Writer *writer, const char *name, size_t count, const int64_t *values) {
    Onnx__AttributeProto *attribute = add_attribute(writer, name, 7);
    attribute->ints = writer_take(writer, count * sizeof *values);
    memcpy(attribute->ints, values, count * sizeof *values);
    attribute->n_ints = count;
}

// Of layers ----------------------------------------------------------------------------------------------------------

char *writer_name(Writer *writer, int layer) {
    if (layer == SPEC_INPUT) return writer_text(writer, "x", -1);
    return layer == writer->spec->layer_count - 1 ? writer_text(writer, "y", -1) : writer_text(writer, "v", layer + 1);
}

int writer_rank(const Writer *writer, int layer) {
    return layer == SPEC_INPUT ? 4 : writer->rank[layer];
}

char *writer_as(Writer *writer, int source, int rank) {
    static const int64_t second = 1;
    char *in = writer_name(writer, source), *out;
    const int before = writer_rank(writer, source), number = (int)writer->node_count + 1;
    if (before == rank) return in;
    if (rank == 2) {
        out = writer_node(writer, "Flatten", writer_text(writer, "flat", number), in, NULL, NULL);
        writer_set_whole(writer, "axis", 1);
        return out;
    }
    if (before == 2) return NULL;
    const Shape shape = source == SPEC_INPUT ? writer->spec->input : writer->spec->layers[source].out;
    if (shape.channels != 1) return NULL;
    return writer_node(writer, rank == 3 ? "Squeeze" : "Unsqueeze",
                       writer_text(writer, rank == 3 ? "steps" : "rows", number), in,
                       writer_wholes(writer, "second", number, 1, &second), NULL);
}

char *writer_parameters(Writer *writer, size_t first, size_t rank, const int64_t *shape) {
    int t = 0;
    while (writer->spec->tensors[t].first != first)
        t++;
    const ParameterTensor *tensor = &writer->spec->tensors[t];
    if (!shape) rank = (size_t)tensor->rank, shape = tensor->shape;
    return writer_reals(writer, tensor->name, -1, rank, shape, writer->parameters + first);
}
