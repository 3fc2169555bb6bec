// Layers of sequences as ONNX's nodes, as PyTorch's exporters write them: (samples, steps, values).
#include "nn/onnx/onnx_layers.h"
#include "nn/onnx/onnx_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char *turn(Writer *writer, char *gives, char *in, size_t rank, const int64_t *order) {
    writer_node(writer, "Transpose", gives, in, NULL, NULL);
    writer_set_wholes(writer, "perm", rank, order);
    return gives;
}

bool write_embedding(Writer *writer, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    char *in = writer_node(writer, "Cast", writer_text(writer, "numbers", l + 1), writer_as(writer, layer->source, 2),
                           NULL, NULL);
    writer_set_whole(writer, "to", ONNX_INT64);
    writer_node(writer, "Gather", out, writer_parameters(writer, layer->weight, 0, NULL), in, NULL);
    writer_set_whole(writer, "axis", 0);
    writer->rank[l] = 3;
    return true;
}

bool write_positions(Writer *writer, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    char *in = writer_as(writer, layer->source, 3);
    if (in) writer_node(writer, "Add", out, in, writer_parameters(writer, layer->weight, 0, NULL), NULL);
    writer->rank[l] = 3;
    return in != NULL;
}

// Each step's values times a weight of (outs, ins) as it lies in the net, which is (ins, outs) here, plus a bias.
static char *add_product(Writer *writer, char *gives, char *in, size_t weight, size_t bias, size_t outs, size_t ins,
                         int l, const char *what) {
    const float *from = writer->parameters + weight;
    float *own = writer_own(writer, outs * ins);
    char name[32], *turned, *product;
    for (size_t o = 0; o < outs; o++)
        for (size_t i = 0; i < ins; i++)
            own[i * outs + o] = from[o * ins + i];
    snprintf(name, sizeof name, "%s_weight", what);
    turned = writer_reals(writer, name, l + 1, 2, (int64_t[]){(int64_t)ins, (int64_t)outs}, own);
    snprintf(name, sizeof name, "%s_product", what);
    product = writer_node(writer, "MatMul", writer_text(writer, name, l + 1), in, turned, NULL);
    return writer_node(writer, "Add", gives, product, writer_parameters(writer, bias, 0, NULL), NULL);
}

bool write_linear_each(Writer *writer, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    if (writer->rank[l] == 2) return false;
    add_product(writer, out, writer_name(writer, layer->source), layer->weight, layer->bias, linear_outs(layer),
                linear_ins(layer), l, "each");
    return true;
}

bool write_norm_each(Writer *writer, char *out, int l) {
    const Layer *layer = &writer->spec->layers[l];
    if (writer->rank[l] == 2) return false;
    writer_node(writer, "LayerNormalization", out, writer_name(writer, layer->source),
                writer_parameters(writer, layer->weight, 0, NULL), writer_parameters(writer, layer->bias, 0, NULL));
    writer_set_whole(writer, "axis", -1);
    writer_set_real(writer, "epsilon", NORM_EPSILON);
    return true;
}

bool write_lstm(Writer *writer, char *out, int l) {
    static const int64_t steps_first[] = {1, 0, 2}, first = 0, second = 1;
    const Layer *layer = &writer->spec->layers[l];
    const size_t units = (size_t)lstm_units(layer), ins = (size_t)layer->in.columns;
    const int64_t rows = 4 * (int64_t)units, of_input[] = {1, rows, (int64_t)ins}, of_state[] = {1, rows, rows / 4};
    const float *weight = writer->parameters + layer->weight, *bias = writer->parameters + layer->bias;
    char *in = writer_as(writer, layer->source, 3);
    if (!in) return false;
    float *input = writer_own(writer, 4 * units * (ins + units) + 8 * units);
    float *state = onnx_gates_to(input, weight, units * ins);
    float *biases = onnx_gates_to(state, weight + 4 * units * ins, units * units);
    onnx_gates_to(onnx_gates_to(biases, bias, units), bias + 4 * units, units);
    in = turn(writer, writer_text(writer, "steps_first", l + 1), in, 3, steps_first);
    char *gives = writer_text(writer, layer->last ? "state" : "outputs", l + 1);
    writer_node(writer, "LSTM", layer->last ? writer_text(writer, "", -1) : gives, in,
                writer_reals(writer, "W", l + 1, 3, of_input, input),
                writer_reals(writer, "R", l + 1, 3, of_state, state));
    Onnx__NodeProto *node = writer->nodes[writer->node_count - 1];
    node->input[node->n_input++] = writer_reals(writer, "B", l + 1, 2, (int64_t[]){1, 2 * rows}, biases);
    if (layer->last) node->output[node->n_output++] = gives;
    writer_set_whole(writer, "hidden_size", (int64_t)units);
    writer->rank[l] = layer->last ? 2 : 3;
    char *axis = writer_wholes(writer, "direction", l + 1, 1, layer->last ? &first : &second);
    char *plain = layer->last ? out : writer_text(writer, "in_order", l + 1);
    writer_node(writer, "Squeeze", plain, gives, axis, NULL);
    if (!layer->last) turn(writer, out, plain, 3, steps_first);
    return true;
}

