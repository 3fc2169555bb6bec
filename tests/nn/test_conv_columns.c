// Convolution of any stride, padding, dilation, kernel and groups by every build: against a reference in double
// precision, whose gradients are sums of products over the same triples of places.
#include "builds.h"
#include "tests/tensor.h"

typedef struct Triple {
    size_t out, in, weight; // samples are added to out and in
} Triple;

// Calls `visit` for each output place, input place and weight that meet in a product.
static void each_triple(const Layer *layer, void (*visit)(void *context, Triple at), void *context) {
    const Window *of = &layer->window;
    const int ins = layer->in.channels / layer->groups, outs = layer->out.channels / layer->groups;
    for (int o = 0; o < layer->out.channels; o++)
        for (int place = 0; place < layer->out.rows * layer->out.columns; place++)
            for (int i = 0; i < ins; i++)
                for (int tap = 0; tap < of->size.rows * of->size.columns; tap++) {
                    const int ky = tap / of->size.columns, kx = tap % of->size.columns;
                    const int channel = o / outs * ins + i;
                    const int y =
                        place / layer->out.columns * of->stride.rows - of->pad.rows + ky * layer->dilation.rows;
                    const int x = place % layer->out.columns * of->stride.columns - of->pad.columns +
                                  kx * layer->dilation.columns;
                    if (y < 0 || x < 0 || y >= layer->in.rows || x >= layer->in.columns) continue;
                    visit(context, (Triple){(size_t)(o * layer->out.rows * layer->out.columns + place),
                                            (size_t)((channel * layer->in.rows + y) * layer->in.columns + x),
                                            (size_t)((o * ins + i) * of->size.rows * of->size.columns + tap)});
                }
}

typedef struct Reference {
    const float *in, *weight, *out_gradient;
    double *out, *in_gradient, *weight_gradient;
    size_t samples;
} Reference;

static void multiply(void *context, Triple at) {
    Reference *of = context;
    for (size_t s = 0; s < of->samples; s++) {
        const double value = (double)of->in[at.in * of->samples + s], weight = (double)of->weight[at.weight];
        const double gradient = (double)of->out_gradient[at.out * of->samples + s];
        of->out[at.out * of->samples + s] += value * weight;
        of->in_gradient[at.in * of->samples + s] += gradient * weight;
        of->weight_gradient[at.weight] += gradient * value;
    }
}

// A layer of which `in`, `out.channels`, `groups`, `window` and `dilation` are given.
static Layer completed(Layer layer) {
    const Window *of = &layer.window;
    layer.kind = LAYER_CONV;
    layer.out.rows =
        windows_along(layer.in.rows, (of->size.rows - 1) * layer.dilation.rows + 1, of->stride.rows, of->pad.rows);
    layer.out.columns = windows_along(layer.in.columns, (of->size.columns - 1) * layer.dilation.columns + 1,
                                      of->stride.columns, of->pad.columns);
    return layer;
}

