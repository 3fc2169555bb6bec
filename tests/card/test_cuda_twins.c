// Every op against its twin on the card, from one table. An op of the CPU without a row, or a function of
// cuda_kernels.h that no row names, fails. M models in lockstep with different numbers of samples; sizes that divide
// neither vectors nor blocks.
#include <stdio.h>

#include "card.h"
#include "card_progress.h"
#include "card_trial.h"
#include "nn/activation.h"
#include "nn/cuda_blas.h"

// Layers to try -------------------------------------------------------------------------------------------------------

static const Layer convolutions[] = {
    {.kind = LAYER_CONV, .in = {1, 9, 8}, .out = {5, 5, 4}, .kernel = 5, .weight = 0, .bias = 125},
    {.kind = LAYER_CONV, .in = {7, 6, 7}, .out = {9, 6, 7}, .kernel = 3, .pad = 1, .weight = 0, .bias = 567},
    {.kind = LAYER_CONV, .in = {3, 4, 4}, .out = {2, 4, 4}, .kernel = 1, .weight = 0, .bias = 6},
};
static const Layer any_convolutions[] = {
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
};
static const Layer linears[] = {
    {.kind = LAYER_LINEAR, .in = {5, 3, 3}, .out = {13, 1, 1}, .weight = 0, .bias = 585},
    {.kind = LAYER_LINEAR, .in = {70, 1, 1}, .out = {34, 1, 1}, .weight = 0, .bias = 2380},
    {.kind = LAYER_LINEAR, .in = {1, 1, 1}, .out = {1, 1, 1}, .weight = 0, .bias = 1},
};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static size_t parameters_of(const Layer *layer) {
    return layer->bias + (size_t)layer->out.channels;
}

// The checks ----------------------------------------------------------------------------------------------------------
// Each computes on the host what the CPU's op says, and on the card what its twin says.

static void check_conv(const Trial *trial, const ConvKernels *cpu, const Layer *layer) {
    int n = trial->samples;
    Values in = lanes(trial, shape_size(layer->in), 1), slopes = lanes(trial, shape_size(layer->out), 2);
    Values weights = parameters(trial, parameters_of(layer), 3);
    Values out = values_of(trial, shape_size(layer->out) * (size_t)n, 0);
    Values in_gradient = values_of(trial, shape_size(layer->in) * (size_t)n, 0);
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
        cpu->backward(packed_gradient.at, gradient.host[m].at + layer->bias, in_gradient.host[m].at, scratch.at,
                      in.host[m].at, slopes.host[m].at, packed.at, layer, count, n);
        cpu->unpack(gradient.host[m].at, packed_gradient.at, layer);
        tensor_free(packed_gradient);
    }
    cuda_conv_forward(on_card(&out), on_card(&in), on_card(&weights), on_card(&weights) + layer->bias, weights.stride,
                      layer, &trial->step);
    CardTensor parts = card_new(cuda_conv_scratch_floats(layer, trial->models, n) * sizeof(float), 0);
    cuda_conv_backward_weight(on_card(&gradient), on_card(&gradient) + layer->bias, card_floats(parts), on_card(&in),
                              on_card(&slopes), gradient.stride, layer, &trial->step);
    cuda_conv_backward_input(on_card(&in_gradient), on_card(&slopes), on_card(&weights), weights.stride, layer,
                             &trial->step);
    compare("conv forward", &out, trial->counts, (size_t)n, 1e-5);
    compare("conv weight and bias", &gradient, NULL, 1, 1e-5);
    compare("conv input", &in_gradient, NULL, 1, 1e-5);
    card_free(parts);
    tensor_free(packed);
    tensor_free(scratch);
    drop_all(in, slopes, weights, out, in_gradient, gradient);
}

static void check_direct(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(convolutions); i++)
        check_conv(trial, &trial->cpu->conv, &convolutions[i]);
}

// Winograd's way takes no vectors without a sample, and net.c gives it none.
static void check_winograd(const Trial *trial) {
    Trial full = *trial;
    for (int m = 0; m < trial->models; m++)
        full.counts[m] = (uint32_t)(trial->samples - m % trial->cpu->lanes);
    full.card_counts = card_copy(full.counts, sizeof full.counts, 0);
    full.step.counts = card_at(full.card_counts);
    for (size_t i = 0; i < LENGTH(convolutions); i++)
        if (convolutions[i].kernel > 1) check_conv(&full, &trial->cpu->winograd, &convolutions[i]);
    card_free(full.card_counts);
}

