// The other ops by every build (test_conv.c has convolution, test_linear.c linear layers, test_pool.c pooling): against
// references in double precision, gradients against derivatives of those references. Shapes are odd on purpose: they do
// not divide the vectors.
#include "builds.h"
#include "nn/kernels/activation.h"
#include "tests/tensor.h"

// Functions of one value ----------------------------------------------------------------------------------------------

static double normal_share(double x) {
    return 0.5 * erfc(-x / sqrt(2));
}

static double activation_reference(Activation of, double x, double number) {
    switch (of) {
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case ACTIVATION_LEAKY_RELU:
        return x < 0 ? number * x : x;
    case ACTIVATION_RELU6:
        return fmin(fmax(x, 0), 6);
    case ACTIVATION_GELU:
        return x * normal_share(x);
    case ACTIVATION_ELU:
        return x > 0 ? x : number * expm1(x);
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_HARDSIGMOID:
        return fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    }
    return NAN;
}

static void check_activation(const Kernels *kernels, Activation of) {
    const double step = 1e-5;
    size_t n = (size_t)kernels->lanes, count = 40 * n;
    Layer layer = {.kind = LAYER_ACTIVATION, .activation = (int)of, .in = {40, 1, 1}, .out = {40, 1, 1}, .rate = 0.01f};
    Tensor in = tensor_random(count, 23), out = tensor_new(count), gradient = tensor_new(count);
    Tensor out_gradient = tensor_random(count, 24);
    double *values = malloc(count * sizeof *values), *back = malloc(count * sizeof *back);
    assert_true(values && back);
    for (size_t i = 0; i < count; i++)
        in.at[i] *= i < count / 2 ? 1 : i < 3 * count / 4 ? 12 : 300; // near zero, at the bends, far out
    for (size_t i = 0; i < count; i++) {
        const double x = (double)in.at[i], number = (double)layer.rate;
        values[i] = activation_reference(of, x, number);
        const double rise = activation_reference(of, x + step, number) - activation_reference(of, x - step, number);
        back[i] = (double)out_gradient.at[i] * rise / (2 * step);
    }
    kernels->activation_forward(out.at, in.at, &layer, (int)n);
    kernels->activation_backward(gradient.at, in.at, out_gradient.at, &layer, (int)n);
    for (size_t i = 0; i < count; i++) // each value by itself: the large ones must not hide the small
        if (!(fabs((double)out.at[i] - values[i]) <= 3e-7 * fmax(1, fabs(values[i]))))
            fail_msg("function %d of %.9g is %.9g, expected %.9g", of, (double)in.at[i], (double)out.at[i], values[i]);
    check_close("derivative", gradient.at, back, count, 2e-6);
    in.at[3] = NAN;
    kernels->activation_forward(out.at, in.at, &layer, (int)n);
    assert_true(isnan(out.at[3]));
    free(values);
    free(back);
    tensor_free(in), tensor_free(out), tensor_free(gradient), tensor_free(out_gradient);
}

static void check_activations(const Kernels *kernels) {
#define CHECK(kind, name) check_activation(kernels, kind);
    ACTIVATIONS(CHECK)
#undef CHECK
}

static void functions_of_one_value_are_those_of_the_library_and_keep_a_nan(void **state) {
    (void)state;
    with_each_build_and_few(check_activations);
}

// Relu ----------------------------------------------------------------------------------------------------------------

static void check_relu(const Kernels *kernels) {
    size_t n = (size_t)kernels->lanes * 2, count = 7 * n;
    Tensor values = tensor_random(count, 7), out_gradient = tensor_random(count, 8);
    values.at[3] = 0;
    values.at[4] = NAN;
    double *expected = doubles(values.at, count), *expected_gradient = doubles(out_gradient.at, count);
    for (size_t i = 0; i < count; i++) {
        if (expected[i] <= 0) expected_gradient[i] = 0;
        if (expected[i] <= 0) expected[i] = 0;
    }
    kernels->relu_forward(values.at, 7, (int)n);
    kernels->relu_backward(out_gradient.at, values.at, 7, (int)n);
    assert_true(isnan(values.at[4]));
    values.at[4] = 0;
    expected[4] = 0;
    check_close("relu forward", values.at, expected, count, 0);
    check_close("relu backward", out_gradient.at, expected_gradient, count, 0);
    free(expected);
    free(expected_gradient);
    tensor_free(values);
    tensor_free(out_gradient);
}

