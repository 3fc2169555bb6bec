// Float samples, the squared loss and binary cross-entropy: exact small cases, whole nets against finite differences.
#include "nn/regression.h"

#include "nn/label_rows.h"

#include "nn/net.h"
#include "nn/spec.h"
#include "tests/tensor.h"

enum { SAMPLES = 21, FEATURES = 18, MOST_PARAMETERS = 4096 };

static void samples_go_into_lanes_and_rows_and_the_rest_is_zero(void **state) {
    (void)state;
    const float values[6] = {1, 2, 3, 4, 5, 6}; // three samples of two
    uint8_t bytes[1 + sizeof values];           // at an odd address, as in an archive
    memcpy(bytes + 1, values, sizeof values);
    const uint32_t indices[2] = {2, 0};
    Tensor lanes = tensor_new(2 * 4), rows = tensor_new(2 * 32);
    values_gather(lanes.at, bytes + 1, indices, 0, 2, 2, 4);
    const float expected[8] = {5, 1, 0, 0, 6, 2, 0, 0};
    assert_memory_equal(lanes.at, expected, sizeof expected);
    values_gather_rows(rows.at, bytes + 1, NULL, 1, 2, 32, 2);
    for (size_t i = 0; i < 16; i++) {
        assert_true(rows.at[i] == (i < 2 ? values[2 + i] : 0));
        assert_true(rows.at[32 + i] == (i < 2 ? values[4 + i] : 0));
    }
    tensor_free(lanes);
    tensor_free(rows);
}

static void the_loss_is_the_square_of_the_distance_and_its_gradient_that_of_half(void **state) {
    (void)state;
    const float outputs[3] = {1, -2, 4}, targets[3] = {1.25f, 1, 0};
    Tensor gradient = tensor_new(4);
    uint32_t hits;
    assert_true(squared_loss(gradient.at, &hits, outputs, targets, 0.5f, 3, 4) == 0.0625 + 9 + 16);
    const float expected[4] = {-0.125f, -1.5f, 2, 0};
    assert_memory_equal(gradient.at, expected, sizeof expected);
    assert_int_equal(hits, 1);
    assert_true(squared_loss(NULL, NULL, outputs, targets, 1, 1, 4) == 0.0625);
    tensor_free(gradient);
}

static void each_label_has_a_binary_cross_entropy(void **state) {
    (void)state;
    const float outputs[6] = {0, 3, 7, -2, 1, 7}, targets[6] = {1, 1, 0, 0, 0, 0}; // (2 labels, 3 lanes), 2 samples
    Tensor gradient = tensor_new(6);
    uint32_t hits;
    const double loss = label_rows_loss(gradient.at, &hits, outputs, targets, 0.5f, 2, 2, 3);
    assert_true(fabs(loss - (log(2) + log1p(exp(-2)) + log1p(exp(-3)) + log1p(exp(1))) / 2) < 1e-12);
    const double expected[6] = {-0.125, -0.25 / (1 + exp(3)), 0, 0.25 / (1 + exp(2)), 0.25 / (1 + exp(-1)), 0};
    check_close("gradient", gradient.at, expected, 6, 1e-7);
    assert_int_equal(hits, 0); // an output of 0 says no; the second sample's second label is wrong
    Answer answers[2];
    label_rows_answers(answers, outputs + 1, targets + 1, 2, 3);
    assert_true(answers[0].label == 1 && answers[0].predicted == 1 && answers[1].label == 0 &&
                answers[1].predicted == 1);
    tensor_free(gradient);
}

// A net on random float samples with random targets.
typedef struct Fixture {
    Net net;
    float parameters[MOST_PARAMETERS], gradient[MOST_PARAMETERS], values[SAMPLES * FEATURES], targets[SAMPLES];
    Batch batch;
} Fixture;

static void open_net(Fixture *fixture, const char *text, const Kernels *kernels) {
    Spec spec;
    Error err;
    check_ok(spec_parse(&spec, text, (Shape){2, 3, 3}, 1, &err));
    spec.float_input = spec.squared_loss = true;
    assert_true(spec.parameter_count <= MOST_PARAMETERS);
    check_ok(net_init(&fixture->net, &spec, kernels, &err));
    spec_initialise(fixture->parameters, &spec, 3);
    RngKey key = rng_key(5, RNG_SYNTHETIC, 0, 0, 0);
    for (uint32_t i = 0; i < SAMPLES * FEATURES; i++)
        fixture->values[i] = (float)rng_normal(key, i);
    for (uint32_t s = 0; s < SAMPLES; s++)
        fixture->targets[s] = (float)rng_normal(key, 100000 + s);
    fixture->batch = (Batch){.pixels = (const uint8_t *)fixture->values,
                             .labels = (const uint16_t *)fixture->targets,
                             .first = 1,
                             .count = SAMPLES - 1};
}

