// Layers on both sides: convolutions in all their ways, pooling, normalisation, activations, dropout.
#include "gpu.h"
#include "gpu_trial.h"
#include "nn/kernels/activation.h"
#include "nn/kernels/batch_statistics.h"
#include "nn/layers/layer.h"
#include "nn/pass.h"
#include "twins.h"

static const Layer convolutions[] = {
    {.kind = LAYER_CONV, .in = {1, 9, 8}, .out = {5, 5, 4}, .kernel = 5, .weight = 0, .bias = 125},
    {.kind = LAYER_CONV, .in = {7, 6, 7}, .out = {9, 6, 7}, .kernel = 3, .pad = 1, .weight = 0, .bias = 567},
    {.kind = LAYER_CONV, .in = {3, 4, 4}, .out = {2, 4, 4}, .kernel = 1, .weight = 0, .bias = 6},
};
// In groups, dilated, of two strides, or of stride 2, which tiles compute but for the input's gradient.
#define STRIDED(ic, rows, columns, oc, out_rows, out_columns, side, pads)                                              \
    {                                                                                                                  \
        .kind = LAYER_CONV, .in = {ic, rows, columns}, .out = {oc, out_rows, out_columns},                             \
        .bias = (ic) * (oc) * (side) * (side), .groups = 1, .dilation = {1, 1}, .window = {                            \
            {side, side},                                                                                              \
            {2, 2},                                                                                                    \
            {pads, pads}                                                                                               \
        }                                                                                                              \
    }
static const Layer any_convolutions[] = {
    STRIDED(3, 9, 8, 12, 5, 4, 5, 2),
    STRIDED(4, 7, 9, 9, 4, 5, 1, 0),
    STRIDED(1, 10, 7, 3, 5, 4, 7, 3),
    STRIDED(2, 6, 9, 5, 3, 4, 4, 1),
    {.kind = LAYER_CONV,
     .in = {4, 6, 7},
     .out = {4, 3, 7},
     .bias = 100,
     .groups = 4,
     .dilation = {1, 1},
     .window = {{5, 5}, {2, 1}, {2, 2}}},
    {.kind = LAYER_CONV,
     .in = {3, 9, 8},
     .out = {5, 5, 4},
     .bias = 135,
     .groups = 1,
     .dilation = {1, 1},
     .window = {{3, 3}, {2, 2}, {1, 1}}},
    {.kind = LAYER_CONV,
     .in = {4, 7, 9},
     .out = {6, 5, 10},
     .bias = 72,
     .groups = 2,
     .dilation = {1, 1},
     .window = {{3, 2}, {1, 1}, {0, 1}}},
    {.kind = LAYER_CONV,
     .in = {5, 5, 4},
     .out = {5, 5, 4},
     .bias = 45,
     .groups = 5,
     .dilation = {1, 1},
     .window = {{3, 3}, {1, 1}, {1, 1}}},
    {.kind = LAYER_CONV,
     .in = {2, 9, 11},
     .out = {3, 9, 6},
     .bias = 54,
     .groups = 1,
     .dilation = {2, 3},
     .window = {{3, 3}, {1, 2}, {2, 3}}},
};
static const Layer poolings[] = {
    {.kind = LAYER_POOL, .in = {3, 8, 6}, .out = {3, 4, 3}, .kernel = 2},
    {.kind = LAYER_POOL, .in = {2, 7, 11}, .out = {2, 2, 3}, .kernel = 3},
};
static const Layer windows[] = {
    {.kind = LAYER_POOL, .in = {2, 7, 9}, .out = {2, 4, 5}, .window = {{3, 3}, {2, 2}, {1, 1}}},
    {.kind = LAYER_POOL, .in = {3, 8, 6}, .out = {3, 6, 3}, .window = {{3, 2}, {1, 3}, {0, 1}}},
    {.kind = LAYER_POOL, .in = {2, 5, 4}, .out = {2, 2, 1}, .window = {{2, 2}, {3, 3}, {0, 0}}},
    {.kind = LAYER_POOL, .in = {3, 4, 5}, .out = {3, 1, 1}, .window = {{4, 5}, {4, 5}, {0, 0}}},
    {.kind = LAYER_POOL, .in = {3, 7, 5}, .out = {3, 3, 8}, .window = {{3, 8}, {0, 0}, {0, 0}}},  // even parts
    {.kind = LAYER_POOL, .in = {1, 7, 5}, .out = {1, 1, 5}, .window = {{1, 1}, {1, 1}, {-4, 0}}}, // row 4
};