static void relu_clips_at_zero_and_keeps_a_nan(void **state) {
    (void)state;
    with_each_build_and_few(check_relu);
}

// Dropout -------------------------------------------------------------------------------------------------------------

static void check_dropout(const Kernels *kernels) {
    enum { FEATURES = 11, PLANE = 3 };
    const DropoutNoise noise = {.key = rng_key(5, RNG_DROPOUT, 6, 7, 8), .first_sample = 48, .step = 9, .rate = 0.3f};
    int samples = 2 * kernels->lanes;
    size_t n = (size_t)samples, count = FEATURES * PLANE * n;
    Tensor masks = tensor_new(FEATURES * n / sizeof(float)), values = tensor_random(count, 9);
    int8_t *keep = (int8_t *)masks.at;
    double *expected = doubles(values.at, count);
    kernels->dropout_draw(keep, &noise, FEATURES, samples);
    kernels->dropout_apply(values.at, keep, noise.rate, FEATURES, PLANE, samples);
    for (uint32_t f = 0; f < FEATURES; f++)
        for (uint32_t s = 0; s < n; s++) {
            uint32_t word = rng_block(noise.key, f / 4, noise.first_sample + s, noise.step, 0).word[f % 4];
            bool kept = rng_float(word) >= noise.rate;
            assert_int_equal(keep[f * n + s], kept ? -1 : 0);
            for (uint32_t p = 0; p < PLANE; p++)
                expected[(f * PLANE + p) * n + s] *= kept ? 1 / (1 - (double)noise.rate) : 0;
        }
    check_close("dropout", values.at, expected, count, 1e-7);
    free(expected);
    tensor_free(masks);
    tensor_free(values);
}

static void dropout_draws_exactly_the_words_of_the_scalar_generator(void **state) {
    (void)state;
    with_each_build_and_few(check_dropout);
}

static void check_dropout_rate(const Kernels *kernels) {
    enum { FEATURES = 2000, SAMPLES = 16 };
    static int8_t keep[FEATURES * SAMPLES] __attribute__((aligned(64)));
    const float rates[] = {0, 0.25f, 0.5f, 0.9f};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        DropoutNoise noise = {.key = rng_key(1, RNG_DROPOUT, 0, 0, 0), .rate = rates[r]};
        kernels->dropout_draw(keep, &noise, FEATURES, SAMPLES);
        double dropped = 0, rate = (double)rates[r], count = FEATURES * SAMPLES;
        for (size_t i = 0; i < sizeof keep; i++)
            dropped += keep[i] == 0;
        assert_true(fabs(dropped / count - rate) <= 4 * sqrt(rate * (1 - rate) / count));
    }
}

static void dropout_zeroes_the_asked_share(void **state) {
    (void)state;
    with_each_build_and_few(check_dropout_rate);
}

// Softmax and cross-entropy -------------------------------------------------------------------------------------------

static double reference_loss(const double *logits, int label, double smoothing, int classes) {
    double largest = logits[0], sum = 0, mean = 0;
    for (int k = 1; k < classes; k++)
        largest = fmax(largest, logits[k]);
    for (int k = 0; k < classes; k++)
        sum += exp(logits[k] - largest), mean += logits[k] / classes;
    return log(sum) + largest - (1 - smoothing) * logits[label] - smoothing * mean;
}

static void check_loss(const Kernels *kernels, int classes, int count, float spread, float smoothing) {
    int samples = (count + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
    size_t n = (size_t)samples, values = (size_t)classes * n;
    const double step = 1e-4, scale = 0.125;
    Tensor logits = tensor_random(values, 14), gradient = tensor_new(values);
    for (size_t i = 0; i < values; i++)
        logits.at[i] *= spread;
    uint16_t labels[100];
    double *expected = calloc(values, sizeof *expected), loss = 0;
    assert_non_null(expected);
    uint32_t expected_hits = 0, hits;
    for (int s = 0; s < count; s++) {
        double sample[256];
        int best = 0;
        labels[s] = (uint16_t)((s * 5 + 3) % classes);
        for (int k = 0; k < classes; k++) {
            sample[k] = (double)logits.at[k * samples + s];
            if (sample[k] > sample[best]) best = k;
        }
        expected_hits += best == labels[s];
        loss += reference_loss(sample, labels[s], (double)smoothing, classes);
        for (int k = 0; k < classes; k++) {
            double kept = sample[k];
            sample[k] = kept + step;
            double above = reference_loss(sample, labels[s], (double)smoothing, classes);
            sample[k] = kept - step;
            expected[k * samples + s] =
                scale * (above - reference_loss(sample, labels[s], (double)smoothing, classes)) / (2 * step);
            sample[k] = kept;
        }
    }
    double actual = kernels->softmax_cross_entropy(gradient.at, &hits, logits.at, labels, (float)scale, smoothing,
                                                   classes, count, samples);
    assert_true(fabs(actual - loss) <= 1e-6 * (1 + fabs(loss)));
    assert_int_equal(hits, expected_hits);
    check_close("loss gradient", gradient.at, expected, values, 1e-6);
    free(expected);
    tensor_free(logits);
    tensor_free(gradient);
}

static void check_losses(const Kernels *kernels) {
    check_loss(kernels, 10, 16, 1, 0);
    check_loss(kernels, 10, 10, 5, 0.1f);
    check_loss(kernels, 3, 17, 90, 0); // differences beyond what e^x can represent
    check_loss(kernels, 256, 33, 4, 0.5f);
    check_loss(kernels, 1, 1, 1, 0);
}

static void cross_entropy_agrees_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build_and_few(check_losses);
}