// Without kinks, at which a difference quotient is no derivative.
static const char *const nets[] = {"linear 1", "linear 7; linear 1", "conv 3 2; linear 1"};

static void gradients_agree_with_finite_differences(void **state) {
    (void)state;
    static Fixture fixture;
    const float step = 1e-2f;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        open_net(&fixture, nets[i], kernels_best());
        BatchResult result;
        net_gradient(&fixture.net, fixture.gradient, &result, fixture.parameters, &fixture.batch, NULL);
        for (size_t p = 0; p < fixture.net.spec.parameter_count; p++) {
            double loss[2];
            const float held = fixture.parameters[p];
            for (int side = 0; side < 2; side++) {
                fixture.parameters[p] = held + (side ? step : -step);
                net_evaluate(&fixture.net, &result, fixture.parameters, &fixture.batch);
                loss[side] = result.loss_sum / fixture.batch.count;
            }
            fixture.parameters[p] = held;
            double derivative = (loss[1] - loss[0]) / (4 * (double)step); // of half the loss
            if (fabs(derivative - (double)fixture.gradient[p]) > 5e-3 * (1 + fabs(derivative)))
                fail_msg("%s: parameter %zu has derivative %g, and its gradient is %g", nets[i], p, derivative,
                         (double)fixture.gradient[p]);
        }
        net_free(&fixture.net);
    }
}

static void evaluation_and_training_see_the_same_loss(void **state) {
    (void)state;
    static Fixture fixture;
    open_net(&fixture, nets[1], kernels_best());
    BatchResult trained, evaluated;
    net_gradient(&fixture.net, fixture.gradient, &trained, fixture.parameters, &fixture.batch, NULL);
    net_evaluate(&fixture.net, &evaluated, fixture.parameters, &fixture.batch);
    assert_true(trained.loss_sum == evaluated.loss_sum && trained.loss_sum > 0);
    net_free(&fixture.net);
}

// The labels of a net of classes by binary cross-entropy, and the same as rows of zeros and ones.
static void classes_are_rows_of_which_one_label_applies(void **state) {
    (void)state;
    enum { CLASSES = 3 };
    static Fixture fixture;
    static float gradients[2][MOST_PARAMETERS], rows[SAMPLES * CLASSES];
    uint16_t labels[SAMPLES];
    BatchResult results[2];
    size_t count = 0;
    for (int s = 0; s < SAMPLES; s++)
        rows[s * CLASSES + (labels[s] = (uint16_t)(s * 7 % CLASSES))] = 1;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        Spec spec;
        Error err;
        open_net(&fixture, "linear 1", kernels_best()); // for its samples
        net_free(&fixture.net);
        check_ok(spec_parse(&spec, "conv 4 2; tanh; linear 3", (Shape){2, 3, 3}, CLASSES, &err));
        spec.float_input = true;
        spec.label_rows = by_rows;
        spec.one_vs_rest = !by_rows;
        check_ok(net_init(&fixture.net, &spec, kernels_best(), &err));
        spec_initialise(fixture.parameters, &spec, 3);
        if (by_rows)
            fixture.batch.labels = (const uint16_t *)(const void *)rows;
        else
            fixture.batch.labels = labels;
        net_gradient(&fixture.net, gradients[by_rows], &results[by_rows], fixture.parameters, &fixture.batch, NULL);
        count = spec.parameter_count;
        net_free(&fixture.net);
    }
    assert_true(results[0].loss_sum == results[1].loss_sum && results[0].loss_sum > 0);
    assert_memory_equal(gradients[0], gradients[1], count * sizeof(float));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_go_into_lanes_and_rows_and_the_rest_is_zero),
        cmocka_unit_test(the_loss_is_the_square_of_the_distance_and_its_gradient_that_of_half),
        cmocka_unit_test(each_label_has_a_binary_cross_entropy),
        cmocka_unit_test(gradients_agree_with_finite_differences),
        cmocka_unit_test(evaluation_and_training_see_the_same_loss),
        cmocka_unit_test(classes_are_rows_of_which_one_label_applies),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