static void check_conv(const Trial *trial, const ConvKernels *cpu, const Layer *layer) {
    int n = trial->samples;
    Values in = lanes(trial, shape_size(layer->in), 1), out_gradient = lanes(trial, shape_size(layer->out), 2);
    Values weights = parameters(trial, parameters_of(layer), 3);
    Values out = values_of(trial, shape_size(layer->out) * (size_t)n, 0);
    Values in_gradient = values_of(trial, shape_size(layer->in) * (size_t)n, 0);
    Values added = lanes(trial, shape_size(layer->in), 4); // to which another input's gradient is added
    Values gradient = values_of(trial, parameters_of(layer), PARAMETER_GAP);
    ConvSizes sizes = cpu->sizes(layer);
    Tensor packed = tensor_new(sizes.packed), scratch = tensor_new(sizes.scratch);
    for (int m = 0; m < trial->models; m++) {
        Tensor packed_gradient = tensor_zeros(sizes.gradient);
        const float *weight = weights.host[m].at;
        int count = (int)trial->counts[m];
        memset(gradient.host[m].at, 0, gradient.each * sizeof(float));
        memset(in_gradient.host[m].at, 0, in_gradient.each * sizeof(float));
        if (count == 0) {
            tensor_free(packed_gradient);
            continue;
        }
        cpu->pack(packed.at, weight, layer);
        cpu->forward(out.host[m].at, scratch.at, in.host[m].at, packed.at, weight + layer->bias, layer, count, n);
        cpu->backward(packed_gradient.at, gradient.host[m].at + layer->bias, in_gradient.host[m].at, false, scratch.at,
                      in.host[m].at, out_gradient.host[m].at, packed.at, layer, count, n);
        cpu->unpack(gradient.host[m].at, packed_gradient.at, layer);
        trial->cpu->add(added.host[m].at, added.host[m].at, in_gradient.host[m].at, shape_size(layer->in), n);
        tensor_free(packed_gradient);
    }
    cuda_conv_forward(on_gpu(&out), on_gpu(&in), on_gpu(&weights), on_gpu(&weights) + layer->bias, weights.stride,
                      layer, &trial->step);
    GpuTensor parts = gpu_new(cuda_conv_scratch_floats(layer, trial->models, n) * sizeof(float), 0);
    cuda_conv_backward_weight(on_gpu(&gradient), on_gpu(&gradient) + layer->bias, gpu_floats(parts), on_gpu(&in),
                              on_gpu(&out_gradient), gradient.stride, layer, &trial->step);
    cuda_conv_backward_input(on_gpu(&in_gradient), false, on_gpu(&out_gradient), on_gpu(&weights), weights.stride,
                             layer, &trial->step);
    cuda_conv_backward_input(on_gpu(&added), true, on_gpu(&out_gradient), on_gpu(&weights), weights.stride, layer,
                             &trial->step);
    compare("conv forward", &out, trial->counts, (size_t)n, 1e-5);
    compare("conv weight and bias", &gradient, NULL, 1, 1e-5);
    compare("conv input", &in_gradient, NULL, 1, 1e-5);
    compare("conv input, added", &added, NULL, 1, 1e-5);
    gpu_free(parts);
    tensor_free(packed);
    tensor_free(scratch);
    drop_all(in, out_gradient, weights, out, in_gradient, added, gradient);
}

static void check_direct(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(convolutions); i++)
        check_conv(trial, &trial->cpu->conv, &convolutions[i]);
}