static void check_columns(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(any_convolutions); i++)
        check_conv(trial, &trial->cpu->columns, &any_convolutions[i]);
    for (size_t i = 0; i < LENGTH(convolutions); i++)
        check_conv(trial, &trial->cpu->columns, &convolutions[i]);
}

static const Layer norms[] = {
    {.kind = LAYER_NORM, .in = {6, 3, 5}, .out = {6, 3, 5}, .groups = 3, .bias = 6},
    {.kind = LAYER_NORM, .in = {5, 3, 2}, .out = {5, 3, 2}, .groups = 5, .bias = 5},
    {.kind = LAYER_NORM, .in = {70, 1, 1}, .out = {70, 1, 1}, .groups = 1, .bias = 70},
    {.kind = LAYER_NORM, .in = {3, 4, 7}, .out = {3, 4, 7}, .groups = 1, .bias = 84},
};

static void check_norm(const Trial *trial) {
    for (size_t i = 0; i < LENGTH(norms); i++) {
        const Layer *layer = &norms[i];
        const size_t n = (size_t)trial->samples, statistics = 2 * (size_t)layer->groups * n;
        Values in = lanes(trial, shape_size(layer->in), 4), slopes = lanes(trial, shape_size(layer->out), 5);
        Values weights = parameters(trial, layer_parameters(layer), 6);
        Values out = values_of(trial, slopes.each, 0), in_gradient = values_of(trial, in.each, 0);
        Values gradient = values_of(trial, weights.each, PARAMETER_GAP), kept = values_of(trial, statistics, 0);
        Tensor on_cpu = tensor_new(statistics);
        cuda_norm_forward(on_card(&out), on_card(&kept), on_card(&in), on_card(&weights),
                          on_card(&weights) + layer->bias, weights.stride, layer, &trial->step);
        cuda_norm_backward_input(on_card(&in_gradient), on_card(&kept), on_card(&in), on_card(&slopes),
                                 on_card(&weights), weights.stride, layer, &trial->step);
        cuda_norm_backward_weight(on_card(&gradient), on_card(&gradient) + layer->bias, on_card(&kept), on_card(&in),
                                  on_card(&slopes), gradient.stride, layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            const float *weight = weights.host[m].at;
            float *to = gradient.host[m].at;
            memset(to, 0, gradient.each * sizeof *to);
            trial->cpu->norm_forward(out.host[m].at, on_cpu.at, in.host[m].at, weight, weight + layer->bias, layer,
                                     trial->samples);
            trial->cpu->norm_backward(to, to + layer->bias, in_gradient.host[m].at, on_cpu.at, in.host[m].at,
                                      slopes.host[m].at, weight, layer, trial->samples);
        }
        compare("norm forward", &out, NULL, 1, 1e-5);
        compare("norm input", &in_gradient, NULL, 1, 1e-5);
        compare("norm weight and bias", &gradient, NULL, 1, 1e-5);
        tensor_free(on_cpu);
        drop_all(in, slopes, weights, out, in_gradient, gradient, kept);
    }
}

// A sum, by a copy and an addition; and a part of a tensor that is added to a part of another.
static void check_add(const Trial *trial) {
    enum { ALL = 7, FIRST = 3, COUNT = 4, SHORT = 5 };
    const size_t n = (size_t)trial->samples;
    Values a = lanes(trial, ALL, 4), b = lanes(trial, ALL, 5), part = lanes(trial, SHORT, 6);
    Values out = values_of(trial, a.each, 0);
    const CudaRows to = {on_card(&out), ALL, 0};
    cuda_add(to, (CudaRows){on_card(&a), ALL, 0}, ALL, false, &trial->step);
    cuda_add(to, (CudaRows){on_card(&b), ALL, 0}, ALL, true, &trial->step);
    cuda_add((CudaRows){on_card(&out), ALL, FIRST}, (CudaRows){on_card(&part), SHORT, 1}, COUNT, true, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        float *sum = out.host[m].at;
        trial->cpu->add(sum, a.host[m].at, b.host[m].at, ALL, trial->samples);
        trial->cpu->add(sum + FIRST * n, sum + FIRST * n, part.host[m].at + n, COUNT, trial->samples);
    }
    compare("add", &out, NULL, 1, 0);
    drop_all(a, b, part, out);
}

