// Batch normalisation by every build: against a reference in double precision, gradients against central differences of
// a loss. The samples do not fill the vectors, and what the lanes behind them hold is not a number.
#include "builds.h"
#include "nn/buffers.h"
#include "nn/kernels/batch_statistics.h"
#include "nn/net.h"
#include "tests/tensor.h"

// A layer at work, in double precision: the loss is the sum of out_gradient * out.
typedef struct Case {
    Layer layer;
    size_t count, samples, plane;           // real samples; lanes; places of a channel
    double *in, *out_gradient, *parameters; // (C,plane,samples); the same; weight and bias
} Case;

typedef struct Moments {
    double mean, variance;
} Moments;

static Moments moments_of(const Case *of, size_t c) {
    Moments moments = {0, 0};
    const double share = 1 / (double)(of->plane * of->count);
    for (int pass = 0; pass < 2; pass++)
        for (size_t p = 0; p < of->plane; p++)
            for (size_t s = 0; s < of->count; s++) {
                const double value = of->in[(c * of->plane + p) * of->samples + s];
                if (pass == 0)
                    moments.mean += value * share;
                else
                    moments.variance += (value - moments.mean) * (value - moments.mean) * share;
            }
    return moments;
}

// Writes the outputs of the samples, unless out is NULL; returns their loss.
static double loss_of(const Case *of, double *out) {
    const size_t channels = (size_t)of->layer.in.channels;
    double loss = 0;
    for (size_t c = 0; c < channels; c++) {
        const Moments moments = moments_of(of, c);
        for (size_t p = 0; p < of->plane; p++)
            for (size_t s = 0; s < of->count; s++) {
                const size_t place = (c * of->plane + p) * of->samples + s;
                const double value = (of->in[place] - moments.mean) / sqrt(moments.variance + 1e-5);
                const double result = value * of->parameters[c] + of->parameters[channels + c];
                if (out) out[place] = result;
                loss += of->out_gradient[place] * result;
            }
    }
    return loss;
}

static double derivative_at(const Case *of, double *value) {
    const double step = 1e-4, kept = *value;
    *value = kept + step;
    double difference = loss_of(of, NULL);
    *value = kept - step;
    difference -= loss_of(of, NULL);
    *value = kept;
    return difference / (2 * step);
}

static void check_back(const Kernels *kernels, const Case *of, const Tensor *in, const Tensor *out_gradient,
                       const float *parameters, const float *statistics) {
    const size_t weights = 2 * (size_t)of->layer.in.channels;
    Tensor in_gradient = tensor_new(in->count), gradient = tensor_zeros(weights);
    for (int only = 0; only < 2; only++) // the second adds to the gradients of the parameters
        kernels->batch_norm_backward(gradient.at, only == 0 ? NULL : in_gradient.at, statistics, in->at,
                                     out_gradient->at, parameters, &of->layer, (int)of->count, (int)of->samples);
    double *expected = calloc(in->count, sizeof *expected);
    assert_non_null(expected);
    for (size_t i = 0; i < in->count; i++)
        expected[i] = i % of->samples < of->count ? derivative_at(of, &of->in[i]) : 0;
    check_close("input", in_gradient.at, expected, in->count, 1e-5);
    for (size_t i = 0; i < weights; i++)
        expected[i] = 2 * derivative_at(of, &of->parameters[i]);
    check_close("parameters", gradient.at, expected, weights, 1e-5);
    free(expected);
    tensor_free(in_gradient), tensor_free(gradient);
}