// Winograd's way takes no vectors without a sample, and batches.c gives it none.
static void check_winograd(const Trial *trial) {
    Trial full = *trial;
    for (int m = 0; m < trial->models; m++)
        full.counts[m] = (uint32_t)(trial->samples - m % trial->cpu->lanes);
    full.gpu_counts = gpu_copy(full.counts, sizeof full.counts, 0);
    full.step.counts = gpu_at(full.gpu_counts);
    for (size_t i = 0; i < LENGTH(convolutions); i++)
        if (convolutions[i].kernel > 1) check_conv(&full, &trial->cpu->winograd, &convolutions[i]);
    gpu_free(full.gpu_counts);
}

static void check_columns(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(any_convolutions); i++)
        check_conv(trial, &trial->cpu->columns, &any_convolutions[i]);
    for (size_t i = 0; i < LENGTH(convolutions); i++)
        check_conv(trial, &trial->cpu->columns, &convolutions[i]);
}

static void check_dense(const Trial *trial) {
    const Layer maps[] = {
        {.kind = LAYER_CONV, .in = {6, 2, 2}, .out = {5, 2, 2}, .bias = 270, .kernel = 3, .pad = 1},
        {.kind = LAYER_CONV, .in = {3, 1, 1}, .out = {20, 1, 1}, .bias = 1500, .kernel = 5, .pad = 2},
        {.kind = LAYER_CONV,
         .in = {4, 3, 2},
         .out = {3, 2, 1},
         .bias = 108,
         .groups = 1,
         .dilation = {1, 1},
         .window = {{3, 3}, {2, 2}, {1, 1}}},
    };
    for (size_t i = 0; i < LENGTH(maps); i++)
        check_conv(trial, &trial->cpu->dense, &maps[i]);
}

// A relu after the layer makes these of model m: its values, and the gradient that the layer's backward pass gets.
void rectify_on_cpu(const Trial *trial, const Values *out, const Values *out_gradient, size_t features, int m) {
    trial->cpu->relu_forward(out->host[m].at, features, trial->samples);
    trial->cpu->relu_backward(out_gradient->host[m].at, out->host[m].at, features, trial->samples);
}

static const Layer norms[] = {
    {.kind = LAYER_NORM, .in = {6, 3, 5}, .out = {6, 3, 5}, .groups = 3, .bias = 6},
    {.kind = LAYER_NORM, .in = {5, 3, 2}, .out = {5, 3, 2}, .groups = 5, .bias = 5},
    {.kind = LAYER_NORM, .in = {70, 1, 1}, .out = {70, 1, 1}, .groups = 1, .bias = 70},
    {.kind = LAYER_NORM, .in = {3, 4, 7}, .out = {3, 4, 7}, .groups = 1, .bias = 84, .singly = true},
    {.kind = LAYER_NORM, .in = {1, 9, 13}, .out = {1, 9, 13}, .groups = 9, .bias = 13, .each = true},
    {.kind = LAYER_NORM, .in = {4, 1, 4}, .out = {4, 1, 4}, .groups = 4, .bias = 4, .each = true},
    {.kind = LAYER_NORM, .in = {37, 2, 5}, .out = {37, 2, 5}, .groups = 10, .bias = 37, .across = true},
    {.kind = LAYER_NORM, .in = {5, 1, 1}, .out = {5, 1, 1}, .groups = 1, .bias = 5, .across = true},
};

// The gradients of input and parameters, by one call or by two.
static void back_norm(const Trial *trial, const Layer *layer, bool at_once, bool relu, const Values *gradient,
                      const Values *in_gradient, const Values *kept, const Values *in, const Values *out_gradient,
                      const Values *weights) {
    float *weight = on_gpu(gradient), *bias = weight + layer->bias;
    if (!at_once)
        cuda_norm_backward(NULL, NULL, on_gpu(in_gradient), on_gpu(kept), on_gpu(in), on_gpu(out_gradient),
                           on_gpu(weights), on_gpu(weights) + layer->bias, weights->stride, gradient->stride, relu,
                           layer, &trial->step);
    cuda_norm_backward(weight, bias, at_once ? on_gpu(in_gradient) : NULL, on_gpu(kept), on_gpu(in),
                       on_gpu(out_gradient), on_gpu(weights), on_gpu(weights) + layer->bias, weights->stride,
                       gradient->stride, relu, layer, &trial->step);
}