static void check_pool_of(const Trial *trial, const Layer *layers, size_t count, double tolerance) {
    for (size_t i = 0; i < 2 * count; i++) {
        const Layer *layer = &layers[i / 2];
        bool relu = i % 2 == 1;
        int n = trial->samples;
        Values in = lanes(trial, shape_size(layer->in), 4), slopes = lanes(trial, shape_size(layer->out), 5);
        for (int m = 0; m < trial->models; m++) // ties: the first counts
            for (size_t k = 0; k < in.each; k++)
                in.host[m].at[k] = roundf(3 * in.host[m].at[k]) - 1;
        upload(&in);
        Values out = values_of(trial, slopes.each, 0), in_gradient = values_of(trial, in.each, 0);
        cuda_pool_forward(on_card(&out), on_card(&in), relu, layer, &trial->step);
        cuda_pool_backward(on_card(&in_gradient), on_card(&in), on_card(&slopes), relu, layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            trial->cpu->pool_forward(out.host[m].at, in.host[m].at, layer, n);
            if (relu) {
                trial->cpu->relu_forward(out.host[m].at, shape_size(layer->out), n);
                trial->cpu->relu_backward(slopes.host[m].at, out.host[m].at, shape_size(layer->out), n);
            }
            trial->cpu->pool_backward(in_gradient.host[m].at, in.host[m].at, slopes.host[m].at, layer, n);
        }
        compare("pool forward", &out, NULL, 1, 0);
        compare("pool backward", &in_gradient, NULL, 1, tolerance);
        drop_all(in, slopes, out, in_gradient);
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
        Values in = lanes(trial, shape_size(layer->in), 4), slopes = lanes(trial, shape_size(layer->out), 5);
        Values out = values_of(trial, slopes.each, 0), in_gradient = values_of(trial, in.each, 0);
        cuda_average_forward(on_card(&out), on_card(&in), layer, &trial->step);
        cuda_average_backward(on_card(&in_gradient), on_card(&slopes), layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            trial->cpu->average_forward(out.host[m].at, in.host[m].at, layer, n);
            trial->cpu->average_backward(in_gradient.host[m].at, slopes.host[m].at, layer, n);
        }
        compare("average forward", &out, NULL, 1, 1e-6);
        compare("average backward", &in_gradient, NULL, 1, 1e-6);
        drop_all(in, slopes, out, in_gradient);
    }
}

static void check_activation(const Trial *trial) {
#define EACH_KIND(kind, name) kind,
    static const Activation kinds[] = {ACTIVATIONS(EACH_KIND)};
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        const Layer layer = {.kind = LAYER_ACTIVATION, .activation = kinds[i], .in = {37, 1, 1}, .rate = 0.1f};
        Values in = lanes(trial, 37, 17), slopes = lanes(trial, 37, 18);
        for (int m = 0; m < trial->models; m++)
            for (size_t k = 0; k < in.each; k++)
                in.host[m].at[k] *= 9;
        upload(&in);
        Values out = values_of(trial, in.each, 0), in_gradient = values_of(trial, in.each, 0);
        cuda_activation_forward(on_card(&out), on_card(&in), &layer, &trial->step);
        cuda_activation_backward(on_card(&in_gradient), on_card(&in), on_card(&slopes), &layer, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            trial->cpu->activation_forward(out.host[m].at, in.host[m].at, &layer, trial->samples);
            trial->cpu->activation_backward(in_gradient.host[m].at, in.host[m].at, slopes.host[m].at, &layer,
                                            trial->samples);
        }
        compare("activation forward", &out, NULL, 1, 1e-6);
        compare("activation backward", &in_gradient, NULL, 1, 1e-6);
        drop_all(in, slopes, out, in_gradient);
    }
}

