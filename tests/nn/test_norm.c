// Group and layer normalisation by every build: against a reference in double precision and finite differences of it.
#include "builds.h"
#include "tests/tensor.h"

typedef struct Case {
    Layer layer;
    size_t samples, weights, plane; // plane: neighbours that share a weight
    double *in, *weight, *bias, *out_gradient;
} Case;

// The loss sum(out_gradient * out) of one sample; out (features): NULL, or that sample's values.
static double loss_of(const Case *of, size_t s, double *out) {
    const size_t features = shape_size(of->layer.in), group = features / (size_t)of->layer.groups;
    double loss = 0;
    for (size_t first = 0; first < features; first += group) {
        double mean = 0, variance = 0;
        for (size_t f = first; f < first + group; f++)
            mean += of->in[f * of->samples + s] / (double)group;
        for (size_t f = first; f < first + group; f++)
            variance += pow(of->in[f * of->samples + s] - mean, 2) / (double)group;
        for (size_t f = first; f < first + group; f++) {
            const double value = (of->in[f * of->samples + s] - mean) / sqrt(variance + 1e-5);
            const size_t own = f / of->plane % of->weights;
            const double result = value * of->weight[own] + of->bias[own];
            if (out) out[f] = result;
            loss += of->out_gradient[f * of->samples + s] * result;
        }
    }
    return loss;
}

// Central difference of the losses of samples from..to by *value.
static double derivative_of(const Case *of, double *value, size_t from, size_t to) {
    const double step = 1e-4, kept = *value;
    double difference = 0;
    for (size_t s = from; s < to; s++) {
        *value = kept + step;
        difference += loss_of(of, s, NULL);
        *value = kept - step;
        difference -= loss_of(of, s, NULL);
    }
    *value = kept;
    return difference / (2 * step);
}

static void check_back(const Kernels *kernels, const Case *of, const float *in, const float *out_gradient,
                       const float *weight, const float *statistics) {
    const size_t count = shape_size(of->layer.in) * of->samples;
    Tensor in_gradient = tensor_new(count), weight_gradient = tensor_zeros(of->weights);
    Tensor bias_gradient = tensor_zeros(of->weights);
    double *expected = malloc(count * sizeof *expected);
    assert_non_null(expected);
    for (int only = 0; only < 2; only++) // the second adds to the gradients of the parameters
        kernels->norm_backward(weight_gradient.at, bias_gradient.at, only == 0 ? NULL : in_gradient.at, statistics, in,
                               out_gradient, weight, &of->layer, (int)of->samples);
    for (size_t i = 0; i < count; i++)
        expected[i] = derivative_of(of, &of->in[i], i % of->samples, i % of->samples + 1);
    check_close("input", in_gradient.at, expected, count, 1e-5);
    for (size_t i = 0; i < of->weights; i++)
        expected[i] = 2 * derivative_of(of, &of->weight[i], 0, of->samples);
    check_close("weight", weight_gradient.at, expected, of->weights, 1e-5);
    for (size_t i = 0; i < of->weights; i++)
        expected[i] = 2 * derivative_of(of, &of->bias[i], 0, of->samples);
    check_close("bias", bias_gradient.at, expected, of->weights, 1e-5);
    free(expected);
    tensor_free(in_gradient), tensor_free(weight_gradient), tensor_free(bias_gradient);
}

// weights: of each channel, of each value, or of each value of a row.
static void check_norm(const Kernels *kernels, Shape shape, int groups, size_t weights, bool each, int vectors) {
    const size_t features = shape_size(shape), channels = (size_t)shape.channels;
    const size_t n = (size_t)(vectors * kernels->lanes), count = features * n;
    Case of = {
        .layer = {.kind = LAYER_NORM, .in = shape, .out = shape, .groups = groups, .bias = weights, .each = each},
        .samples = n,
        .weights = weights,
        .plane = weights == channels && !each ? features / channels : 1};
    Tensor in = tensor_random(count, 1), out = tensor_new(count), out_gradient = tensor_random(count, 2);
    Tensor weight = tensor_random(weights, 3), bias = tensor_random(weights, 4);
    Tensor statistics = tensor_new(2 * (size_t)groups * n);
    for (size_t i = 0; i < count; i++)
        in.at[i] = 3 * in.at[i] + 5; // not around zero: what is subtracted matters
    of.in = doubles(in.at, count), of.out_gradient = doubles(out_gradient.at, count);
    of.weight = doubles(weight.at, weights), of.bias = doubles(bias.at, weights);
    double *expected = malloc(count * sizeof *expected), *sample = malloc(features * sizeof *sample);
    assert_true(expected && sample);
    for (size_t s = 0; s < n; s++) {
        loss_of(&of, s, sample);
        for (size_t f = 0; f < features; f++)
            expected[f * n + s] = sample[f];
    }
    kernels->norm_forward(out.at, statistics.at, in.at, weight.at, bias.at, &of.layer, (int)n);
    check_close("forward", out.at, expected, count, 5e-6);
    check_back(kernels, &of, in.at, out_gradient.at, weight.at, statistics.at);
    free(expected), free(sample), free(of.in), free(of.out_gradient), free(of.weight), free(of.bias);
    const Tensor all[] = {in, out, out_gradient, weight, bias, statistics};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void check_norms(const Kernels *kernels) {
    check_norm(kernels, (Shape){6, 3, 5}, 3, 6, false, 1);
    check_norm(kernels, (Shape){4, 2, 2}, 1, 4, false, 2);
    check_norm(kernels, (Shape){5, 3, 1}, 5, 5, false, 1); // each channel by itself
    check_norm(kernels, (Shape){7, 1, 1}, 1, 7, false, 2);
    check_norm(kernels, (Shape){3, 4, 3}, 1, 36, false, 1);
    check_norm(kernels, (Shape){1, 4, 6}, 4, 6, true, 2); // each step of a sequence
    check_norm(kernels, (Shape){3, 1, 3}, 3, 3, true, 1); // each row, of as many values as there are channels
    check_norm(kernels, (Shape){2, 3, 5}, 6, 5, true, 1);
}

static void norms_agree_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build_and_few(check_norms);
}

static void check_constant(const Kernels *kernels) {
    const Layer layer = {.kind = LAYER_NORM, .in = {2, 2, 2}, .out = {2, 2, 2}, .groups = 1, .bias = 2};
    const float weight[] = {3, 4}, bias[] = {5, 6};
    const size_t n = (size_t)kernels->lanes;
    Tensor in = tensor_zeros(8 * n), out = tensor_new(8 * n), statistics = tensor_new(2 * n);
    kernels->norm_forward(out.at, statistics.at, in.at, weight, bias, &layer, (int)n);
    for (size_t i = 0; i < out.count; i++)
        assert_true(out.at[i] == bias[i / (4 * n)]);
    in.at[0] = NAN;
    kernels->norm_forward(out.at, statistics.at, in.at, weight, bias, &layer, (int)n);
    assert_true(isnan(out.at[0]) && isnan(out.at[7 * n]) && out.at[1] == 5);
    tensor_free(in), tensor_free(out), tensor_free(statistics);
}

static void a_sample_without_variance_becomes_the_bias_and_a_nan_stays_in_its_sample(void **state) {
    (void)state;
    with_each_build_and_few(check_constant);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_agree_with_the_reference_and_finite_differences),
        cmocka_unit_test(a_sample_without_variance_becomes_the_bias_and_a_nan_stays_in_its_sample),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