// Each layer by itself, and with the relu after it.
static void check_norm(const Trial *trial) {
    for (size_t i = 0; i < 4 * LENGTH(norms); i++) {
        const Layer *layer = &norms[i / 4];
        const bool relu = i % 2 == 1;
        const size_t n = (size_t)trial->samples, statistics = 2 * (size_t)layer->groups * n;
        const size_t features = shape_size(layer->out);
        Values in = lanes(trial, features, 4), out_gradient = lanes(trial, features, 5);
        Values weights = parameters(trial, layer_parameters(layer), 6);
        Values out = values_of(trial, out_gradient.each, 0), in_gradient = values_of(trial, in.each, 0);
        Values gradient = values_of(trial, weights.each, PARAMETER_GAP + 1), kept = values_of(trial, statistics, 0);
        const float *bias = on_gpu(&weights) + layer->bias;
        Tensor on_cpu = tensor_new(statistics);
        cuda_norm_forward(on_gpu(&out), on_gpu(&kept), on_gpu(&in), on_gpu(&weights), bias, weights.stride, relu, layer,
                          &trial->step);
        back_norm(trial, layer, i % 4 > 1, relu, &gradient, &in_gradient, &kept, &in, &out_gradient, &weights);
        for (int m = 0; m < trial->models; m++) {
            const float *weight = weights.host[m].at;
            float *to = gradient.host[m].at;
            memset(to, 0, gradient.each * sizeof *to);
            trial->cpu->norm_forward(out.host[m].at, on_cpu.at, in.host[m].at, weight, weight + layer->bias, layer,
                                     trial->samples);
            if (relu) rectify_on_cpu(trial, &out, &out_gradient, features, m);
            trial->cpu->norm_backward(to, to + layer->bias, in_gradient.host[m].at, on_cpu.at, in.host[m].at,
                                      out_gradient.host[m].at, weight, layer, trial->samples);
        }
        compare("norm forward", &out, NULL, 1, 1e-5);
        compare("norm input", &in_gradient, NULL, 1, 1e-5);
        compare("norm weight and bias", &gradient, NULL, 1, 1e-5);
        tensor_free(on_cpu);
        drop_all(in, out_gradient, weights, out, in_gradient, gradient, kept);
    }
}

static const Layer batch_norms[] = {
    {.kind = LAYER_BATCH_NORM, .in = {3, 4, 7}, .out = {3, 4, 7}, .bias = 3},
    {.kind = LAYER_BATCH_NORM, .in = {70, 1, 1}, .out = {70, 1, 1}, .bias = 70},
};

// What the CPU makes of the values of one model; the last two thirds of `parameters` become the running statistics.
static void batch_norm_on_cpu(const Trial *trial, const Layer *layer, int m, bool trains, bool relu,
                              const Values *parameters, const Values *in, const Values *out_gradient, const Values *out,
                              const Values *in_gradient, const Values *gradient) {
    const size_t channels = norm_weights(layer);
    const int n = trial->samples, count = (int)trial->counts[m];
    float *own = parameters->host[m].at, *to = gradient->host[m].at;
    Tensor kept = tensor_new(batch_statistics_floats(layer));
    memset(to, 0, gradient->each * sizeof *to);
    trial->cpu->batch_norm_forward(out->host[m].at, kept.at, in->host[m].at, own, trains && count > 0, layer, count, n);
    if (relu) rectify_on_cpu(trial, out, out_gradient, shape_size(layer->out), m);
    const BatchStatistics *of = (const BatchStatistics *)(const void *)kept.at;
    if (trains && count > 0)
        trial->cpu->batch_norm_backward(to, in_gradient->host[m].at, kept.at, in->host[m].at, out_gradient->host[m].at,
                                        own, layer, count, n);
    else
        memset(in_gradient->host[m].at, 0, in_gradient->each * sizeof *to);
    for (size_t c = 0; c < channels && trains && count > 0; c++) {
        own[2 * channels + c] = of[c].next_mean;
        if (layer->frozen) continue;
        own[3 * channels + c] = of[c].next_variance;
    }
    tensor_free(kept);
}

