// Convolution, direct and through Winograd's transforms, by every build: against a reference in double precision and
// finite differences of that reference. Shapes are odd on purpose: they do not divide the tiles.
#include "builds.h"
#include "tests/tensor.h"

static Layer conv_layer(Shape in, int channels, int kernel, int pad) {
    Shape out = {channels, in.rows + 2 * pad - kernel + 1, in.columns + 2 * pad - kernel + 1};
    return (Layer){.kind = LAYER_CONV, .in = in, .out = out, .kernel = kernel, .pad = pad};
}

typedef struct ConvCase {
    Layer layer;
    int samples;
    double *in, *weight, *bias, *out_gradient; // out_gradient: d(loss) / d(out)
} ConvCase;

static double conv_output(const ConvCase *of, int o, int y, int x, int s) {
    const Layer *layer = &of->layer;
    int k = layer->kernel, ins = layer->in.channels;
    double sum = of->bias[o];
    for (int i = 0; i < ins; i++)
        for (int ky = 0; ky < k; ky++)
            for (int kx = 0; kx < k; kx++) {
                int iy = y + ky - layer->pad, ix = x + kx - layer->pad;
                if (iy < 0 || ix < 0 || iy >= layer->in.rows || ix >= layer->in.columns) continue;
                sum += of->weight[((o * ins + i) * k + ky) * k + kx] *
                       of->in[((i * layer->in.rows + iy) * layer->in.columns + ix) * of->samples + s];
            }
    return sum;
}

// The outputs that a perturbed value can reach: from each of these to before it.
typedef struct Reach {
    int o[2], y[2], x[2], s[2];
} Reach;

// Those of a channel; those of a place of the input, in one sample.
static Reach reach_of_channel(const ConvCase *of, int o) {
    return (Reach){{o, o + 1}, {0, of->layer.out.rows}, {0, of->layer.out.columns}, {0, of->samples}};
}

static Reach reach_of_place(const ConvCase *of, int y, int x, int s) {
    const Layer *layer = &of->layer;
    int y_end = y + layer->pad + 1, x_end = x + layer->pad + 1;
    int y_from = y_end - layer->kernel, x_from = x_end - layer->kernel;
    return (Reach){{0, layer->out.channels},
                   {y_from > 0 ? y_from : 0, y_end < layer->out.rows ? y_end : layer->out.rows},
                   {x_from > 0 ? x_from : 0, x_end < layer->out.columns ? x_end : layer->out.columns},
                   {s, s + 1}};
}

// The loss sum(out_gradient * out), over what is reached only.
static double conv_loss(const ConvCase *of, const Reach *reach) {
    Shape out = of->layer.out;
    double loss = 0;
    for (int o = reach->o[0]; o < reach->o[1]; o++)
        for (int y = reach->y[0]; y < reach->y[1]; y++)
            for (int x = reach->x[0]; x < reach->x[1]; x++)
                for (int s = reach->s[0]; s < reach->s[1]; s++)
                    loss += of->out_gradient[((o * out.rows + y) * out.columns + x) * of->samples + s] *
                            conv_output(of, o, y, x, s);
    return loss;
}

// Central difference of conv_loss by *value.
static double conv_derivative(const ConvCase *of, double *value, Reach reach) {
    const double step = 1e-3, kept = *value;
    *value = kept + step;
    double above = conv_loss(of, &reach);
    *value = kept - step;
    double below = conv_loss(of, &reach);
    *value = kept;
    return (above - below) / (2 * step);
}

// The derivative by weight number w: what it multiplies, times the outputs' gradients. Finite differences for each
// weight would take most of the test's time.
static double weight_derivative(const ConvCase *of, size_t w) {
    const Layer *layer = &of->layer;
    const Shape in = layer->in, out = layer->out;
    const int k = layer->kernel, tap = (int)w % (k * k), i = (int)w / (k * k) % in.channels,
              o = (int)w / (k * k) / in.channels;
    double sum = 0;
    for (int y = 0; y < out.rows; y++)
        for (int x = 0; x < out.columns; x++) {
            const int iy = y + tap / k - layer->pad, ix = x + tap % k - layer->pad;
            if (iy < 0 || ix < 0 || iy >= in.rows || ix >= in.columns) continue;
            for (int s = 0; s < of->samples; s++)
                sum += of->out_gradient[((o * out.rows + y) * out.columns + x) * of->samples + s] *
                       of->in[((i * in.rows + iy) * in.columns + ix) * of->samples + s];
        }
    return sum;
}