static void check_relu(const Trial *trial) {
    enum { FEATURES = 37 };
    Values values = lanes(trial, FEATURES, 6), slopes = lanes(trial, FEATURES, 7);
    cuda_relu_forward(on_card(&values), FEATURES, &trial->step);
    cuda_relu_backward(on_card(&slopes), on_card(&values), FEATURES, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        trial->cpu->relu_forward(values.host[m].at, FEATURES, trial->samples);
        trial->cpu->relu_backward(slopes.host[m].at, values.host[m].at, FEATURES, trial->samples);
    }
    compare("relu forward", &values, NULL, 1, 0);
    compare("relu backward", &slopes, NULL, 1, 0);
    drop_all(values, slopes);
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
    CardTensor card_keys = card_copy(keys, sizeof keys, 0), card_numbers = card_copy(numbers, sizeof numbers, 0);
    CardTensor card_keep = card_new(bytes * (size_t)trial->models, 0);
    Values values = lanes(trial, FEATURES * PLANE, 8);
    cuda_dropout_draw(card_at(card_keep), card_at(card_keys), card_at(card_numbers), rate, FEATURES, &trial->step);
    cuda_dropout_apply(on_card(&values), card_at(card_keep), rate, FEATURES, PLANE, &trial->step);
    int8_t *actual = malloc(card_keep.bytes);
    Tensor keep = tensor_new((bytes + 3) / 4); // of bytes, aligned as the op wants them
    assert_non_null(actual);
    card_read(actual, card_keep);
    for (int m = 0; m < trial->models; m++) {
        DropoutNoise noise = {.key = keys[m], .step = numbers[m], .rate = rate};
        trial->cpu->dropout_draw((int8_t *)keep.at, &noise, FEATURES, trial->samples);
        trial->cpu->dropout_apply(values.host[m].at, (int8_t *)keep.at, rate, FEATURES, PLANE, trial->samples);
        if (!is_idle(trial, m)) assert_memory_equal(actual + (size_t)m * bytes, keep.at, bytes);
    }
    compare("dropout", &values, NULL, 1, 0);
    free(actual);
    tensor_free(keep);
    card_free(card_keys);
    card_free(card_numbers);
    card_free(card_keep);
    drop(&values);
}

// The data set of gather and the loss: rows of pixels, and an order to take them in.
enum { ROWS = 150, PIXELS = 45 };

static void rows_of(const Trial *trial, uint32_t *indices, uint32_t *firsts) {
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = i * 37 % ROWS;
    for (int m = 0; m < trial->models; m++)
        firsts[m] = (uint32_t)(m * 11);
}

static CardProgress progress_of(const Trial *trial, const uint32_t *firsts) {
    return card_progress(firsts, trial->counts, (size_t)trial->models, (uint32_t)trial->samples);
}

static void check_gather(const Trial *trial) {
    const Shape shape = {3, 5, 3};
    const float scale[] = {0.5f, 1, 2}, shift[] = {-1, 3, 0.25f};
    uint8_t pixels[ROWS * PIXELS];
    uint32_t indices[ROWS], firsts[MOST_MODELS];
    rows_of(trial, indices, firsts);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37);
    CardTensor card[] = {card_copy(pixels, sizeof pixels, 0), card_copy(indices, sizeof indices, 0),
                         card_copy(scale, sizeof scale, 0), card_copy(shift, sizeof shift, 0)};
    CardProgress progress = progress_of(trial, firsts);
    for (int indexed = 0; indexed < 2; indexed++) {
        Values out = values_of(trial, (size_t)PIXELS * (size_t)trial->samples, 0);
        cuda_gather(on_card(&out), card_at(card[0]), indexed ? card_at(card[1]) : NULL, &progress.on_card,
                    card_at(card[2]), card_at(card[3]), shape, NULL, &trial->step);
        for (int m = 0; m < trial->models; m++)
            trial->cpu->gather(out.host[m].at, pixels, indexed ? indices + firsts[m] : NULL, firsts[m], scale, shift,
                               shape, (int)trial->counts[m], trial->samples);
        compare("gather", &out, NULL, 1, 1e-7);
        drop(&out);
    }
    card_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(card); i++)
        card_free(card[i]);
}

// What the CPU gathers as rows for a first linear layer, the card gathers as lanes.
static void check_gather_rows(const Trial *trial) {
    enum { ROW_FLOATS = (PIXELS + 15) / 16 * 16 };
    const float scale = 0.5f, shift = -1;
    uint8_t pixels[ROWS * PIXELS];
    uint32_t indices[ROWS], firsts[MOST_MODELS];
    rows_of(trial, indices, firsts);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 41);
    CardTensor card[] = {card_copy(pixels, sizeof pixels, 0), card_copy(indices, sizeof indices, 0),
                         card_copy(&scale, sizeof scale, 0), card_copy(&shift, sizeof shift, 0)};
    CardProgress progress = progress_of(trial, firsts);
    Values out = values_of(trial, (size_t)PIXELS * (size_t)trial->samples, 0);
    const Shape shape = {1, PIXELS, 1};
    cuda_gather(on_card(&out), card_at(card[0]), card_at(card[1]), &progress.on_card, card_at(card[2]),
                card_at(card[3]), shape, NULL, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        Tensor rows = tensor_new(trial->counts[m] * ROW_FLOATS);
        trial->cpu->gather_rows(rows.at, pixels, indices + firsts[m], 0, &scale, &shift, shape, ROW_FLOATS,
                                (int)trial->counts[m]);
        for (size_t i = 0; i < out.each; i++) {
            size_t s = i % (size_t)trial->samples, p = i / (size_t)trial->samples;
            out.host[m].at[i] = s < trial->counts[m] ? rows.at[s * ROW_FLOATS + p] : 0;
        }
        tensor_free(rows);
    }
    compare("gather rows", &out, NULL, 1, 1e-7);
    drop(&out);
    card_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(card); i++)
        card_free(card[i]);
}