static void check_batch_norm_of(const Trial *trial, Layer layer, bool trains, bool relu) {
    const size_t n = (size_t)trial->samples, channels = norm_weights(&layer);
    Values in = lanes(trial, shape_size(layer.in), 4), out_gradient = lanes(trial, shape_size(layer.out), 5);
    Values own = parameters(trial, layer_parameters(&layer), 6);
    Values out = values_of(trial, in.each, 0), in_gradient = values_of(trial, in.each, 0);
    Values gradient = values_of(trial, own.each, PARAMETER_GAP + 1), kept = values_of(trial, 4 * channels, 0);
    for (int m = 0; m < trial->models; m++) // what lies behind the last sample counts for nothing
        for (size_t i = 0; i < in.each; i++)
            in.host[m].at[i] = i % n < trial->counts[m] ? 3 * in.host[m].at[i] + 5 : 7;
    upload(&in);
    float *means = on_gpu(&own) + 2 * channels;
    layer.frozen = n % 8 == 0; // of the variances
    cuda_batch_norm_forward(on_gpu(&out), on_gpu(&kept), trains ? means : NULL,
                            trains && !layer.frozen ? means + channels : NULL, on_gpu(&in), on_gpu(&own), own.stride,
                            trains, relu, &layer, &trial->step);
    cuda_batch_norm_backward_weight(NULL, on_gpu(&kept), on_gpu(&in), on_gpu(&out_gradient), on_gpu(&own), own.stride,
                                    gradient.stride, relu, &layer,
                                    &trial->step); // as of a frozen layer: for the input's gradients alone
    cuda_batch_norm_backward_input(on_gpu(&in_gradient), on_gpu(&kept), on_gpu(&in), on_gpu(&out_gradient),
                                   on_gpu(&own), own.stride, relu, &layer, &trial->step);
    cuda_batch_norm_backward_weight(on_gpu(&gradient), on_gpu(&kept), on_gpu(&in), on_gpu(&out_gradient), on_gpu(&own),
                                    own.stride, gradient.stride, relu, &layer, &trial->step);
    for (int m = 0; m < trial->models; m++)
        batch_norm_on_cpu(trial, &layer, m, trains, relu, &own, &in, &out_gradient, &out, &in_gradient, &gradient);
    compare("batch norm forward", &out, trial->counts, n, 1e-5);
    compare("running statistics", &own, NULL, 1, 1e-6);
    if (trains) compare("batch norm input", &in_gradient, NULL, 1, 1e-5);
    if (trains) compare("batch norm weight and bias", &gradient, NULL, 1, 1e-5);
    drop_all(in, out_gradient, own, out, in_gradient, gradient, kept);
}

static void check_batch_norm(const Trial *trial) {
    for (size_t i = 0; i < 4 * LENGTH(batch_norms); i++)
        check_batch_norm_of(trial, batch_norms[i / 4], i % 2 == 0, i % 4 > 1);
}

static void check_pool_of(const Trial *trial, const Layer *layers, size_t count, double tolerance) {
    for (size_t i = 0; i < 2 * count; i++) {
        const Layer *layer = &layers[i / 2];
        bool relu = i % 2 == 1;
        int n = trial->samples;
        Values in = lanes(trial, shape_size(layer->in), 4), out_gradient = lanes(trial, shape_size(layer->out), 5);
        for (int m = 0; m < trial->models; m++) // ties: the first counts
            for (size_t k = 0; k < in.each; k++)
                in.host[m].at[k] = roundf(3 * in.host[m].at[k]) - 1;
        upload(&in);
        Values out = values_of(trial, out_gradient.each, 0), in_gradient = values_of(trial, in.each, 0);
        cuda_pool_forward(on_gpu(&out), on_gpu(&in), relu, layer, &trial->step);
        cuda_pool_backward(on_gpu(&in_gradient), on_gpu(&in), on_gpu(&out_gradient), relu, layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            trial->cpu->pool_forward(out.host[m].at, in.host[m].at, layer, n);
            if (relu) {
                trial->cpu->relu_forward(out.host[m].at, shape_size(layer->out), n);
                trial->cpu->relu_backward(out_gradient.host[m].at, out.host[m].at, shape_size(layer->out), n);
            }
            trial->cpu->pool_backward(in_gradient.host[m].at, in.host[m].at, out_gradient.host[m].at, layer, n);
        }
        compare("pool forward", &out, NULL, 1, 0);
        compare("pool backward", &in_gradient, NULL, 1, tolerance);
        drop_all(in, out_gradient, out, in_gradient);
    }
}

