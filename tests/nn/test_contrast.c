// The contrastive term of a step: its gradient against differences of the term itself.
#include "nn/contrast.h"

#include <math.h>

#include "tests/nn/net_fixture.h"

enum { COUNT = 37, MOST_FEATURES = 400 * 14 * 11 };

static float near[COUNT * MOST_FEATURES], far[COUNT * MOST_FEATURES], own[COUNT * MOST_FEATURES];
static const double mu = 3, tau = 0.4;
static int zeros_of = -1; // whose representation is zeros: 0 near, 1 far

static double cosine(const float *a, const float *b, size_t size) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < size; i++)
        ab += (double)a[i] * (double)b[i], aa += (double)a[i] * (double)a[i], bb += (double)b[i] * (double)b[i];
    return aa * bb > 0 ? ab / sqrt(aa * bb) : 0;
}

// As its definition says.
static double term_of(Fixture *fixture, const float *parameters, const Batch *batch) {
    const size_t size = contrast_features(&fixture->net.spec);
    double sum = 0;
    net_represent(&fixture->net, own, parameters, batch, NULL);
    for (uint32_t s = 0; s < batch->count; s++) {
        const double to_near = exp(cosine(own + s * size, near + s * size, size) / tau);
        sum -= log(to_near / (to_near + exp(cosine(own + s * size, far + s * size, size) / tau)));
    }
    return mu * sum / batch->count;
}

static void check_slope(Fixture *fixture) {
    static float plain[MOST_PARAMETERS], moved[MOST_PARAMETERS], other[MOST_PARAMETERS];
    const Batch batch = batch_of(fixture, 0, COUNT);
    const Contrast contrast = contrast_of(near, far, mu, tau);
    const size_t count = fixture->net.spec.parameter_count;
    BatchResult result;
    assert_true(contrast_features(&fixture->net.spec) <= MOST_FEATURES);
    for (int which = 0; which < 2; which++) {
        spec_initialise(other, &fixture->net.spec, 8 + (uint64_t)which);
        net_represent(&fixture->net, which ? far : near, other, &batch, NULL);
        if (which == zeros_of) memset(which ? far : near, 0, sizeof near);
    }
    net_gradient(&fixture->net, plain, &result, fixture->parameters, &batch, NULL);
    const double loss = result.loss_sum;
    fixture->net.term = &contrast.term;
    net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, NULL);
    fixture->net.term = NULL;
    assert_true(result.loss_sum == loss); // which does not have the term
    double square = 0, terms[2];
    for (size_t p = 0; p < count; p++) {
        fixture->gradient[p] -= plain[p];
        square += (double)fixture->gradient[p] * (double)fixture->gradient[p];
    }
    assert_true(square > 0);
    for (int side = 0; side < 2; side++) {
        const float step = (float)((side ? 2e-3 : -2e-3) / sqrt(square));
        for (size_t p = 0; p < count; p++)
            moved[p] = fixture->parameters[p] + step * fixture->gradient[p];
        terms[side] = term_of(fixture, moved, &batch);
    }
    const double slope = (terms[1] - terms[0]) * sqrt(square) / 4e-3;
    if (!(fabs(slope / square - 1) <= 0.01)) fail_msg("the term changes by %g, its gradient says %g", slope, square);
}

static void the_term_changes_along_its_gradient_as_fast_as_the_gradient_says(void **state) {
    (void)state;
    with_each_build("linear 40; relu; linear 5", check_slope);
    with_each_build("conv 6 3; tanh; pool 2; linear 5", check_slope); // the last layer is the head of a body
    with_each_build("conv 20 3 pad 1; relu as a; conv 20 3 pad 1; add a; relu; linear 5", check_slope);
    with_each_build("conv 400 3 pad 1; tanh; linear 5", check_slope); // in several parts
    with_each_build(all_layers, check_slope);
    with_each_build(wide_head, check_slope);
}

// As torch's cosine_similarity of a vector of zeros, which is 0.
static void without_a_direction_of_one_side_the_other_keeps_its_gradient(void **state) {
    (void)state;
    for (zeros_of = 0; zeros_of < 2; zeros_of++)
        with_each_build("linear 40; relu; linear 5", check_slope);
    zeros_of = -1;
}

static void two_sides_without_a_direction_change_nothing(void **state) {
    (void)state;
    static Fixture fixture;
    static float plain[MOST_PARAMETERS];
    Error err;
    Spec spec;
    BatchResult result;
    check_ok(spec_parse(&spec, "linear 9; relu; linear 5", shape, CLASSES, &err));
    fixture = (Fixture){.scale = {0.01f, 0.008f}};
    check_ok(net_init(&fixture.net, &spec, kernels_best(), &err));
    spec_initialise(fixture.parameters, &spec, 3);
    const Batch batch = batch_of(&fixture, 0, COUNT);
    const Contrast contrast = contrast_of(near, far, mu, tau);
    memset(near, 0, sizeof near), memset(far, 0, sizeof far);
    net_gradient(&fixture.net, plain, &result, fixture.parameters, &batch, NULL);
    fixture.net.term = &contrast.term;
    net_gradient(&fixture.net, fixture.gradient, &result, fixture.parameters, &batch, NULL);
    assert_memory_equal(plain, fixture.gradient, spec.parameter_count * sizeof *plain);
    net_free(&fixture.net);
}

static void nets_without_a_representation_that_learns_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *frozen;
        bool fits;
    } cases[] = {{"linear 9; relu; linear 5", NULL, true},
                 {"linear 5", NULL, false},
                 {"linear 9; linear 5; relu", NULL, false},
                 {"pool 2; linear 5", NULL, false},
                 {"linear 9; relu; linear 5", "fc1*", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err;
        Spec spec;
        check_ok(spec_parse(&spec, cases[i].text, shape, CLASSES, &err));
        if (cases[i].frozen) check_ok(spec_freeze(&spec, cases[i].frozen, &err));
        assert_int_equal(contrast_check(&spec, &err), cases[i].fits ? STATUS_OK : STATUS_USAGE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_term_changes_along_its_gradient_as_fast_as_the_gradient_says),
        cmocka_unit_test(without_a_direction_of_one_side_the_other_keeps_its_gradient),
        cmocka_unit_test(two_sides_without_a_direction_change_nothing),
        cmocka_unit_test(nets_without_a_representation_that_learns_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
