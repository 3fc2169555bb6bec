// Layers that read samples step by step, and their twins.
#include <stdio.h>

#include "nn/kernels/sequence.h"
#include "nn/spec.h"
#include "twins.h"

// Of a net on sequences of 7 numbers; the first layer is the embedding.
static Spec sequences(void) {
    Spec spec;
    Error err;
    check_ok(spec_parse(&spec, "embedding 3 5; linear 2", (Shape){1, 1, 7}, 2, &err));
    return spec;
}

static void check_embedding(const Trial *trial) {
    const Spec spec = sequences();
    const Layer *layer = &spec.layers[0];
    const size_t table = layer_parameters(layer);
    Values in = lanes(trial, shape_size(layer->in), 4), out_gradient = lanes(trial, shape_size(layer->out), 5);
    Values weights = parameters(trial, table, 6), out = values_of(trial, out_gradient.each, 0);
    Values gradient = values_of(trial, table, PARAMETER_GAP);
    cuda_embedding_forward(on_gpu(&out), on_gpu(&in), on_gpu(&weights), weights.stride, layer, &trial->step);
    cuda_embedding_backward(on_gpu(&gradient), on_gpu(&in), on_gpu(&out_gradient), gradient.stride, layer,
                            &trial->step);
    for (int m = 0; m < trial->models; m++) {
        memset(gradient.host[m].at, 0, gradient.each * sizeof(float));
        trial->cpu->embedding_forward(out.host[m].at, in.host[m].at, weights.host[m].at, layer, trial->samples);
        trial->cpu->embedding_backward(gradient.host[m].at, in.host[m].at, out_gradient.host[m].at, layer,
                                       trial->samples);
    }
    compare("embedding forward", &out, NULL, 1, 0);
    compare("embedding table", &gradient, NULL, 1, 1e-6);
    drop_all(in, out_gradient, weights, out, gradient);
}

static void check_positions(const Trial *trial) {
    Spec spec;
    Error err;
    check_ok(spec_parse(&spec, "positions; linear 2", (Shape){1, 7, 5}, 2, &err));
    const Layer *layer = &spec.layers[0];
    const size_t own = layer_parameters(layer);
    Values in = lanes(trial, own, 4), out_gradient = lanes(trial, own, 5), weights = parameters(trial, own, 6);
    Values out = values_of(trial, out_gradient.each, 0), gradient = values_of(trial, own, PARAMETER_GAP);
    cuda_positions_forward(on_gpu(&out), on_gpu(&in), on_gpu(&weights), weights.stride, layer, &trial->step);
    cuda_positions_backward(on_gpu(&gradient), on_gpu(&out_gradient), gradient.stride, layer, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        memset(gradient.host[m].at, 0, own * sizeof(float));
        trial->cpu->positions_forward(out.host[m].at, in.host[m].at, weights.host[m].at, layer, trial->samples);
        trial->cpu->positions_backward(gradient.host[m].at, out_gradient.host[m].at, layer, trial->samples);
    }
    compare("positions forward", &out, NULL, 1, 0);
    compare("positions", &gradient, NULL, 1, 1e-6);
    drop_all(in, out_gradient, weights, out, gradient);
}

