// Steps of whole nets, taken on the way back.
#include <string.h>

#include "tests/nn/net_fixture.h"
#include "tests/tensor.h"

static void check_steps(Fixture *fixture) {
    const Sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    const uint32_t counts[] = {10, 64, 1, 33};
    size_t parameters = fixture->net.spec.parameter_count;
    static float velocity[MOST_PARAMETERS], expected_velocity[MOST_PARAMETERS], expected[MOST_PARAMETERS];
    memset(velocity, 0, sizeof velocity);
    memset(expected_velocity, 0, sizeof expected_velocity);
    memcpy(expected, fixture->parameters, sizeof expected);
    for (uint32_t step = 0; step < sizeof counts / sizeof *counts; step++) {
        const Noise noise = {.seed = 1, .step = step};
        Batch batch = batch_of(fixture, step, counts[step]);
        BatchResult result, expected_result;
        net_train_step(&fixture->net, fixture->parameters, velocity, &result, &sgd, NULL, &batch, &noise);
        net_gradient(&fixture->net, fixture->gradient, &expected_result, expected, &batch, &noise);
        fixture->net.kernels->sgd_step(expected, expected_velocity, fixture->gradient, &sgd, parameters);
        assert_true(fabs(result.loss_sum - expected_result.loss_sum) < 1e-5 * expected_result.loss_sum);
    }
    double *wanted[] = {doubles(expected, parameters), doubles(expected_velocity, parameters)};
    check_close("parameters", fixture->parameters, wanted[0], parameters, 1e-5);
    check_close("velocity", velocity, wanted[1], parameters, 1e-5);
    free(wanted[0]);
    free(wanted[1]);
    Batch empty = batch_of(fixture, 0, 0);
    BatchResult result;
    memcpy(expected, fixture->parameters, sizeof expected);
    net_train_step(&fixture->net, fixture->parameters, velocity, &result, &sgd, NULL, &empty, NULL);
    assert_memory_equal(expected, fixture->parameters, sizeof expected);
}

// Whatever lies where the velocity will, to the bit.
static void check_rest(Fixture *fixture) {
    const Sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    static float velocity[MOST_PARAMETERS], rested[MOST_PARAMETERS], moved[MOST_PARAMETERS];
    const size_t bytes = fixture->net.spec.parameter_count * sizeof(float);
    memset(velocity, 0, sizeof velocity);
    memset(rested, 0xff, sizeof rested); // NaNs
    memcpy(moved, fixture->parameters, bytes);
    for (uint32_t step = 0; step < 2; step++) {
        const Noise noise = {.seed = 1, .step = step};
        Batch batch = batch_of(fixture, step, 70); // several chunks
        BatchResult result;
        net_train_step(&fixture->net, fixture->parameters, velocity, &result, &sgd, NULL, &batch, &noise);
        fixture->net.rests = step == 0;
        fixture->net.steps--; // to and fro as before
        net_train_step(&fixture->net, moved, rested, &result, &sgd, NULL, &batch, &noise);
        assert_false(fixture->net.rests);
        assert_memory_equal(moved, fixture->parameters, bytes);
        assert_memory_equal(rested, velocity, bytes);
    }
}

static void a_velocity_at_rest_need_not_be_zeroed(void **state) {
    (void)state;
    with_each_build(all_layers, check_rest);
    with_each_build(more_layers, check_rest);
    with_each_build(wide_head, check_rest);
}

static void a_train_step_is_a_gradient_and_a_step_of_sgd(void **state) {
    (void)state;
    with_each_build(all_layers, check_steps);
    with_each_build(more_layers, check_steps);
    with_each_build(wide_head, check_steps);
    with_each_build(branches, check_steps);
    with_each_build("linear 9; relu; linear 5", check_steps);
}

// Two steps, the first from where the parameters lie or from elsewhere; to the bit.
static void check_start(Fixture *fixture, const Sgd *sgd, const float *shift, uint32_t count) {
    static float start[MOST_PARAMETERS], there[MOST_PARAMETERS], here[MOST_PARAMETERS], velocities[2][MOST_PARAMETERS];
    Net *net = &fixture->net;
    const size_t bytes = net->spec.parameter_count * sizeof(float);
    memcpy(start, fixture->parameters, bytes);
    memcpy(here, fixture->parameters, bytes);
    memset(there, 0xff, sizeof there); // NaNs
    memset(velocities, 0, sizeof velocities);
    for (uint32_t step = 0; step < 2; step++) {
        const Noise noise = {.seed = 1, .step = step};
        Batch batch = batch_of(fixture, step, count);
        BatchResult result;
        net->rests = step == 0;
        net_train_step(net, here, velocities[0], &result, sgd, shift, &batch, &noise);
        net->rests = step == 0;
        net->start = step == 0 ? start : NULL;
        net->steps--; // to and fro as before
        net_train_step(net, there, velocities[1], &result, sgd, shift, &batch, &noise);
        assert_null(net->start);
        assert_memory_equal(there, here, bytes);
        assert_memory_equal(start, fixture->parameters, bytes);
    }
}

// Many samples go in several chunks; of few, most units rest with all, and a step leaves their rows as they are.
static void check_starts(Fixture *fixture) {
    const Sgd plain = {.lr = 0.1f}, with_all = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    const uint32_t counts[] = {70, 2};
    for (int i = 0; i < 2; i++) {
        check_start(fixture, &plain, NULL, counts[i]);
        check_start(fixture, &with_all, fixture->parameters, counts[i]);
        fixture->net.still_end = fixture->net.spec.tensors[2].first; // of the first layer
        check_start(fixture, &plain, NULL, counts[i]);
        fixture->net.still_end = 0;
    }
}

static void the_first_step_may_find_the_parameters_elsewhere(void **state) {
    (void)state;
    with_each_build(all_layers, check_starts);
    with_each_build(more_layers, check_starts);
    with_each_build(wide_head, check_starts);
    with_each_build(branches, check_starts);
    with_each_build("conv 4 3; batchnorm; relu; linear 5", check_starts);
    with_each_build("linear 520; relu; linear 520; relu; linear 5", check_starts); // far weights
    frozen = "*.weight";
    with_each_build("conv 4 3; batchnorm; relu; linear 9; relu; linear 5", check_starts);
    frozen = "fc*.bias, conv1.*";
    with_each_build("conv 4 3; batchnorm; relu; linear 9; relu; linear 5", check_starts);
    frozen = NULL;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_train_step_is_a_gradient_and_a_step_of_sgd),
        cmocka_unit_test(a_velocity_at_rest_need_not_be_zeroed),
        cmocka_unit_test(the_first_step_may_find_the_parameters_elsewhere),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