static void check_pool(const Trial *trial) {
    check_pool_of(trial, poolings, LENGTH(poolings), 0);
    check_pool_of(trial, windows, LENGTH(windows), 1e-6); // windows that overlap are added up in any order
}

static void check_average(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(windows); i++) {
        const Layer *layer = &windows[i];
        int n = trial->samples;
        Values in = lanes(trial, shape_size(layer->in), 4), out_gradient = lanes(trial, shape_size(layer->out), 5);
        Values out = values_of(trial, out_gradient.each, 0), in_gradient = values_of(trial, in.each, 0);
        cuda_average_forward(on_gpu(&out), on_gpu(&in), layer, &trial->step);
        cuda_average_backward(on_gpu(&in_gradient), on_gpu(&out_gradient), layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            trial->cpu->average_forward(out.host[m].at, in.host[m].at, layer, n);
            trial->cpu->average_backward(in_gradient.host[m].at, out_gradient.host[m].at, layer, n);
        }
        compare("average forward", &out, NULL, 1, 1e-6);
        compare("average backward", &in_gradient, NULL, 1, 1e-6);
        drop_all(in, out_gradient, out, in_gradient);
    }
}

// There and back: steps and values of a sequence, and groups of channels with their planes.
static void check_swap(const Trial *trial) {
    static const size_t sizes[][3] = {{7, 5, 1}, {3, 4, 6}, {1, 9, 2}};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        const size_t first = sizes[i][0], second = sizes[i][1], plane = sizes[i][2], n = (size_t)trial->samples;
        Values in = lanes(trial, first * second * plane, 4), out = values_of(trial, in.each, 0);
        Values back = values_of(trial, in.each, 0);
        cuda_swap(on_gpu(&out), on_gpu(&in), first, second, plane, &trial->step);
        cuda_swap(on_gpu(&back), on_gpu(&out), second, first, plane, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            for (size_t a = 0; a < first; a++)
                for (size_t b = 0; b < second; b++)
                    memcpy(out.host[m].at + (b * first + a) * plane * n, in.host[m].at + (a * second + b) * plane * n,
                           plane * n * sizeof(float));
            memcpy(back.host[m].at, in.host[m].at, in.each * sizeof(float));
        }
        compare("swap", &out, NULL, 1, 0);
        compare("swap back", &back, NULL, 1, 0);
        drop_all(in, out, back);
    }
}

static void check_activation(const Trial *trial) {
#define EACH_KIND(kind, name) kind,
    static const Activation kinds[] = {ACTIVATIONS(EACH_KIND)};
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        const Layer layer = {.kind = LAYER_ACTIVATION, .activation = (int)kinds[i], .in = {37, 1, 1}, .rate = 0.1f};
        Values in = lanes(trial, 37, 17), out_gradient = lanes(trial, 37, 18);
        for (int m = 0; m < trial->models; m++)
            for (size_t k = 0; k < in.each; k++)
                in.host[m].at[k] *= 9;
        upload(&in);
        Values out = values_of(trial, in.each, 0), in_gradient = values_of(trial, in.each, 0);
        cuda_activation_forward(on_gpu(&out), on_gpu(&in), &layer, &trial->step);
        cuda_activation_backward(on_gpu(&in_gradient), on_gpu(&in), on_gpu(&out_gradient), &layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            trial->cpu->activation_forward(out.host[m].at, in.host[m].at, &layer, trial->samples);
            trial->cpu->activation_backward(in_gradient.host[m].at, in.host[m].at, out_gradient.host[m].at, &layer,
                                            trial->samples);
        }
        compare("activation forward", &out, NULL, 1, 1e-6);
        compare("activation backward", &in_gradient, NULL, 1, 1e-6);
        drop_all(in, out_gradient, out, in_gradient);
    }
}