static void check_loss_of(const Trial *trial, int classes, float spread, float smoothing, bool indexed) {
    uint16_t labels[ROWS];
    uint32_t indices[ROWS], firsts[MOST_MODELS], hits[MOST_MODELS];
    double losses[MOST_MODELS];
    rows_of(trial, indices, firsts);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint16_t)(i * 5 % classes);
    Values logits = lanes(trial, (size_t)classes, 9), gradient = values_of(trial, logits.each, 0);
    for (int m = 0; m < trial->models; m++)
        for (size_t i = 0; i < logits.each; i++)
            logits.host[m].at[i] *= spread;
    upload(&logits);
    CardTensor card[] = {card_copy(labels, sizeof labels, 0), card_copy(indices, sizeof indices, 0)};
    CardProgress progress = progress_of(trial, firsts);
    for (int twice = 0; twice < 2; twice++) // sums are added to; hits are counted without a gradient
        cuda_softmax_cross_entropy(twice ? on_card(&gradient) : NULL, &progress.on_card, on_card(&logits),
                                   card_at(card[0]), indexed ? card_at(card[1]) : NULL, smoothing, classes,
                                   &trial->step);
    card_read(losses, progress.losses);
    card_progress_read(hits, &progress, progress.on_card.hits);
    for (int m = 0; m < trial->models; m++) {
        uint32_t count = trial->counts[m], right;
        uint16_t chosen[ROWS];
        for (uint32_t s = 0; s < count; s++)
            chosen[s] = labels[indexed ? indices[firsts[m] + s] : firsts[m] + s];
        double loss = trial->cpu->softmax_cross_entropy(gradient.host[m].at, &right, logits.host[m].at, chosen,
                                                        count ? 1.0f / (float)count : 1, smoothing, classes, (int)count,
                                                        trial->samples);
        assert_int_equal(hits[m], right);
        if (!(fabs(losses[m] - 2 * loss) <= 2e-6 * (1 + fabs(loss))))
            fail_msg("loss of model %d: %.9g, expected %.9g", m, losses[m], 2 * loss);
    }
    compare("loss gradient", &gradient, NULL, 1, 1e-6);
    card_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(card); i++)
        card_free(card[i]);
    drop_all(logits, gradient);
}

static void check_loss(const Trial *trial) {
    check_loss_of(trial, 10, 5, 0.1f, true);
    check_loss_of(trial, 3, 90, 0, false); // differences beyond what e^x can represent
    check_loss_of(trial, 1, 1, 0, true);
    check_loss_of(trial, 100, 1, 0.3f, false);
}

