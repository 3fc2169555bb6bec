// From a file to a net: node after node, in the order of the file, in which each comes behind those it takes from.
#include "onnx_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/onnx/onnx_ops.h"

static const OnnxOp *find_op(const OnnxOp *ops, const char *name) {
    while (ops->name && strcmp(ops->name, name) != 0)
        ops++;
    return ops->name ? ops : NULL;
}

// Whether a word is one of those that blanks separate.
static bool is_among(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

static Status handle_node(OnnxImport *import, const Onnx__NodeProto *node, Error *err) {
    const OnnxOp *op = find_op(onnx_layer_ops, node->op_type);
    if (!op) op = find_op(onnx_shape_ops, node->op_type);
    if (!op) op = find_op(onnx_view_ops, node->op_type);
    const bool is_standard = !node->domain || !*node->domain || strcmp(node->domain, "ai.onnx") == 0;
    if (!op || !is_standard)
        return fail(err, STATUS_DATA,
                    NODE_FORMAT "there is no such layer here; sounder help models lists what there is",
                    NODE_ARGS(import, node));
    for (size_t i = 0; i < node->n_attribute; i++) {
        const char *name = node->attribute[i]->name ? node->attribute[i]->name : "";
        if (!is_among(op->attributes, name))
            return fail(err, STATUS_DATA, NODE_FORMAT "its attribute %.60s is not read", NODE_ARGS(import, node), name);
    }
    return op->handle(import, node, err);
}

// What the graph gives has to be what the last layer gives, sample after sample.
static Status check_result(OnnxImport *import, Error *err) {
    const char *name = import->graph->output[0]->name;
    for (size_t i = 0; name && i < import->value_count; i++) {
        const OnnxValue *value = &import->values[i];
        if (strcmp(value->name, name) == 0 && value->kind == VALUE_SAMPLES &&
            value->layer == import->layers.count - 1 && value->view[0] == 'n' && onnx_is_in_order(value))
            return STATUS_OK;
    }
    return fail(err, STATUS_DATA, "%s: what the graph gives, %.100s, is not what its last layer gives", import->path,
                name ? name : "a value without name");
}

static Status read_net(OnnxNet *net, const char *path, Shape sample, Error *err) {
    OnnxImport import;
    Status status;
    *net = (OnnxNet){.text = ""};
    TRY(onnx_open(&import, path, sample, err));
    for (size_t n = 0; n < import.graph->n_node; n++)
        TRY_GOTO(close, handle_node(&import, import.graph->node[n], err));
    TRY_GOTO(close, check_result(&import, err));
    TRY_GOTO(close, onnx_layers_finish(net, &import.layers, path, err));
    net->folded = import.folded;
close:
    onnx_close(&import);
    return status;
}

const OnnxModule sounder_onnx = {.read = read_net, .write = onnx_write_net};