// The op's tensors.
typedef struct ConvTensors {
    Tensor in, out, weight, bias, out_gradient, packed, scratch, packed_gradient, weight_gradient, bias_gradient,
        in_gradient;
} ConvTensors;

static ConvTensors conv_tensors(const ConvKernels *conv, const Layer *layer, int samples) {
    size_t n = (size_t)samples, outs = (size_t)layer->out.channels;
    size_t weights = outs * (size_t)layer->in.channels * (size_t)layer->kernel * (size_t)layer->kernel;
    ConvSizes sizes = conv->sizes(layer);
    return (ConvTensors){
        .in = tensor_random(shape_size(layer->in) * n, 1),
        .out = tensor_new(shape_size(layer->out) * n),
        .weight = tensor_random(weights, 2),
        .bias = tensor_random(outs, 3),
        .out_gradient = tensor_random(shape_size(layer->out) * n, 4),
        .packed = tensor_new(sizes.packed),
        .scratch = tensor_new(sizes.scratch),
        .packed_gradient = tensor_zeros(sizes.gradient),
        .weight_gradient = tensor_new(weights),
        .bias_gradient = tensor_zeros(outs),
        .in_gradient = tensor_new(shape_size(layer->in) * n),
    };
}

static void conv_tensors_free(ConvTensors *t) {
    const Tensor all[] = {t->in,
                          t->out,
                          t->weight,
                          t->bias,
                          t->out_gradient,
                          t->packed,
                          t->scratch,
                          t->packed_gradient,
                          t->weight_gradient,
                          t->bias_gradient,
                          t->in_gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void check_conv_gradients(const char *name, ConvCase *of, const ConvTensors *t) {
    const Layer *layer = &of->layer;
    int outs = layer->out.channels, n = of->samples;
    size_t weights_of_channel = t->weight.count / (size_t)outs;
    double *expected = malloc((t->weight.count + t->in.count) * sizeof *expected);
    assert_non_null(expected);
    for (size_t i = 0; i < t->weight.count; i++) {
        int o = (int)(i / weights_of_channel);
        expected[i] = weight_derivative(of, i);
        if (i % 67 == 0)
            assert_true(fabs(expected[i] - conv_derivative(of, &of->weight[i], reach_of_channel(of, o))) < 1e-8);
    }
    check_close(name, t->weight_gradient.at, expected, t->weight.count, 1e-5);
    for (int o = 0; o < outs; o++)
        expected[o] = conv_derivative(of, &of->bias[o], reach_of_channel(of, o));
    check_close(name, t->bias_gradient.at, expected, (size_t)outs, 1e-5);
    // Each place of the input in one sample, a different one from place to place.
    size_t places = shape_size(layer->in);
    float *actual = malloc(places * sizeof *actual);
    assert_non_null(actual);
    for (size_t i = 0; i < places; i++) {
        int s = (int)(i * 7) % n, y = (int)i / layer->in.columns % layer->in.rows, x = (int)i % layer->in.columns;
        expected[i] = conv_derivative(of, &of->in[i * (size_t)n + (size_t)s], reach_of_place(of, y, x, s));
        actual[i] = t->in_gradient.at[i * (size_t)n + (size_t)s];
    }
    check_close(name, actual, expected, places, 1e-5);
    free(actual);
    free(expected);
}

// The inputs' gradient added to what stands there, and stopped where a relu before the layer gave nothing.
static void check_ends(const char *name, const ConvKernels *conv, const Layer *layer, const ConvTensors *t, int count,
                       int samples) {
    Tensor weights = tensor_zeros(t->packed_gradient.count), biases = tensor_zeros(t->bias_gradient.count);
    double *expected = malloc(t->in.count * sizeof *expected);
    assert_non_null(expected);
    for (int adds = 0; adds < 2; adds++)
        for (int stops = 0; stops < 2; stops++) {
            Tensor gradient = tensor_random(t->in.count, 5);
            Layer joined = *layer;
            joined.rectified = stops;
            for (size_t i = 0; i < t->in.count; i++)
                expected[i] =
                    stops && t->in.at[i] <= 0 ? 0.0 : (double)t->in_gradient.at[i] + (adds ? gradient.at[i] : 0.0);
            conv->backward(weights.at, biases.at, gradient.at, adds, t->scratch.at, t->in.at, t->out_gradient.at,
                           t->packed.at, &joined, count, samples);
            check_close(name, gradient.at, expected, t->in.count, 1e-5);
            tensor_free(gradient);
        }
    free(expected);
    tensor_free(weights);
    tensor_free(biases);
}

static void check_conv(const char *name, const ConvKernels *conv, Layer layer, int count, int lanes) {
    int samples = (count + lanes - 1) / lanes * lanes;
    ConvTensors t = conv_tensors(conv, &layer, samples);
    for (size_t i = 0; i < t.out_gradient.count; i++) // as the loss leaves it: zero beyond the last sample
        if ((int)(i % (size_t)samples) >= count) t.out_gradient.at[i] = 0;
    ConvCase of = {layer,
                   samples,
                   doubles(t.in.at, t.in.count),
                   doubles(t.weight.at, t.weight.count),
                   doubles(t.bias.at, t.bias.count),
                   doubles(t.out_gradient.at, t.out_gradient.count)};
    conv->pack(t.packed.at, t.weight.at, &layer);
    conv->forward(t.out.at, t.scratch.at, t.in.at, t.packed.at, t.bias.at, &layer, count, samples);
    double *expected = malloc(t.out.count * sizeof *expected);
    assert_non_null(expected);
    size_t place = 0;
    for (int o = 0; o < layer.out.channels; o++)
        for (int y = 0; y < layer.out.rows; y++)
            for (int x = 0; x < layer.out.columns; x++)
                for (int s = 0; s < samples; s++, place++)
                    expected[place] = s < count ? conv_output(&of, o, y, x, s) : (double)t.out.at[place];
    check_close(name, t.out.at, expected, t.out.count, 1e-5);
    conv->backward(t.packed_gradient.at, t.bias_gradient.at, t.in_gradient.at, false, t.scratch.at, t.in.at,
                   t.out_gradient.at, t.packed.at, &layer, count, samples);
    conv->unpack(t.weight_gradient.at, t.packed_gradient.at, &layer);
    check_conv_gradients(name, &of, &t);
    check_ends(name, conv, &layer, &t, count, samples);

    // Without an input gradient, and a second time: the parameters' gradients add up, from the same bits.
    float *once = malloc(t.weight.count * sizeof *once);
    assert_non_null(once);
    memcpy(once, t.weight_gradient.at, t.weight.count * sizeof *once);
    memset(t.packed_gradient.at, 0, t.packed_gradient.count * sizeof(float));
    conv->backward(t.packed_gradient.at, t.bias_gradient.at, NULL, false, t.scratch.at, t.in.at, t.out_gradient.at,
                   t.packed.at, &layer, count, samples);
    conv->unpack(t.weight_gradient.at, t.packed_gradient.at, &layer);
    assert_memory_equal(once, t.weight_gradient.at, t.weight.count * sizeof *once);
    for (int o = 0; o < layer.out.channels; o++)
        expected[o] = 2 * conv_derivative(&of, &of.bias[o], reach_of_channel(&of, o));
    check_close(name, t.bias_gradient.at, expected, (size_t)layer.out.channels, 1e-5);

    double *const copies[] = {of.in, of.weight, of.bias, of.out_gradient, expected};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        free(copies[i]);
    free(once);
    conv_tensors_free(&t);
}

static void check_direct_convolutions(const Kernels *kernels) {
    int n = kernels->lanes;
    check_conv("conv 1 > 10, 5x5", &kernels->conv, conv_layer((Shape){1, 9, 11}, 10, 5, 0), n, n);
    check_conv("conv 2 > 7, 5x5, pad 2", &kernels->conv, conv_layer((Shape){2, 6, 7}, 7, 5, 2), n, n);
    check_conv("conv 3 > 6, 3x3, pad 1", &kernels->conv, conv_layer((Shape){3, 5, 6}, 6, 3, 1), 2 * n - 3, n);
    check_conv("conv 3 > 1, 3x3", &kernels->conv, conv_layer((Shape){3, 5, 5}, 1, 3, 0), n, n);
    check_conv("conv 2 > 6, 1x1", &kernels->conv, conv_layer((Shape){2, 3, 5}, 6, 1, 0), n, n);
    check_conv("conv 2 > 5, 4x4, pad 3", &kernels->conv, conv_layer((Shape){2, 4, 3}, 5, 4, 3), 2 * n, n);
    check_conv("conv 2 > 6, 7x7, pad 2", &kernels->conv, conv_layer((Shape){2, 7, 8}, 6, 7, 2), n, n);
    check_conv("conv 1 > 5, 5x5 of a 5x5 input", &kernels->conv, conv_layer((Shape){1, 5, 5}, 5, 5, 0), n, n);
}

static void check_columns_of_plain_ones(const Kernels *kernels) {
    int n = kernels->lanes;
    check_conv("columns 18 > 7, 1x1", &kernels->columns, conv_layer((Shape){18, 3, 5}, 7, 1, 0), n, n);
    check_conv("columns 2 > 3, 3x3, pad 1", &kernels->columns, conv_layer((Shape){2, 4, 5}, 3, 3, 1), 2 * n, n);
}

static void check_dense_convolutions(const Kernels *kernels) {
    int n = kernels->lanes;
    check_conv("dense 18 > 33, 3x3, pad 1, of one place", &kernels->dense, conv_layer((Shape){18, 1, 1}, 33, 3, 1), n,
               n);
    check_conv("dense 6 > 9, 3x3, pad 1, of 2x2", &kernels->dense, conv_layer((Shape){6, 2, 2}, 9, 3, 1), 2 * n, n);
    check_conv("dense 2 > 3, 5x5, pad 2, of 2x3", &kernels->dense, conv_layer((Shape){2, 2, 3}, 3, 5, 2), n, n);
    check_conv("dense 3 > 1, 3x3, of 4x3", &kernels->dense, conv_layer((Shape){3, 4, 3}, 1, 3, 0), n - 1, n);
    check_conv("dense 2 > 2, 3x3, pad 2, of one place", &kernels->dense, conv_layer((Shape){2, 1, 1}, 2, 3, 2), n, n);
}

static void check_winograd_convolutions(const Kernels *kernels) {
    int n = kernels->lanes;
    check_conv("winograd 6 > 9, 5x5", &kernels->winograd, conv_layer((Shape){6, 8, 9}, 9, 5, 0), n, n);
    check_conv("winograd 7 > 5, 5x5, pad 2", &kernels->winograd, conv_layer((Shape){7, 5, 7}, 5, 5, 2), n, n);
    check_conv("winograd 2 > 3, 5x5, pad 4", &kernels->winograd, conv_layer((Shape){2, 4, 3}, 3, 5, 4), 2 * n, n);
    check_conv("winograd 6 > 11, 3x3", &kernels->winograd, conv_layer((Shape){6, 7, 9}, 11, 3, 0), n, n);
    check_conv("winograd 5 > 6, 3x3, pad 1", &kernels->winograd, conv_layer((Shape){5, 6, 5}, 6, 3, 1), 2 * n, n);
    check_conv("winograd 1 > 1, 3x3 of a 3x3 input", &kernels->winograd, conv_layer((Shape){1, 3, 3}, 1, 3, 0), n, n);
    check_conv("winograd 1 > 2, 3x3, more tiles than a block", &kernels->winograd,
               conv_layer((Shape){1, 19, 18}, 2, 3, 0), n, n);
    check_conv("winograd 32 > 17, 3x3 of a 3x3 input, its gradients transposed", &kernels->winograd,
               conv_layer((Shape){32, 3, 3}, 17, 3, 0), n, n);
    check_conv("winograd 33 > 2, 5x5, its gradients transposed, 10 samples", &kernels->winograd,
               conv_layer((Shape){33, 5, 6}, 2, 5, 1), 10, n);
    check_conv("winograd 6 > 7, 5x5, 10 samples", &kernels->winograd, conv_layer((Shape){6, 9, 9}, 7, 5, 2), 10, n);
    check_conv("winograd 6 > 7, 5x5, 3 samples, several tiles in a vector", &kernels->winograd,
               conv_layer((Shape){6, 9, 12}, 7, 5, 2), 3, n);
    check_conv("winograd 5 > 6, 3x3, 1 sample", &kernels->winograd, conv_layer((Shape){5, 19, 18}, 6, 3, 1), 1, n);
    check_conv("winograd 3 > 4, 3x3, a last sample missing", &kernels->winograd, conv_layer((Shape){3, 12, 9}, 4, 3, 0),
               n - 1, n);
}

// Of less than a vector: columns take the place of the direct way.
static void check_convolutions_of_few_samples(const Kernels *kernels) {
    const Kernels *few = kernels->few;
    if (!few) return;
    for (int count = 1; count <= few->lanes; count++) {
        check_conv("columns 1 > 6, 5x5, pad 2, few", &few->columns, conv_layer((Shape){1, 5, 7}, 6, 5, 2), count,
                   few->lanes);
        check_conv("dense 6 > 9, 3x3, pad 1, of 2x2, few", &few->dense, conv_layer((Shape){6, 2, 2}, 9, 3, 1), count,
                   few->lanes);
        check_conv("columns 18 > 7, 1x1, few", &few->columns, conv_layer((Shape){18, 3, 5}, 7, 1, 0), count,
                   few->lanes);
        check_conv("winograd 6 > 7, 5x5, pad 2, few", &few->winograd, conv_layer((Shape){6, 9, 5}, 7, 5, 2), count,
                   few->lanes);
        check_conv("winograd 5 > 6, 3x3, pad 1, few", &few->winograd, conv_layer((Shape){5, 19, 6}, 6, 3, 1), count,
                   few->lanes);
        check_conv("winograd 33 > 2, 3x3, its gradients transposed, few", &few->winograd,
                   conv_layer((Shape){33, 5, 4}, 2, 3, 0), count, few->lanes);
    }
}

// Against the direct one, where finite differences would take too long: more tiles than a block. Eight points round
// more than six (points.h).
static void check_large(const char *name, const Kernels *kernels, Layer layer) {
    const int n = kernels->lanes;
    const ConvKernels *const ways[] = {&kernels->conv, &kernels->winograd};
    ConvTensors made[2];
    for (int i = 0; i < 2; i++) {
        const ConvTensors *t = &made[i];
        made[i] = conv_tensors(ways[i], &layer, n);
        ways[i]->pack(t->packed.at, t->weight.at, &layer);
        ways[i]->forward(t->out.at, t->scratch.at, t->in.at, t->packed.at, t->bias.at, &layer, n, n);
        ways[i]->backward(t->packed_gradient.at, t->bias_gradient.at, t->in_gradient.at, false, t->scratch.at, t->in.at,
                          t->out_gradient.at, t->packed.at, &layer, n, n);
        ways[i]->unpack(t->weight_gradient.at, t->packed_gradient.at, &layer);
    }
    const Tensor direct[] = {made[0].out, made[0].weight_gradient, made[0].bias_gradient, made[0].in_gradient};
    const Tensor winograd[] = {made[1].out, made[1].weight_gradient, made[1].bias_gradient, made[1].in_gradient};
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        double *expected = doubles(direct[i].at, direct[i].count);
        check_close(name, winograd[i].at, expected, direct[i].count, layer.kernel == 5 ? 2e-5 : 1e-5);
        free(expected);
    }
    conv_tensors_free(&made[0]);
    conv_tensors_free(&made[1]);
}

// With so many input channels the gradients are transposed.
static void check_large_winograd_convolutions(const Kernels *kernels) {
    check_large("winograd 32 > 2, 3x3", kernels, conv_layer((Shape){32, 19, 18}, 2, 3, 0));
    check_large("winograd 33 > 7, 5x5, pad 2", kernels, conv_layer((Shape){33, 11, 10}, 7, 5, 2));
    check_large("winograd 8 > 140, 3x3, pad 1", kernels, conv_layer((Shape){8, 19, 18}, 140, 3, 1));
}

static void winograd_convolution_of_many_tiles_agrees_with_the_direct_one(void **state) {
    (void)state;
    with_each_build(check_large_winograd_convolutions);
}

static void direct_convolution_agrees_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build(check_direct_convolutions);
}

static void plain_convolution_through_columns_agrees_with_the_reference(void **state) {
    (void)state;
    with_each_build(check_columns_of_plain_ones);
}

static void dense_convolution_agrees_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build(check_dense_convolutions);
}

static void convolution_of_few_samples_agrees_with_the_reference(void **state) {
    (void)state;
    with_each_build(check_convolutions_of_few_samples);
}

static void winograd_convolution_agrees_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build(check_winograd_convolutions);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_convolution_agrees_with_the_reference_and_finite_differences),
        cmocka_unit_test(plain_convolution_through_columns_agrees_with_the_reference),
        cmocka_unit_test(dense_convolution_agrees_with_the_reference_and_finite_differences),
        cmocka_unit_test(convolution_of_few_samples_agrees_with_the_reference),
        cmocka_unit_test(winograd_convolution_agrees_with_the_reference_and_finite_differences),
        cmocka_unit_test(winograd_convolution_of_many_tiles_agrees_with_the_direct_one),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