static void linear_backward(const Trial *trial, const Layer *layer, CudaBlas *blas, const Values *in,
                            const Values *slopes, const Values *weights) {
    int n = trial->samples;
    Values in_gradient = values_of(trial, in->each, 0);
    Values gradient = values_of(trial, weights->each, PARAMETER_GAP);
    Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)n);
    Tensor out = tensor_new(slopes->each), scratch = tensor_new(linear_scratch_floats(layer, n));
    for (int m = 0; m < trial->models; m++) {
        int count = (int)trial->counts[m];
        const float *weight = weights->host[m].at;
        memset(in_gradient.host[m].at, 0, in_gradient.each * sizeof(float));
        memset(gradient.host[m].at, 0, gradient.each * sizeof(float));
        if (count == 0) continue;
        trial->cpu->linear_forward(out.at, rows.at, in->host[m].at, weight, weight + layer->bias, layer, count, n);
        trial->cpu->linear_backward_input(in_gradient.host[m].at, scratch.at, slopes->host[m].at, weight, layer, count,
                                          n);
        trial->cpu->linear_backward_weight(gradient.host[m].at, NULL, rows.at, slopes->host[m].at,
                                           &(Descent){.keep = 0}, layer, count, n);
        trial->cpu->linear_backward_bias(gradient.host[m].at + layer->bias, NULL, slopes->host[m].at,
                                         &(Descent){.keep = 0}, layer, n);
    }
    cuda_linear_backward_input(on_card(&in_gradient), on_card(slopes), on_card(weights), weights->stride, layer, blas,
                               &trial->step);
    cuda_linear_backward_weight(on_card(&gradient), on_card(&gradient) + layer->bias, on_card(in), on_card(slopes),
                                gradient.stride, layer, blas, &trial->step);
    compare("linear input", &in_gradient, NULL, 1, 1e-5);
    compare("linear weight and bias", &gradient, NULL, 1, 1e-5);
    tensor_free(rows);
    tensor_free(out);
    tensor_free(scratch);
    drop_all(in_gradient, gradient);
}

static CudaDescent descent_of(const Values *weights, const Values *velocity, const CardTensor *lr, Sgd sgd) {
    return (CudaDescent){.weights = on_card(weights),
                         .velocity = on_card(velocity),
                         .stride = weights->stride,
                         .parameters = velocity->stride,
                         .lr = card_at(*lr),
                         .sgd = sgd};
}

// Slopes and step in one pass: to the CPU's weights and velocity.
static void linear_step(const Trial *trial, const Layer *layer, const Values *in, const Values *slopes, Sgd sgd) {
    int n = trial->samples;
    Values weights = parameters(trial, parameters_of(layer), 12);
    Values velocity = random_values(trial, weights.each, 0, 16);
    CardTensor lr = card_copy(&sgd.lr, sizeof sgd.lr, 0);
    const CudaDescent descent = descent_of(&weights, &velocity, &lr, sgd);
    Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)n), out = tensor_new(slopes->each);
    const Descent on_cpu = {.keep = sgd.momentum, .lr = sgd.lr, .weight_decay = sgd.weight_decay};
    cuda_linear_step(&descent, on_card(in), on_card(slopes), layer, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        float *weight = weights.host[m].at, *speed = velocity.host[m].at;
        Tensor scratch = tensor_new(velocity.each);
        int count = (int)trial->counts[m];
        memcpy(scratch.at, speed, velocity.each * sizeof *speed);
        if (count > 0) {
            trial->cpu->linear_forward(out.at, rows.at, in->host[m].at, weight, weight + layer->bias, layer, count, n);
            trial->cpu->linear_backward_weight(scratch.at, weight, rows.at, slopes->host[m].at, &on_cpu, layer, count,
                                               n);
            trial->cpu->linear_backward_bias(scratch.at + layer->bias, weight + layer->bias, slopes->host[m].at,
                                             &on_cpu, layer, n);
        }
        if (sgd.momentum > 0) memcpy(speed, scratch.at, velocity.each * sizeof *speed);
        tensor_free(scratch);
    }
    compare("linear step", &weights, NULL, 1, 1e-5);
    compare("linear velocity", &velocity, NULL, 1, 1e-5);
    tensor_free(rows);
    tensor_free(out);
    card_free(lr);
    drop_all(weights, velocity);
}

static void check_linear(const Trial *trial) {
    Error err;
    CudaBlas blas;
    check_ok(cuda_blas_open(&blas, trial->step.stream, false, &err));
    for (size_t i = 0; i < 2 * LENGTH(linears); i++) {
        const Layer *layer = &linears[i / 2];
        bool relu = i % 2 == 1;
        int n = trial->samples;
        Values in = lanes(trial, shape_size(layer->in), 10), slopes = lanes(trial, shape_size(layer->out), 11);
        Values weights = parameters(trial, parameters_of(layer), 12), out = values_of(trial, slopes.each, 0);
        Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)n);
        cuda_linear_forward(on_card(&out), on_card(&in), on_card(&weights), on_card(&weights) + layer->bias,
                            weights.stride, relu, layer, &blas, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            const float *weight = weights.host[m].at;
            if (is_idle(trial, m)) continue;
            trial->cpu->linear_forward(out.host[m].at, rows.at, in.host[m].at, weight, weight + layer->bias, layer,
                                       (int)trial->counts[m], n);
            if (relu) trial->cpu->relu_forward(out.host[m].at, shape_size(layer->out), n);
        }
        compare("linear forward", &out, trial->counts, (size_t)n, 1e-5);
        linear_backward(trial, layer, &blas, &in, &slopes, &weights);
        linear_step(trial, layer, &in, &slopes, (Sgd){.lr = 0.1f, .momentum = relu ? 0.9f : 0, .weight_decay = 0.01f});
        tensor_free(rows);
        drop_all(in, slopes, weights, out);
    }
    check_ok(cuda_blas_check(&blas, &err));
    cuda_blas_close(&blas);
}