static double *zeros(size_t count) {
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

static void check_layer(const ConvKernels *conv, Layer given, int samples) {
    const Layer layer = completed(given);
    const size_t n = (size_t)samples, outs = (size_t)layer.out.channels, plane = shape_size(layer.out) / outs * n;
    const size_t weights = outs * (size_t)(layer.in.channels / layer.groups) *
                           (size_t)(layer.window.size.rows * layer.window.size.columns);
    const ConvSizes sizes = conv->sizes(&layer);
    Tensor in = tensor_random(shape_size(layer.in) * n, 1), out = tensor_new(outs * plane);
    Tensor weight = tensor_random(weights, 2), bias = tensor_random(outs, 3),
           out_gradient = tensor_random(out.count, 4);
    Tensor packed = tensor_new(sizes.packed), scratch = tensor_new(sizes.scratch), gradient = tensor_new(weights);
    Tensor packed_gradient = tensor_zeros(sizes.gradient), bias_gradient = tensor_zeros(outs);
    Tensor in_gradient = tensor_new(in.count);
    Reference expected = {in.at, weight.at, out_gradient.at, zeros(out.count), zeros(in.count), zeros(weights), n};
    double *bias_sums = zeros(outs);
    for (size_t i = 0; i < out.count; i++) {
        expected.out[i] = (double)bias.at[i / plane];
        bias_sums[i / plane] += (double)out_gradient.at[i];
    }
    each_triple(&layer, multiply, &expected);
    conv->pack(packed.at, weight.at, &layer);
    conv->forward(out.at, scratch.at, in.at, packed.at, bias.at, &layer, samples, samples);
    check_close("forward", out.at, expected.out, out.count, 2e-6);
    for (int only = 0; only < 2; only++) // nobody needs the input's gradient; and it is wanted, too
        conv->backward(packed_gradient.at, bias_gradient.at, only == 0 ? NULL : in_gradient.at, false, scratch.at,
                       in.at, out_gradient.at, packed.at, &layer, samples, samples);
    conv->unpack(gradient.at, packed_gradient.at, &layer);
    for (size_t i = 0; i < weights; i++)
        expected.weight_gradient[i] *= 2; // added up
    for (size_t i = 0; i < outs; i++)
        bias_sums[i] *= 2;
    check_close("input", in_gradient.at, expected.in_gradient, in.count, 2e-6);
    check_close("weight", gradient.at, expected.weight_gradient, weights, 2e-6);
    check_close("bias", bias_gradient.at, bias_sums, outs, 2e-6);
    free(expected.out), free(expected.in_gradient), free(expected.weight_gradient), free(bias_sums);
    const Tensor all[] = {in,      out,      weight,          bias,          out_gradient, packed,
                          scratch, gradient, packed_gradient, bias_gradient, in_gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void check_layers(const Kernels *kernels) {
    const Layer layers[] = {
        {.in = {3, 9, 8}, .out = {5, 0, 0}, .groups = 1, .dilation = {1, 1}, .window = {{3, 3}, {2, 2}, {1, 1}}},
        {.in = {4, 7, 9}, .out = {6, 0, 0}, .groups = 2, .dilation = {1, 1}, .window = {{3, 2}, {1, 1}, {0, 1}}},
        {.in = {5, 8, 7}, .out = {5, 0, 0}, .groups = 5, .dilation = {1, 1}, .window = {{3, 3}, {1, 1}, {1, 1}}},
        {.in = {2, 9, 11}, .out = {3, 0, 0}, .groups = 1, .dilation = {2, 3}, .window = {{3, 3}, {1, 2}, {2, 3}}},
        {.in = {6, 5, 6}, .out = {7, 0, 0}, .groups = 1, .dilation = {1, 1}, .window = {{1, 1}, {2, 2}, {0, 0}}},
        {.in = {2, 4, 4}, .out = {4, 0, 0}, .groups = 2, .dilation = {1, 1}, .window = {{4, 4}, {1, 1}, {3, 3}}},
        {.in = {1, 3, 3}, .out = {2, 0, 0}, .groups = 1, .dilation = {1, 2}, .window = {{1, 5}, {3, 1}, {0, 4}}},
        {.in = {40, 6, 6},
         .out = {9, 0, 0},
         .groups = 1,
         .dilation = {1, 1},
         .window = {{7, 7}, {1, 1}, {3, 3}}}, // blocks of few
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int vectors = 1; vectors <= 2; vectors++) {
            check_layer(&kernels->columns, layers[i], vectors * kernels->lanes);
            if (vectors == 1 && kernels->few) check_layer(&kernels->few->columns, layers[i], kernels->few->lanes);
        }
}

static void check_small_maps(const Kernels *kernels) {
    const Layer layers[] = {
        {.in = {3, 2, 2}, .out = {5, 0, 0}, .groups = 1, .dilation = {1, 1}, .window = {{3, 3}, {2, 2}, {1, 1}}},
        {.in = {20, 3, 2}, .out = {9, 0, 0}, .groups = 1, .dilation = {2, 1}, .window = {{2, 3}, {1, 2}, {1, 1}}},
        {.in = {2, 1, 5}, .out = {17, 0, 0}, .groups = 1, .dilation = {1, 2}, .window = {{1, 3}, {1, 1}, {0, 2}}},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        check_layer(&kernels->dense, layers[i], kernels->lanes);
        if (kernels->few) check_layer(&kernels->few->dense, layers[i], kernels->few->lanes);
    }
}

static void columns_agree_with_the_sums_of_products(void **state) {
    (void)state;
    with_each_build(check_layers);
}

static void pairs_of_places_agree_with_the_sums_of_products(void **state) {
    (void)state;
    with_each_build(check_small_maps);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_agree_with_the_sums_of_products),
        cmocka_unit_test(pairs_of_places_agree_with_the_sums_of_products),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