static void check_ties_and_nans(const Kernels *kernels) {
    enum { CLASSES = 3 };
    int samples = kernels->lanes;
    Tensor logits = tensor_zeros((size_t)(CLASSES * samples)), gradient = tensor_new(logits.count);
    const uint16_t labels[3] = {0, 1, 0};
    uint32_t hits;
    double loss = kernels->softmax_cross_entropy(NULL, &hits, logits.at, labels, 1, 0, CLASSES, 3, samples);
    assert_int_equal(hits, 2); // of equal logits the first counts
    assert_true(fabs(loss - 3 * log(3)) < 1e-6);
    const float wild[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < CLASSES; k++) {
            logits.at[k * samples + 2] = wild[i];
            double shown =
                kernels->softmax_cross_entropy(gradient.at, NULL, logits.at, labels, 1, 0, CLASSES, 3, samples);
            assert_true(!isfinite(shown));
            double hidden =
                kernels->softmax_cross_entropy(gradient.at, NULL, logits.at, labels, 1, 0, CLASSES, 2, samples);
            assert_true(isfinite(hidden) != 0);
            assert_true(gradient.at[k * samples + 2] == 0.0f); // beyond the last sample
            logits.at[k * samples + 2] = 0;
        }
    tensor_free(logits);
    tensor_free(gradient);
}

static void of_equal_logits_the_first_counts_and_a_nan_shows_in_the_loss(void **state) {
    (void)state;
    with_each_build_and_few(check_ties_and_nans);
}

// Gather and the optimizer --------------------------------------------------------------------------------------------