// The step of all parameters, or of those in the middle.
static void check_sgd_of(const Trial *trial, bool atomically, float momentum, size_t first, size_t count) {
    enum { COUNT = 301 };
    const Sgd sgd = {.lr = 0.1f, .momentum = momentum, .weight_decay = 0.01f};
    Values weights = parameters(trial, COUNT, 13), velocity = random_values(trial, COUNT, 0, 14);
    Values gradient = random_values(trial, COUNT, 0, 15), unused = random_values(trial, COUNT, 0, 14);
    CardTensor lr = card_copy(&sgd.lr, sizeof sgd.lr, 0);
    const CudaDescent descent = descent_of(&weights, &velocity, &lr, sgd);
    (atomically ? cuda_sgd_step_atomically : cuda_sgd_step)(&descent, on_card(&gradient), first, count, &trial->step);
    for (int m = 0; m < trial->models; m++)
        if (!is_idle(trial, m))
            (atomically ? trial->cpu->sgd_step_atomically : trial->cpu->sgd_step)(
                weights.host[m].at + first, (momentum > 0 ? velocity : unused).host[m].at + first,
                gradient.host[m].at + first, &sgd, count);
    compare("weights", &weights, NULL, 1, 1e-6);
    compare("velocity", &velocity, NULL, 1, momentum > 0 ? 1e-6 : 0); // which is left alone without momentum
    card_free(lr);
    drop_all(weights, velocity, gradient, unused);
}

static void check_sgd(const Trial *trial) {
    for (int atomically = 0; atomically < 2; atomically++) {
        check_sgd_of(trial, atomically, 0.9f, 0, 301);
        check_sgd_of(trial, atomically, 0, 0, 301);
        check_sgd_of(trial, atomically, 0.9f, 17, 260);
    }
}

// The table -----------------------------------------------------------------------------------------------------------

// What has no twin is refused before anything is launched.
static void check_refusal(const Trial *trial) {
    Error err;
    CudaNet *net;
    CudaNetPlan plan = {.models = trial->models, .batch_size = 4};
    check_ok(spec_parse(&plan.spec, "embedding 9 2; lstm 3 last; linear 2", (Shape){1, 1, 5}, 2, &err));
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    assert_string_equal(err.message, "layer 1, an embedding or lstm, is for the CPU alone");
    assert_null(net);
}

typedef struct Twin {
    size_t first, bytes; // where the op stands in Kernels
    const char *on_card; // functions of cuda_kernels.h, between spaces
    void (*check)(const Trial *trial);
} Twin;

#define OP(name) offsetof(Kernels, name), sizeof(((Kernels *)0)->name)

#define CONVOLUTION " cuda_conv_forward cuda_conv_backward_weight cuda_conv_scratch_floats cuda_conv_backward_input "