// The statistics of the batch, and a tenth of the way there from the running ones.
static void check_statistics(const Case *of, const BatchStatistics *statistics, const float *parameters) {
    const size_t channels = (size_t)of->layer.in.channels;
    const double values = (double)(of->plane * of->count);
    for (size_t c = 0; c < channels; c++) {
        const Moments moments = moments_of(of, c);
        const double unbiased = values > 1 ? moments.variance * values / (values - 1) : moments.variance;
        const double mean = 0.9 * (double)parameters[2 * channels + c] + 0.1 * moments.mean;
        const double variance = 0.9 * (double)parameters[3 * channels + c] + 0.1 * unbiased;
        assert_true(fabs((double)statistics[c].next_mean - mean) < 1e-5);
        assert_true(fabs((double)statistics[c].next_variance - variance) < 1e-4);
    }
}

static void check_case(const Kernels *kernels, Shape shape, int vectors, size_t missing) {
    const size_t n = (size_t)(vectors * kernels->lanes), features = shape_size(shape),
                 channels = (size_t)shape.channels;
    Case of = {.layer = {.kind = LAYER_BATCH_NORM, .in = shape, .out = shape, .bias = channels},
               .count = n - missing,
               .samples = n,
               .plane = features / channels};
    Tensor in = tensor_random(features * n, 1), out_gradient = tensor_random(features * n, 2),
           out = tensor_new(features * n);
    Tensor parameters = tensor_random(4 * channels, 3), statistics = tensor_new(batch_statistics_floats(&of.layer));
    for (size_t i = 0; i < in.count; i++) {
        const bool real = i % n < of.count;
        in.at[i] = real ? 3 * in.at[i] + 5 : NAN; // not around zero: what is subtracted matters
        out_gradient.at[i] = real ? out_gradient.at[i] : 0;
    }
    of.in = doubles(in.at, in.count), of.out_gradient = doubles(out_gradient.at, in.count);
    of.parameters = doubles(parameters.at, 4 * channels);
    double *expected = doubles(in.at, in.count);
    loss_of(&of, expected);
    kernels->batch_norm_forward(out.at, statistics.at, in.at, parameters.at, true, &of.layer, (int)of.count, (int)n);
    for (size_t i = 0; i < out.count; i++)
        assert_true(i % n >= of.count || fabs((double)out.at[i] - expected[i]) < 1e-5 * (1 + fabs(expected[i])));
    check_statistics(&of, (const BatchStatistics *)(const void *)statistics.at, parameters.at);
    check_back(kernels, &of, &in, &out_gradient, parameters.at, statistics.at);
    free(of.in), free(of.out_gradient), free(of.parameters), free(expected);
    tensor_free(in), tensor_free(out_gradient), tensor_free(out), tensor_free(parameters), tensor_free(statistics);
}

static void check_cases(const Kernels *kernels) {
    check_case(kernels, (Shape){3, 3, 5}, 1, 0);
    check_case(kernels, (Shape){2, 2, 3}, 2, 3);
    check_case(kernels, (Shape){5, 1, 1}, 3, 1);
    check_case(kernels, (Shape){2, 2, 2}, 1, (size_t)kernels->lanes - 1); // one sample
}

static void batch_norms_agree_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build_and_few(check_cases);
}

static void check_tests(const Kernels *kernels) {
    const Layer layer = {.kind = LAYER_BATCH_NORM, .in = {2, 1, 2}, .out = {2, 1, 2}, .bias = 2};
    const float parameters[] = {2, 3, 10, 20, 1, -1, 4, -1}; // the last variance is a server's, and no variance
    const size_t n = (size_t)kernels->lanes;
    Tensor in = tensor_zeros(4 * n), out = tensor_new(4 * n), statistics = tensor_new(batch_statistics_floats(&layer));
    in.at[0] = 5;
    kernels->batch_norm_forward(out.at, statistics.at, in.at, parameters, false, &layer, (int)n, (int)n);
    assert_true(fabsf(out.at[0] - (4 / sqrtf(4 + 1e-5f) * 2 + 10)) < 1e-5f);
    assert_true(fabsf(out.at[1] - (-1 / sqrtf(4 + 1e-5f) * 2 + 10)) < 1e-5f);
    assert_true(fabsf(out.at[2 * n] - (1 / sqrtf(1e-5f) * 3 + 20)) < 1e-2f);
    const float lost[] = {2, 3, 10, 20, 1, -1, 4, NAN}; // what is no number stays none
    kernels->batch_norm_forward(out.at, statistics.at, in.at, lost, false, &layer, (int)n, (int)n);
    assert_true(isnan(out.at[2 * n]) && !isnan(out.at[0]));
    tensor_free(in), tensor_free(out), tensor_free(statistics);
}