static void check_gather(const Kernels *kernels) {
    const Shape shape = {3, 5, 3};
    enum { ROWS = 40, SIZE = 45 };
    uint8_t *pixels = malloc(ROWS * SIZE); // its end is where a sanitizer watches
    assert_non_null(pixels);
    for (int i = 0; i < ROWS * SIZE; i++)
        pixels[i] = (uint8_t)(i * 37);
    const float scale[3] = {0.5f, 1, 2}, shift[3] = {-1, 3, 0.25f};
    const uint32_t indices[18] = {39, 0, 7, 7, 38, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 39, 12, 13};
    for (int indexed = 0; indexed < 2; indexed++) {
        int count = 18, samples = (count + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
        Tensor out = tensor_new((size_t)(SIZE * samples));
        kernels->gather(out.at, pixels, indexed ? indices : NULL, ROWS - 18, scale, shift, shape, count, samples);
        for (int f = 0; f < SIZE; f++)
            for (int s = 0; s < samples; s++) {
                uint32_t row = indexed ? indices[s < count ? s : 0] : (uint32_t)(ROWS - 18 + s);
                float expected =
                    s < count ? (float)pixels[row * SIZE + (uint32_t)f] * scale[f / 15] + shift[f / 15] : 0;
                assert_true(out.at[(size_t)(f * samples + s)] == expected);
            }
        tensor_free(out);

        enum { ROW_FLOATS = 64 }; // 45 elements, zeros up to a whole vector, and some more that nobody looks at
        Tensor rows = tensor_new((size_t)(count * ROW_FLOATS));
        kernels->gather_rows(rows.at, pixels, indexed ? indices : NULL, ROWS - 18, scale, shift, shape, ROW_FLOATS,
                             count);
        int padded = (SIZE + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
        for (int s = 0; s < count; s++)
            for (int f = 0; f < padded; f++) {
                uint32_t row = indexed ? indices[s] : (uint32_t)(ROWS - 18 + s);
                float expected = f < SIZE ? (float)pixels[row * SIZE + (uint32_t)f] * scale[f / 15] + shift[f / 15] : 0;
                assert_true(rows.at[s * ROW_FLOATS + f] == expected);
            }
        tensor_free(rows);
    }
    free(pixels);
}

static void gather_normalises_the_asked_samples_and_zeroes_the_rest(void **state) {
    (void)state;
    with_each_build_and_few(check_gather);
}

static void check_sgd(const Kernels *kernels) {
    enum { COUNT = 37 };
    const Sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    Tensor weights = tensor_random(COUNT, 15), velocity = tensor_zeros(COUNT);
    double *w = doubles(weights.at, COUNT), v[COUNT] = {0};
    for (uint32_t step = 0; step < 5; step++) {
        Tensor gradient = tensor_random(COUNT, 16 + step);
        kernels->sgd_step(weights.at, velocity.at, gradient.at, &sgd, COUNT);
        for (int i = 0; i < COUNT; i++) {
            v[i] = 0.9 * v[i] + (double)gradient.at[i] + 0.01 * w[i];
            w[i] -= 0.1 * v[i];
        }
        tensor_free(gradient);
    }
    check_close("weights", weights.at, w, COUNT, 1e-6);
    check_close("velocity", velocity.at, v, COUNT, 1e-6);
    free(w);
    tensor_free(weights);
    tensor_free(velocity);
}

static void check_atomic_sgd(const Kernels *kernels) {
    enum { COUNT = 1031 };
    const Sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    Tensor weights = tensor_random(COUNT, 15), velocity = tensor_random(COUNT, 16);
    Tensor alone = tensor_random(COUNT, 15), speed = tensor_random(COUNT, 16), gradient = tensor_random(COUNT, 17);
    kernels->sgd_step_atomically(weights.at, velocity.at, gradient.at, &sgd, COUNT);
    kernels->sgd_step(alone.at, speed.at, gradient.at, &sgd, COUNT);
    assert_memory_equal(weights.at, alone.at, COUNT * sizeof(float));
    assert_memory_equal(velocity.at, speed.at, COUNT * sizeof(float));
    tensor_free(weights), tensor_free(velocity), tensor_free(alone), tensor_free(speed), tensor_free(gradient);
}

static void an_atomic_sgd_step_without_company_has_the_bits_of_a_plain_one(void **state) {
    (void)state;
    with_each_build(check_atomic_sgd);
}

static void sgd_steps_as_pytorch_defines_momentum_and_weight_decay(void **state) {
    (void)state;
    with_each_build(check_sgd);
}

// The choice of a build -----------------------------------------------------------------------------------------------

static void builds_are_found_by_name_and_the_environment_can_narrow_the_choice(void **state) {
    (void)state;
    assert_non_null(kernels_named("baseline"));
    assert_null(kernels_named("sse9"));
    unsetenv("SOUNDER_ISA");
    const Kernels *best = kernels_best();
    setenv("SOUNDER_ISA", "baseline", 1);
    assert_ptr_equal(kernels_best(), kernels_named("baseline"));
    setenv("SOUNDER_ISA", "sse9", 1);
    assert_ptr_equal(kernels_best(), best);
    unsetenv("SOUNDER_ISA");
    assert_int_equal(kernels_named("baseline")->lanes, 4);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_value_are_those_of_the_library_and_keep_a_nan),
        cmocka_unit_test(relu_clips_at_zero_and_keeps_a_nan),
        cmocka_unit_test(dropout_draws_exactly_the_words_of_the_scalar_generator),
        cmocka_unit_test(dropout_zeroes_the_asked_share),
        cmocka_unit_test(cross_entropy_agrees_with_the_reference_and_finite_differences),
        cmocka_unit_test(of_equal_logits_the_first_counts_and_a_nan_shows_in_the_loss),
        cmocka_unit_test(gather_normalises_the_asked_samples_and_zeroes_the_rest),
        cmocka_unit_test(sgd_steps_as_pytorch_defines_momentum_and_weight_decay),
        cmocka_unit_test(an_atomic_sgd_step_without_company_has_the_bits_of_a_plain_one),
        cmocka_unit_test(builds_are_found_by_name_and_the_environment_can_narrow_the_choice),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