static const Twin twins[] = {
    {OP(sgd_step), " cuda_sgd_step ", check_sgd},
    {OP(sgd_step_atomically), " cuda_sgd_step_atomically ", check_sgd},
    {OP(gather), " cuda_gather ", check_gather},
    {OP(gather_rows), " cuda_gather ", check_gather_rows},
    {OP(conv), CONVOLUTION, check_direct},
    {OP(winograd), CONVOLUTION, check_winograd},
    {OP(columns), CONVOLUTION, check_columns},
    {OP(pool_forward), " cuda_pool_forward ", check_pool},
    {OP(pool_backward), " cuda_pool_backward ", check_pool},
    {OP(average_forward), " cuda_average_forward ", check_average},
    {OP(average_backward), " cuda_average_backward ", check_average},
    {OP(relu_forward), " cuda_relu_forward ", check_relu},
    {OP(relu_backward), " cuda_relu_backward ", check_relu},
    {OP(activation_forward), " cuda_activation_forward ", check_activation},
    {OP(activation_backward), " cuda_activation_backward ", check_activation},
    {OP(norm_forward), " cuda_norm_forward ", check_norm},
    {OP(norm_backward), " cuda_norm_backward_input cuda_norm_backward_weight ", check_norm},
    {OP(embedding_forward), " ", check_refusal},
    {OP(embedding_backward), " ", check_refusal},
    {OP(lstm_forward), " ", check_refusal},
    {OP(lstm_backward), " ", check_refusal},
    {OP(add), " cuda_add ", check_add},
    {OP(dropout_draw), " cuda_dropout_draw ", check_dropout},
    {OP(dropout_apply), " cuda_dropout_apply ", check_dropout},
    {OP(linear_forward), " cuda_linear_forward ", check_linear},
    {OP(linear_backward_input), " cuda_linear_backward_input ", check_linear},
    {OP(linear_backward_weight), " cuda_linear_backward_weight cuda_linear_step ", check_linear},
    {OP(linear_backward_bias), " cuda_linear_backward_weight cuda_linear_step ", check_linear},
    {OP(softmax_cross_entropy), " cuda_softmax_cross_entropy ", check_loss},
};

static void every_op_of_the_cpu_has_a_row(void **state) {
    (void)state;
    for (size_t at = offsetof(Kernels, sgd_step); at < sizeof(Kernels); at += sizeof(void (*)(void))) {
        size_t rows = 0;
        for (size_t i = 0; i < LENGTH(twins); i++)
            rows += at >= twins[i].first && at < twins[i].first + twins[i].bytes;
        if (rows != 1) fail_msg("byte %zu of Kernels is an op with %zu rows in the table", at, rows);
    }
}

static bool is_in_the_table(const char *name) {
    char between_spaces[80];
    snprintf(between_spaces, sizeof between_spaces, " %s ", name);
    for (size_t i = 0; i < LENGTH(twins); i++)
        if (strstr(twins[i].on_card, between_spaces)) return true;
    return false;
}

static void every_function_of_cuda_kernels_is_in_a_row(void **state) {
    (void)state;
    FILE *header = fopen(CUDA_KERNELS_H, "r");
    char line[512], name[64];
    int functions = 0;
    if (!header) skip(); // a build that was carried to a machine without the sources
    while (fgets(line, sizeof line, header))
        if (sscanf(line, "%*[a-z_] %63[a-z_0-9](", name) == 1 && strncmp(name, "cuda_", 5) == 0) {
            functions++;
            if (!is_in_the_table(name)) fail_msg("%s has no row in the table", name);
        }
    fclose(header);
    assert_true(functions >= 15);
}

static void twins_agree(int models, int samples, const uint32_t *counts) {
    Trial trial = {.models = models, .samples = samples, .cpu = kernels_named("baseline")};
    memcpy(trial.counts, counts, (size_t)models * sizeof *counts);
    trial.card_counts = card_copy(counts, (size_t)models * sizeof *counts, 0);
    trial.step = (CudaStep){.models = models, .samples = samples, .counts = card_at(trial.card_counts)};
    check_cuda(cudaStreamCreate(&trial.step.stream));
    for (size_t i = 0; i < LENGTH(twins); i++)
        if (i == 0 || twins[i].check != twins[i - 1].check) {
            twins[i].check(&trial);
            check_cuda(cudaGetLastError());
        }
    check_cuda(cudaStreamDestroy(trial.step.stream));
    card_free(trial.card_counts);
}

static void twins_agree_for_one_model(void **state) {
    (void)state;
    twins_agree(1, 16, (const uint32_t[]){16});
    twins_agree(1, 4, (const uint32_t[]){1});
}

static void twins_agree_for_models_with_different_counts(void **state) {
    (void)state;
    twins_agree(3, 12, (const uint32_t[]){10, 0, 12});
}

static void twins_agree_for_eight_models_of_large_batches(void **state) {
    (void)state;
    twins_agree(8, 64, (const uint32_t[]){64, 1, 0, 33, 63, 40, 0, 64});
}

int main(int argc, char **argv) {
    if (card_is_missing()) return CARD_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_of_the_cpu_has_a_row),
        cmocka_unit_test(every_function_of_cuda_kernels_is_in_a_row),
        cmocka_unit_test(twins_agree_for_one_model),
        cmocka_unit_test(twins_agree_for_models_with_different_counts),
        cmocka_unit_test(twins_agree_for_eight_models_of_large_batches),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