// One slope per channel, one for all, and more values of one slope than a block has threads.
static const Layer prelus[] = {
    {.kind = LAYER_PRELU, .in = {5, 3, 2}, .out = {5, 3, 2}, .groups = 5},
    {.kind = LAYER_PRELU, .in = {5, 3, 2}, .out = {5, 3, 2}, .groups = 1},
    {.kind = LAYER_PRELU, .in = {3, 20, 13}, .out = {3, 20, 13}, .groups = 3},
};

static void check_prelu(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(prelus); i++) {
        const Layer *layer = &prelus[i];
        Values in = lanes(trial, shape_size(layer->in), 17), out_gradient = lanes(trial, shape_size(layer->out), 18);
        Values slopes = parameters(trial, (size_t)layer->groups, 19);
        Values out = values_of(trial, in.each, 0), in_gradient = values_of(trial, in.each, 0);
        Values gradient = values_of(trial, slopes.each, PARAMETER_GAP);
        cuda_prelu_forward(on_gpu(&out), on_gpu(&in), on_gpu(&slopes), slopes.stride, layer, &trial->step);
        cuda_prelu_backward_input(on_gpu(&in_gradient), on_gpu(&in), on_gpu(&out_gradient), on_gpu(&slopes),
                                  slopes.stride, layer, &trial->step);
        cuda_prelu_backward_weight(on_gpu(&gradient), on_gpu(&in), on_gpu(&out_gradient), gradient.stride, layer,
                                   &trial->step);
        for (int m = 0; m < trial->models; m++) {
            LayerBuffers at = {.in = in.host[m].at,
                               .out = out.host[m].at,
                               .in_gradient = in_gradient.host[m].at,
                               .out_gradient = out_gradient.host[m].at,
                               .gradient = gradient.host[m].at};
            const LayerCall call = {.kernels = trial->cpu,
                                    .layer = layer,
                                    .weight = slopes.host[m].at,
                                    .at = &at,
                                    .samples = trial->samples};
            memset(at.gradient, 0, gradient.each * sizeof *at.gradient);
            layer_type(layer)->forward(&call);
            layer_type(layer)->backward(&call);
        }
        compare("prelu forward", &out, NULL, 1, 1e-6);
        compare("prelu input", &in_gradient, NULL, 1, 1e-6);
        compare("prelu weight", &gradient, NULL, 1, 1e-5);
        drop_all(in, out_gradient, slopes, out, in_gradient, gradient);
    }
}

static void check_relu(const Trial *trial) {
    enum { FEATURES = 37 };
    Values values = lanes(trial, FEATURES, 6), out_gradient = lanes(trial, FEATURES, 7);
    cuda_relu_forward(on_gpu(&values), FEATURES, &trial->step);
    cuda_relu_backward(on_gpu(&out_gradient), on_gpu(&values), FEATURES, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        trial->cpu->relu_forward(values.host[m].at, FEATURES, trial->samples);
        trial->cpu->relu_backward(out_gradient.host[m].at, values.host[m].at, FEATURES, trial->samples);
    }
    compare("relu forward", &values, NULL, 1, 0);
    compare("relu backward", &out_gradient, NULL, 1, 0);
    drop_all(values, out_gradient);
}

