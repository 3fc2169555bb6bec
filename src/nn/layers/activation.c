// Part of layer.h: functions of one value: relu, which works in place, those of activation.h, and prelu, which learns.
//
// Relu is the most frequent layer, and needs the least: its backward pass can read its output instead of its input, for
// where the output is zero the gradient is zero. So it works in place, without a tensor of its own, and can be fused
// with its neighbours (buffers_join_relus). The other functions need their input, since their output does not determine
// the derivative; they have a tensor of their own and copy nothing.
//
// Prelu has parameters and is therefore a layer type of its own, whose loops call leakyrelu's op: a net of 512 channels
// makes 512 calls for a chunk, each for thousands of values.
#include "nn/kernels/activation.h"

#include "layer.h"
#include "nn/pass.h"

// A slope of 1 would be the identity.
static Status read_leaky(Layer *layer, LayerText *of, Error *err) {
    layer->rate = 0.01f;
    return layer_text_has_more(of) ? layer_text_number(&layer->rate, of, "SLOPE", 0, 1, err) : STATUS_OK;
}

static Status read_elu(Layer *layer, LayerText *of, Error *err) {
    layer->rate = 1;
    return layer_text_has_more(of) ? layer_text_number(&layer->rate, of, "ALPHA", 0, 100, err) : STATUS_OK;
}

// A layer before the relu that `rectifies` has rectified its output already: the relu then only passes its input on.
static void relu_forward(const LayerCall *call) {
    const Layer *layer = call->layer;
    layer_copy(call, call->at->out, call->at->in);
    if (!layer->rectifies) call->kernels->relu_forward(call->at->out, shape_size(layer->out), call->samples);
}

// A layer after the relu that is `rectified` has included this backward pass in its own.
static void relu_backward(const LayerCall *call) {
    const Layer *layer = call->layer;
    const LayerBuffers *at = call->at;
    layer_copy(call, at->in_gradient, at->out_gradient);
    if (!layer->rectified)
        call->kernels->relu_backward(at->in_gradient, at->out, shape_size(layer->out), call->samples);
}

// One op serves all functions: it switches on Layer.activation once per chunk, not per value.
static void activation_forward(const LayerCall *call) {
    call->kernels->activation_forward(call->at->out, call->at->in, call->layer, call->samples);
}

static void activation_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->activation_backward(at->in_gradient, at->in, at->out_gradient, call->layer, call->samples);
}

// He et al., ICCV 2015: one slope per channel, or one for all.
static Status read_prelu(Layer *layer, LayerText *of, Error *err) {
    (void)err;
    layer->groups = layer_text_key(of, "shared") ? 1 : layer->in.channels;
    return STATUS_OK;
}

static int prelu_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    tensors[0] = (LayerTensor){.name = "weight", .rank = 1, .shape = {layer->groups}, .start = 0.25f};
    return 1;
}

// A prelu is a leakyrelu in each channel: this is the one of channel `slope`, to which the op of leakyrelu applies.
static Layer prelu_part(const LayerCall *call, int slope) {
    return (Layer){.activation = ACTIVATION_LEAKY_RELU,
                   .in = {1, 1, (int)shape_size(call->layer->in) / call->layer->groups},
                   .rate = call->weight[slope]};
}

static void prelu_forward(const LayerCall *call) {
    for (int slope = 0; slope < call->layer->groups; slope++) {
        const Layer part = prelu_part(call, slope);
        const size_t first = (size_t)slope * shape_size(part.in) * (size_t)call->samples;
        call->kernels->activation_forward(call->at->out + first, call->at->in + first, &part, call->samples);
    }
}

// The gradient of a slope is the sum of x * gradient over the negative x. Each place's samples are summed in float, the
// places in double: an image has up to a hundred thousand, of which a float would lose digits.
static void prelu_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    for (int slope = 0; slope < call->layer->groups; slope++) {
        const Layer part = prelu_part(call, slope);
        const size_t count = shape_size(part.in) * (size_t)call->samples, first = (size_t)slope * count;
        const float *in = at->in + first, *gradient = at->out_gradient + first;
        if (at->in_gradient)
            call->kernels->activation_backward(at->in_gradient + first, in, gradient, &part, call->samples);
        double sum = 0;
        for (size_t i = 0; i < count; i += (size_t)call->samples) {
            float of_place = 0;
            for (size_t s = i; s < i + (size_t)call->samples; s++)
                of_place += in[s] > 0 ? 0 : in[s] * gradient[s];
            sum += (double)of_place;
        }
        at->gradient[slope] += (float)sum;
    }
}

const LayerType relu_layer = {.name = "relu",
                              .words = {{.form = {"relu", "relu", "what is negative becomes 0"}}},
                              .traits = IN_PLACE | READS_OUTPUT | IN_PARTS,
                              .forward = relu_forward,
                              .backward = relu_backward};

const LayerType activation_layer = {
    .name = "activation",
    .words =
        {{.form = {"relu6", "relu6", "and what is above 6 becomes 6"}, .activation = ACTIVATION_RELU6},
         {.form = {"leakyrelu", "leakyrelu [SLOPE]", "what is negative is multiplied by SLOPE, 0.01 if not given"},
          .also = {"leaky_relu", "lrelu"},
          .read = read_leaky,
          .activation = ACTIVATION_LEAKY_RELU},
         {.form = {"tanh", "tanh", "hyperbolic tangent"}, .activation = ACTIVATION_TANH},
         {.form = {"sigmoid", "sigmoid", "1 / (1 + e^-x)"}, .also = {"logistic"}, .activation = ACTIVATION_SIGMOID},
         {.form = {"gelu", "gelu", "x times the share of the normal distribution below x"},
          .activation = ACTIVATION_GELU},
         {.form = {"elu", "elu [ALPHA]", "what is negative becomes ALPHA (e^x - 1); ALPHA is 1 if not given"},
          .read = read_elu,
          .activation = ACTIVATION_ELU},
         {.form = {"silu", "silu", "x times its sigmoid"}, .also = {"swish"}, .activation = ACTIVATION_SILU},
         {.form = {"hardsigmoid", "hardsigmoid", "x / 6 + 1/2, cut to 0 and 1"}, .activation = ACTIVATION_HARDSIGMOID},
         {.form = {"hardswish", "hardswish", "x times its hardsigmoid"}, .activation = ACTIVATION_HARDSWISH}},
    .traits = IN_PARTS,
    .forward = activation_forward,
    .backward = activation_backward};

const LayerType prelu_layer = {
    .name = "prelu",
    .words =
        {{.form = {"prelu", "prelu [shared]",
                   "a leakyrelu that learns its slope, 0.25 at first: one per channel, or with shared one for all"},
          .read = read_prelu}},
    .module = "prelu",
    .traits = IN_PARTS,
    .tensors = prelu_tensors,
    .forward = prelu_forward,
    .backward = prelu_backward};
