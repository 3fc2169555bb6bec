// Part of layer.h: sums, products and joins of two layers' values.
//
// These layers read two values: their source, and the one called NAME (Layer.other). The gradient of a sum's or join's
// source costs no copy: an addition's is the output's gradient, and a join's is its first part, as channels are the
// slowest index.
#include <string.h>

#include "layer.h"
#include "nn/pass.h"

static Status do_not_match(const Layer *layer, const LayerText *of, const char *what, Error *err) {
    const Shape in = layer->in, other = of->spec->layers[layer->other].out;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%d x %d x %d values and the %d x %d x %d of \"%s\" cannot be %s",
                LAYER_ARGS(of), in.channels, in.rows, in.columns, other.channels, other.rows, other.columns,
                of->words[1], what);
}

static Status read_add(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_layer(&layer->other, of, err));
    const Shape other = of->spec->layers[layer->other].out;
    if (other.channels != layer->in.channels || other.rows != layer->in.rows || other.columns != layer->in.columns)
        return do_not_match(layer, of, "added", err);
    return STATUS_OK;
}

static bool scales_channels(Shape factors, Shape of) {
    return factors.channels == of.channels && factors.rows * factors.columns == 1;
}

// Either value can be the one that has a factor per channel: squeeze-and-excitation computes it last.
static Status read_mul(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_layer(&layer->other, of, err));
    const Shape in = layer->in, other = of->spec->layers[layer->other].out;
    const bool alike = other.channels == in.channels && other.rows == in.rows && other.columns == in.columns;
    if (!alike && !scales_channels(other, in) && !scales_channels(in, other))
        return do_not_match(layer, of, "multiplied", err);
    layer->groups = (int)shape_size(other);
    if (scales_channels(in, other)) layer->out = other;
    return STATUS_OK;
}

// The other value's channels follow the source's, so rows and columns must match.
static Status read_concat(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_layer(&layer->other, of, err));
    const Shape other = of->spec->layers[layer->other].out;
    if (other.rows != layer->in.rows || other.columns != layer->in.columns)
        return do_not_match(layer, of, "joined", err);
    layer->out.channels += other.channels;
    return STATUS_OK;
}

static void add_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->add(at->out, at->in, at->other, shape_size(call->layer->out), call->samples);
}

// Copies one input after the other: channels are the slowest index of all tensors.
static void concat_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    const size_t n = (size_t)call->samples;
    const size_t all = shape_size(call->layer->out) * n, own = shape_size(call->layer->in) * n;
    memcpy(at->out, at->in, own * sizeof *at->out);
    memcpy(at->out + own, at->other, (all - own) * sizeof *at->out);
}

static void mul_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    const Layer *layer = call->layer;
    call->kernels->mul_forward(at->out, at->in, at->other, shape_size(layer->in), (size_t)layer->groups,
                               shape_size(layer->out), call->samples);
}

// The gradient of a factor is the output's times the other factor.
static void mul_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    const Layer *layer = call->layer;
    const size_t in = shape_size(layer->in), other = (size_t)layer->groups, out = shape_size(layer->out);
    if (at->in_gradient)
        call->kernels->mul_backward(at->in_gradient, false, at->other, at->out_gradient, in, other, out, call->samples);
    if (at->other_gradient)
        call->kernels->mul_backward(at->other_gradient, at->other_adds, at->in, at->out_gradient, other, in, out,
                                    call->samples);
}

// Gives the second input its gradient: the output's gradient from feature `first` on. The planner has already made the
// first input's gradient the beginning of the output's.
static void give_other(const LayerCall *call, size_t first) {
    const LayerBuffers *at = call->at;
    if (!at->other_gradient) return;
    const size_t n = (size_t)call->samples, features = shape_size(call->layer->out) - first;
    const float *part = at->out_gradient + first * n;
    if (at->other_adds)
        call->kernels->add(at->other_gradient, at->other_gradient, part, features, call->samples);
    else
        memcpy(at->other_gradient, part, features * n * sizeof *part);
}

static void add_backward(const LayerCall *call) {
    give_other(call, 0);
}

static void concat_backward(const LayerCall *call) {
    give_other(call, shape_size(call->layer->in));
}

const LayerType add_layer = {.name = "add",
                             .words = {{.form = {"add", "add NAME", "its input plus what the layer of that name gives"},
                                        .also = {"residual"},
                                        .read = read_add}},
                             .traits = PASSES_GRADIENT | IN_PARTS | IS_SUM,
                             .forward = add_forward,
                             .backward = add_backward};

const LayerType mul_layer = {
    .name = "mul",
    .words = {{.form = {"mul", "mul NAME",
                        "its input times what the layer of that name gives; one of both may have one value per "
                        "channel"},
               .also = {"multiply"},
               .read = read_mul}},
    .traits = IN_PARTS,
    .forward = mul_forward,
    .backward = mul_backward};

const LayerType concat_layer = {
    .name = "concat",
    .words = {{.form = {"concat", "concat NAME", "the channels of its input, then those of that layer"},
               .also = {"cat"},
               .read = read_concat}},
    .traits = PASSES_A_PART | IN_PARTS,
    .forward = concat_forward,
    .backward = concat_backward};