static void check_one_each(const Trial *trial, const Layer *layer, bool relu) {
    const size_t n = (size_t)trial->samples, own = layer_parameters(layer);
    const Layer one = linear_at_place(layer);
    Values in = lanes(trial, shape_size(layer->in), 4), out_gradient = lanes(trial, shape_size(layer->out), 5);
    Values weights = parameters(trial, own, 6), out = values_of(trial, out_gradient.each, 0);
    Values in_gradient = values_of(trial, in.each, 0), gradient = values_of(trial, own, PARAMETER_GAP);
    Tensor rows = tensor_new(linear_places(layer) * n * linear_row_floats(&one));
    Tensor scratch = tensor_new(linear_scratch_floats(&one, trial->samples));
    const size_t bias = layer->bias - layer->weight;
    cuda_linear_forward(on_gpu(&out), on_gpu(&in), on_gpu(&weights), layer->nobias ? NULL : on_gpu(&weights) + bias,
                        weights.stride, relu, layer, NULL, &trial->step);
    cuda_linear_backward_input(on_gpu(&in_gradient), on_gpu(&out_gradient), relu ? on_gpu(&in) : NULL, on_gpu(&weights),
                               weights.stride, layer, NULL, &trial->step);
    cuda_linear_backward_weight(on_gpu(&gradient), on_gpu(&gradient) + bias, on_gpu(&in), on_gpu(&out_gradient),
                                gradient.stride, layer, NULL, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        const float *weight = weights.host[m].at;
        memset(gradient.host[m].at, 0, own * sizeof(float));
        trial->cpu->linear_each_forward(out.host[m].at, rows.at, in.host[m].at, weight, layer, trial->samples,
                                        trial->samples);
        if (relu) trial->cpu->relu_forward(out.host[m].at, shape_size(layer->out), trial->samples);
        trial->cpu->linear_each_backward(gradient.host[m].at, in_gradient.host[m].at, scratch.at, rows.at,
                                         out_gradient.host[m].at, weight, layer, trial->samples, trial->samples);
        if (relu)
            trial->cpu->relu_backward(in_gradient.host[m].at, in.host[m].at, shape_size(layer->in), trial->samples);
    }
    compare("linear each forward", &out, NULL, 1, 1e-5);
    compare("linear each input", &in_gradient, NULL, 1, 1e-5);
    compare("linear each weight and bias", &gradient, NULL, 1, 1e-5);
    tensor_free(rows);
    tensor_free(scratch);
    drop_all(in, out_gradient, weights, out, in_gradient, gradient);
}

static void check_linear_each(const Trial *trial) {
    Error err;
    Spec spec;
    check_ok(
        spec_parse(&spec, "linear 6 each; linear 13 each; linear 7 each nobias; linear 2", (Shape){3, 2, 5}, 2, &err));
    check_one_each(trial, &spec.layers[0], false);
    check_one_each(trial, &spec.layers[1], true);
    check_one_each(trial, &spec.layers[2], true);
}

// A kind of layer that goes through products and keeps something for its backward pass, on both sides.
typedef struct Recurrent {
    const char *forward, *input, *parameters;
    size_t (*kept_features)(const Layer *layer);
    void (*on_gpu_forward)(float *, float *, const float *, const float *, size_t, const Layer *, const CudaStep *);
    void (*on_gpu_backward)(float *, float *, float *, const float *, const float *, const float *, size_t, size_t,
                            const Layer *, const CudaStep *);
} Recurrent;

#define RECURRENT(name)                                                                                                \
    {                                                                                                                  \
#name " forward", #name " input", #name " parameters", cuda_##name##_kept_features, cuda_##name##_forward,     \
            cuda_##name##_backward                                                                                     \
    }

static const Recurrent recurrents = RECURRENT(recurrent), attentions = RECURRENT(attention);

static void run_on_cpu(const Trial *trial, const Layer *layer, float *out, float *kept, float *scratch, float *gradient,
                       float *in_gradient, const float *in, const float *out_gradient, const float *weight) {
    const Kernels *cpu = trial->cpu;
    const int n = trial->samples;
    if (layer->kind == LAYER_ATTENTION) {
        cpu->attention_forward(out, kept, in, weight, layer, n, n);
        cpu->attention_backward(gradient, in_gradient, kept, scratch, out_gradient, weight, layer, n, n);
        return;
    }
    cpu->recurrent_forward(out, kept, scratch, in, weight, layer, n);
    cpu->recurrent_backward(gradient, in_gradient, kept, scratch, out_gradient, weight, layer, n);
}