static void check_dropout(const Trial *trial) {
    enum { FEATURES = 7, PLANE = 5 };
    const float rate = 0.4f;
    size_t bytes = (size_t)FEATURES * (size_t)trial->samples;
    RngKey keys[MOST_MODELS];
    uint32_t numbers[MOST_MODELS];
    for (uint32_t m = 0; m < MOST_MODELS; m++) {
        keys[m] = rng_key(5, RNG_DROPOUT, 1, m, 2);
        numbers[m] = 10 + m;
    }
    GpuTensor gpu_keys = gpu_copy(keys, sizeof keys, 0), gpu_numbers = gpu_copy(numbers, sizeof numbers, 0);
    GpuTensor gpu_keep = gpu_new(bytes * (size_t)trial->models, 0);
    Values values = lanes(trial, FEATURES * PLANE, 8), gradient = lanes(trial, FEATURES * PLANE, 9);
    cuda_dropout_forward(on_gpu(&values), gpu_at(gpu_keep), on_gpu(&values), gpu_at(gpu_keys), gpu_at(gpu_numbers),
                         rate, FEATURES, PLANE, &trial->step);
    cuda_dropout_backward(on_gpu(&gradient), gpu_at(gpu_keep), on_gpu(&gradient), on_gpu(&values), rate, FEATURES,
                          PLANE, &trial->step);
    int8_t *actual = malloc(gpu_keep.bytes);
    Tensor keep = tensor_new((bytes + 3) / 4); // of bytes, aligned as the op wants them
    assert_non_null(actual);
    gpu_read(actual, gpu_keep);
    for (int m = 0; m < trial->models; m++) {
        DropoutNoise noise = {.key = keys[m], .step = numbers[m], .rate = rate};
        trial->cpu->dropout_draw((int8_t *)keep.at, &noise, FEATURES, trial->samples);
        trial->cpu->dropout_apply(values.host[m].at, (int8_t *)keep.at, rate, FEATURES, PLANE, trial->samples);
        trial->cpu->dropout_apply(gradient.host[m].at, (int8_t *)keep.at, rate, FEATURES, PLANE, trial->samples);
        trial->cpu->relu_backward(gradient.host[m].at, values.host[m].at, FEATURES * PLANE, trial->samples);
        if (!is_idle(trial, m)) assert_memory_equal(actual + (size_t)m * bytes, keep.at, bytes);
    }
    compare("dropout", &values, NULL, 1, 0);
    compare("dropout after a relu", &gradient, NULL, 1, 0);
    free(actual);
    tensor_free(keep);
    gpu_free(gpu_keys);
    gpu_free(gpu_numbers);
    gpu_free(gpu_keep);
    drop_all(values, gradient);
}

#define CONVOLUTION " cuda_conv_forward cuda_conv_backward_weight cuda_conv_scratch_floats cuda_conv_backward_input "

static const Twin rows[] = {
    {OP(conv), CONVOLUTION, check_direct},
    {OP(winograd), CONVOLUTION, check_winograd},
    {OP(columns), CONVOLUTION, check_columns},
    {OP(dense), CONVOLUTION, check_dense},
    {OP(pool_forward), " cuda_pool_forward ", check_pool},
    {OP(pool_backward), " cuda_pool_backward ", check_pool},
    {OP(average_forward), " cuda_average_forward ", check_average},
    {OP(average_backward), " cuda_average_backward ", check_average},
    {OP(relu_forward), " cuda_relu_forward ", check_relu},
    {OP(relu_backward), " cuda_relu_backward ", check_relu},
    {OP(activation_forward), " cuda_activation_forward ", check_activation},
    {OP(activation_backward), " cuda_activation_backward ", check_activation},
    {OP(norm_forward), " cuda_norm_forward ", check_norm},
    {OP(norm_backward), " cuda_norm_backward cuda_norm_backs_at_once ", check_norm},
    {OP(batch_norm_forward), " cuda_batch_norm_forward ", check_batch_norm},
    {OP(batch_norm_backward), " cuda_batch_norm_backward_weight cuda_batch_norm_backward_input ", check_batch_norm},
    {OP(dropout_draw), " cuda_dropout_forward ", check_dropout},
    {OP(dropout_apply), " cuda_dropout_forward cuda_dropout_backward ", check_dropout},
    // No op of the CPU: its layer calls another one for each slope.
    {0, 0, " cuda_prelu_forward cuda_prelu_backward_input cuda_prelu_backward_weight ", check_prelu},
    // Copies on the CPU, too (src/nn/layers/swap.c).
    {0, 0, " cuda_swap ", check_swap},
};

const Twins layer_twins = {rows, LENGTH(rows)};
