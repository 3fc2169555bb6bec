#include "onnx_layers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whoever takes another layer than the one before takes it by its name.
static void take(OnnxLayers *layers, int layer) {
    if (layer >= 0 && layer != layers->count - 1) layers->of[layer].named = true;
}

Status onnx_layers_add(OnnxLayers *layers, int source, Shape out, Error *err, const char *format, ...) {
    if (layers->count == SPEC_MAX_LAYERS)
        return fail(err, STATUS_DATA, "the net has more than %d layers", SPEC_MAX_LAYERS);
    OnnxLayer *layer = &layers->of[layers->count];
    *layer = (OnnxLayer){.source = source, .other = SPEC_INPUT, .out = out};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(layer->text, sizeof layer->text, format, arguments);
    va_end(arguments);
    take(layers, source);
    layers->count++;
    return STATUS_OK;
}

Status onnx_layers_weigh(OnnxLayers *layers, size_t outs, size_t weights, Error *err) {
    OnnxLayer *layer = &layers->of[layers->count - 1];
    layer->outs = outs;
    layer->weights = weights;
    layer->weight = calloc(weights + 1, sizeof *layer->weight);
    layer->bias = calloc(outs + 1, sizeof *layer->bias);
    if (layer->weight && layer->bias) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the %zu weights of \"%s\"", weights, layer->text);
}

void onnx_layers_drop(OnnxLayers *layers, int count) {
    for (int l = layers->count - count; l < layers->count; l++) {
        free(layers->of[l].weight);
        free(layers->of[l].bias);
        free(layers->of[l].running);
    }
    layers->count -= count;
    for (int l = 0; l < layers->count; l++)
        layers->of[l].named = false;
    for (int l = 0; l < layers->count; l++) {
        if (layers->of[l].source >= 0 && layers->of[l].source != l - 1) layers->of[layers->of[l].source].named = true;
        if (layers->of[l].other >= 0) layers->of[layers->of[l].other].named = true;
    }
}

void onnx_layer_scale(OnnxLayer *layer, const float *gain, const float *shift) {
    const size_t row = layer->weights / layer->outs;
    layer->has_bias |= shift != NULL;
    for (size_t o = 0; o < layer->outs; o++) {
        if (gain) layer->bias[o] *= gain[o];
        if (shift) layer->bias[o] += shift[o];
        for (size_t i = 0; gain && i < row; i++)
            layer->weight[o * row + i] *= gain[o];
    }
}

static size_t write_layer(char *text, size_t room, const OnnxLayers *layers, int number) {
    const OnnxLayer *layer = &layers->of[number];
    char other[16] = "", from[24] = "", as[24] = "";
    if (layer->other != SPEC_INPUT) snprintf(other, sizeof other, " a%d", layer->other + 1);
    if (layer->source != number - 1) snprintf(from, sizeof from, " from a%d", layer->source + 1);
    if (layer->named) snprintf(as, sizeof as, " as a%d", number + 1);
    return (size_t)snprintf(text, room, "%s%s%s%s%s", number ? "; " : "", layer->text, other, from, as);
}

static Status write_text(OnnxNet *net, const OnnxLayers *layers, const char *path, Error *err) {
    size_t used = 0;
    for (int l = 0; l < layers->count; l++) {
        if (l > 0 && layers->of[l].source == SPEC_INPUT)
            return fail(err, STATUS_DATA,
                        "%s: the graph's input is taken by \"%s\", too; a net here takes it in its first layer alone",
                        path, layers->of[l].text);
        used += write_layer(net->text + used, sizeof net->text - used, layers, l);
        if (used >= sizeof net->text)
            return fail(err, STATUS_DATA, "%s: the net takes more than %zu characters as a list of layers", path,
                        sizeof net->text - 1);
    }
    return STATUS_OK;
}

Status onnx_layers_finish(OnnxNet *net, OnnxLayers *layers, const char *path, Error *err) {
    if (layers->count == 0) return fail(err, STATUS_DATA, "%s: the graph has no layers", path);
    TRY(write_text(net, layers, path, err));
    for (int l = 0; l < layers->count; l++)
        net->parameter_count += layers->of[l].weights + (layers->of[l].running ? 3 : 1) * layers->of[l].outs;
    net->parameters = malloc((net->parameter_count + 1) * sizeof *net->parameters);
    if (!net->parameters) return fail(err, STATUS_OS, "%s: no memory for %zu parameters", path, net->parameter_count);
    float *next = net->parameters;
    for (int l = 0; l < layers->count; l++) {
        const OnnxLayer *layer = &layers->of[l];
        if (!layer->weight) continue;
        memcpy(next, layer->weight, layer->weights * sizeof *next);
        memcpy(next + layer->weights, layer->bias, layer->outs * sizeof *next);
        next += layer->weights + layer->outs;
        if (!layer->running) continue;
        memcpy(next, layer->running, 2 * layer->outs * sizeof *next);
        next += 2 * layer->outs;
    }
    return STATUS_OK;
}

void onnx_layers_free(OnnxLayers *layers) {
    for (int l = 0; l < layers->count; l++) {
        free(layers->of[l].weight);
        free(layers->of[l].bias);
        free(layers->of[l].running);
    }
}

// Which gate here stands at each place in ONNX's order.
static const size_t gate_at[] = {0, 3, 1, 2};

float *onnx_gates_to(float *to, const float *from, size_t block) {
    for (size_t place = 0; place < 4; place++)
        memcpy(to + place * block, from + gate_at[place] * block, block * sizeof *to);
    return to + 4 * block;
}

float *onnx_gates_from(float *to, const float *from, size_t block) {
    for (size_t place = 0; place < 4; place++)
        memcpy(to + gate_at[place] * block, from + place * block, block * sizeof *to);
    return to + 4 * block;
}