static void check_with_products(const Trial *trial, const Recurrent *of, const Layer *layer) {
    const bool attends = layer->kind == LAYER_ATTENTION;
    const size_t n = (size_t)trial->samples, own = layer_parameters(layer);
    Values in = lanes(trial, shape_size(layer->in), 4), out_gradient = lanes(trial, shape_size(layer->out), 5);
    Values weights = parameters(trial, own, 6), out = values_of(trial, out_gradient.each, 0);
    Values in_gradient = values_of(trial, in.each, 0), gradient = values_of(trial, own, PARAMETER_GAP);
    Values kept = values_of(trial, of->kept_features(layer) * n, 0);
    Tensor on_cpu =
        tensor_new(attends ? attention_places(layer, trial->samples).end : lstm_places(layer, trial->samples).end);
    Tensor scratch = tensor_new(attends ? attention_scratch_floats(layer, trial->samples)
                                        : lstm_scratch_floats(layer, trial->samples));
    of->on_gpu_forward(on_gpu(&out), on_gpu(&kept), on_gpu(&in), on_gpu(&weights), weights.stride, layer, &trial->step);
    of->on_gpu_backward(on_gpu(&gradient), on_gpu(&in_gradient), on_gpu(&kept), on_gpu(&in), on_gpu(&out_gradient),
                        on_gpu(&weights), weights.stride, gradient.stride, layer, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        memset(gradient.host[m].at, 0, own * sizeof(float));
        run_on_cpu(trial, layer, out.host[m].at, on_cpu.at, scratch.at, gradient.host[m].at, in_gradient.host[m].at,
                   in.host[m].at, out_gradient.host[m].at, weights.host[m].at);
    }
    compare(of->forward, &out, NULL, 1, 1e-5);
    compare(of->input, &in_gradient, NULL, 1, 1e-5);
    compare(of->parameters, &gradient, NULL, 1, 1e-5);
    tensor_free(on_cpu);
    tensor_free(scratch);
    drop_all(in, out_gradient, weights, out, in_gradient, gradient, kept);
}

// All steps' outputs, the last one's, a sequence of a single step, whose outputs before are zeros, and more units than
// a tile has rows or stages at once.
static void check_gates(const Trial *trial, const char *text) {
    static const struct {
        Shape shape;
        int units;
        const char *last;
    } nets[] = {{{1, 7, 5}, 6, ""}, {{1, 7, 6}, 3, " last"}, {{1, 1, 4}, 5, ""}, {{1, 3, 4}, 37, ""}};
    for (size_t i = 0; i < LENGTH(nets); i++) {
        Error err;
        Spec spec;
        char net[64];
        snprintf(net, sizeof net, "%s %d%s; linear 2", text, nets[i].units, nets[i].last);
        check_ok(spec_parse(&spec, net, nets[i].shape, 2, &err));
        check_with_products(trial, &recurrents, &spec.layers[0]);
    }
}

static void check_recurrent(const Trial *trial) {
    check_gates(trial, "lstm");
    check_gates(trial, "gru");
}

// Of all steps and of those before, with one head and more, and a sequence of a single step.
static void check_attention(const Trial *trial) {
    Error err;
    Spec spec, single;
    check_ok(spec_parse(&spec, "attention 2; attention 3 causal; linear 2", (Shape){1, 5, 6}, 2, &err));
    check_ok(spec_parse(&single, "attention 1; linear 2", (Shape){1, 1, 3}, 2, &err));
    check_with_products(trial, &attentions, &spec.layers[0]);
    check_with_products(trial, &attentions, &spec.layers[1]);
    check_with_products(trial, &attentions, &single.layers[0]);
}

static const Twin rows[] = {
    {OP(embedding_forward), " cuda_embedding_forward ", check_embedding},
    {OP(embedding_backward), " cuda_embedding_backward ", check_embedding},
    {OP(positions_forward), " cuda_positions_forward ", check_positions},
    {OP(positions_backward), " cuda_positions_backward ", check_positions},
    {OP(recurrent_forward), " cuda_recurrent_forward cuda_recurrent_kept_features ", check_recurrent},
    {OP(recurrent_backward), " cuda_recurrent_backward ", check_recurrent},
    {OP(linear_each_forward), " cuda_linear_forward ", check_linear_each},
    {OP(linear_each_backward), " cuda_linear_backward_input cuda_linear_backward_weight ", check_linear_each},
    {OP(attention_forward), " cuda_attention_forward cuda_attention_kept_features ", check_attention},
    {OP(attention_backward), " cuda_attention_backward ", check_attention},
};

const Twins sequence_twins = {rows, LENGTH(rows)};