// Scores of what a step must not look at: those behind it get none of a softmax.
static char *add_mask(Writer *writer, char *scores, int l) {
    const int64_t steps = writer->spec->layers[l].in.rows, square[] = {steps, steps};
    char *never = writer_node(writer, "Expand", writer_text(writer, "never", l + 1),
                              writer_scalar(writer, "minus_infinity", l + 1, -INFINITY),
                              writer_wholes(writer, "square", l + 1, 2, square), NULL);
    char *mask = writer_node(writer, "Trilu", writer_text(writer, "mask", l + 1), never,
                             writer_whole(writer, "above", l + 1, 1), NULL);
    writer_set_whole(writer, "upper", 1);
    return writer_node(writer, "Add", writer_text(writer, "masked", l + 1), scores, mask, NULL);
}

// One of queries, keys and values: (samples, heads, steps, values of a head).
static char *add_part(Writer *writer, char *all, int64_t which, const char *name, int l) {
    char place[16];
    snprintf(place, sizeof place, "%s_at", name);
    writer_node(writer, "Gather", writer_text(writer, name, l + 1), all, writer_whole(writer, place, l + 1, which),
                NULL);
    writer_set_whole(writer, "axis", 0);
    return *writer->nodes[writer->node_count - 1]->output;
}

bool write_attention(Writer *writer, char *out, int l) {
    static const int64_t by_part[] = {2, 0, 3, 1, 4}, last_turned[] = {0, 1, 3, 2}, by_step[] = {0, 2, 1, 3};
    const Layer *layer = &writer->spec->layers[l];
    const int64_t width = layer->in.columns, heads = layer->groups, steps = layer->in.rows;
    const size_t e = (size_t)width, second = layer->bias + 3 * e;
    char *in = writer_as(writer, layer->source, 3);
    if (!in) return false;
    char *all =
        add_product(writer, writer_text(writer, "projected", l + 1), in, layer->weight, layer->bias, 3 * e, e, l, "in");
    const int64_t split[] = {0, steps, 3, heads, width / heads}, joined[] = {0, steps, width};
    all = writer_node(writer, "Reshape", writer_text(writer, "by_heads", l + 1), all,
                      writer_wholes(writer, "heads", l + 1, 5, split), NULL);
    all = turn(writer, writer_text(writer, "by_part", l + 1), all, 5, by_part);
    char *queries = add_part(writer, all, 0, "queries", l), *keys = add_part(writer, all, 1, "keys", l),
         *values = add_part(writer, all, 2, "values", l);
    keys = turn(writer, writer_text(writer, "keys_turned", l + 1), keys, 4, last_turned);
    char *scores = writer_node(writer, "MatMul", writer_text(writer, "scores", l + 1), queries, keys, NULL);
    scores = writer_node(writer, "Mul", writer_text(writer, "scaled", l + 1), scores,
                         writer_scalar(writer, "scale", l + 1, 1 / sqrtf((float)(width / heads))), NULL);
    if (layer->causal) scores = add_mask(writer, scores, l);
    char *shares = writer_node(writer, "Softmax", writer_text(writer, "shares", l + 1), scores, NULL, NULL);
    writer_set_whole(writer, "axis", -1);
    char *seen = writer_node(writer, "MatMul", writer_text(writer, "seen", l + 1), shares, values, NULL);
    seen = turn(writer, writer_text(writer, "seen_by_step", l + 1), seen, 4, by_step);
    seen = writer_node(writer, "Reshape", writer_text(writer, "heads_joined", l + 1), seen,
                       writer_wholes(writer, "joined", l + 1, 3, joined), NULL);
    add_product(writer, out, seen, second, second + e * e, e, e, l, "out");
    writer->rank[l] = 3;
    return true;
}