static void in_tests_the_running_statistics_count_whatever_the_batch(void **state) {
    (void)state;
    with_each_build_and_few(check_tests);
}

// Of the batch's size, and not of any that might be.
static void a_net_takes_the_memory_that_its_largest_batch_needs(void **state) {
    (void)state;
    enum { COUNT = 20, PARAMETERS = 512 };
    Error err;
    Spec spec;
    uint8_t pixels[COUNT * 36];
    uint16_t labels[COUNT];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 + i / 36 * 11);
    for (uint16_t s = 0; s < COUNT; s++)
        labels[s] = s % 3;
    const float scale = 0.01f, shift = -1;
    const Batch batch = {.pixels = pixels, .labels = labels, .count = COUNT, .scale = &scale, .shift = &shift};
    float parameters[PARAMETERS], gradients[2][PARAMETERS] = {{0}};
    size_t bytes[2];
    check_ok(spec_parse(&spec, "conv 4 3; batchnorm; relu; linear 3", (Shape){1, 6, 6}, 3, &err));
    assert_true(spec.parameter_count <= PARAMETERS);
    spec_initialise(parameters, &spec, 1);
    for (int i = 0; i < 2; i++) {
        Net net;
        BatchResult result;
        if (i > 0) spec.whole_batch = COUNT;
        check_ok(net_init(&net, &spec, kernels_best(), &err));
        assert_true(net.buffers->chunk.part >= COUNT);
        net_gradient(&net, gradients[i], &result, parameters, &batch, NULL);
        bytes[i] = net.arena_bytes;
        net_free(&net);
    }
    assert_memory_equal(gradients[0], gradients[1], spec.parameter_count * sizeof(float));
    assert_true(bytes[1] < bytes[0]);
}

static void no_variance_stays_below_zero(void **state) {
    (void)state;
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, "batchnorm; linear 1", (Shape){2, 1, 1}, 1, &err));
    float parameters[] = {-1, -2, -3, -4, -5, -6, -7, 8, -9, -10, -11};
    const float floored[] = {-1, -2, -3, -4, -5, -6, 0, 8, -9, -10, -11};
    assert_int_equal(spec.parameter_count, sizeof parameters / sizeof *parameters);
    const TensorList list = spec_tensors(&spec);
    tensors_floor_variances(parameters, &list);
    assert_memory_equal(parameters, floored, sizeof floored);
}

// Of a norm behind weights, they can be it that make its variance large.
static void a_statistic_that_moves_too_far_has_a_remedy(void **state) {
    (void)state;
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, "batchnorm; linear 1; batchnorm", (Shape){2, 1, 1}, 1, &err));
    assert_non_null(strstr(spec_tensor_remedy(&spec, 6), "in a round: bring the data near 1, by a mean and a deviat"));
    assert_string_equal(spec_tensor_remedy(&spec, 8), "; lower --lr");
    assert_non_null(
        strstr(spec_tensor_remedy(&spec, 14), "in a round: lower --lr, or bring the data near 1, by a mea"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norms_agree_with_the_reference_and_finite_differences),
        cmocka_unit_test(a_net_takes_the_memory_that_its_largest_batch_needs),
        cmocka_unit_test(no_variance_stays_below_zero),
        cmocka_unit_test(a_statistic_that_moves_too_far_has_a_remedy),
        cmocka_unit_test(in_tests_the_running_statistics_count_whatever_the_batch),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
