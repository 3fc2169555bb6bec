// How clients see their samples: when what they mean changes, what labels then stand for, whose noise is where.
#include "fedavg/rules/world/view_rules.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/check.h"

enum { CLIENTS = 9, CLASSES = 12, SIDE = 30, SIZE = SIDE * SIDE };

static const Shape IMAGE = {1, SIDE, SIDE};

static Chosen drift(const char *text) {
    Chosen drift = {0};
    Error err = {0};
    if (view_parse_drift(&drift, text, &err) != STATUS_OK) fail_msg("%s: %s", text, err.message);
    return drift;
}

static Chosen noise(const char *text) {
    Chosen noise = {0};
    Error err = {0};
    if (view_parse_noise(&noise, text, &err) != STATUS_OK) fail_msg("%s: %s", text, err.message);
    return noise;
}

static void a_sudden_drift_is_there_from_its_round_on_and_again_every_period(void **state) {
    (void)state;
    const Chosen once = drift("labels round=5"), often = drift("pixels round=5 period=3");
    const uint32_t expected[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3};
    for (uint32_t round = 1; round <= 11; round++) {
        assert_int_equal(view_concept(&once, 1, round, 0), round >= 5);
        assert_int_equal(view_concept(&often, 1, round, round % CLIENTS), expected[round - 1]);
        assert_int_equal(view_concept(&often, 1, round, VIEW_TEST_SET), expected[round - 1]);
        assert_int_equal(view_concept(&(Chosen){0}, 1, round, 0), 0);
    }
}

static void clients_drift_gradually_each_once_and_within_the_period(void **state) {
    (void)state;
    const Chosen gradual = drift("labels round=5 period=10 change=gradual");
    uint32_t switches[20] = {0};
    for (uint32_t client = 0; client < 1000; client++) {
        assert_int_equal(view_concept(&gradual, 7, 4, client), 0);
        assert_int_equal(view_concept(&gradual, 7, 14, client), 1);
        for (uint32_t round = 5; round <= 14; round++)
            switches[round] += view_concept(&gradual, 7, round, client) - view_concept(&gradual, 7, round - 1, client);
    }
    for (uint32_t round = 5; round <= 14; round++)
        assert_in_range(switches[round], 50, 150); // a tenth of them each
    assert_int_equal(view_concept(&gradual, 7, 5, VIEW_TEST_SET), 1);
}

static void a_recurrent_drift_goes_there_and_back(void **state) {
    (void)state;
    const Chosen recurrent = drift("pixels round=2 period=2 change=recurrent");
    const uint32_t expected[] = {0, 1, 1, 0, 0, 1, 1, 0};
    for (uint32_t round = 1; round <= 8; round++)
        assert_int_equal(view_concept(&recurrent, 1, round, 3), expected[round - 1]);
}

static void clients_hold_what_the_next_one_held(void **state) {
    (void)state;
    const ViewPlan plan = {.drift = drift("classes round=3 period=1")}, other = {.drift = drift("labels round=1")};
    for (uint32_t client = 0; client < CLIENTS; client++) {
        assert_int_equal(view_holding(&plan, 1, 2, client, CLIENTS), client);
        assert_int_equal(view_holding(&plan, 1, 3, client, CLIENTS), (client + 1) % CLIENTS);
        assert_int_equal(view_holding(&plan, 1, 12, client, CLIENTS), (client + 10) % CLIENTS);
        assert_int_equal(view_holding(&other, 1, 2, client, CLIENTS), client);
    }
}

static void labels_stand_for_each_other_in_another_order_in_every_concept(void **state) {
    (void)state;
    uint16_t labels[3][CLASSES];
    uint32_t order[CLASSES];
    for (uint32_t concept = 0; concept < 3; concept ++) {
        unsigned seen = 0;
        view_labels(labels[concept], order, CLASSES, 1, concept);
        for (int label = 0; label < CLASSES; label++)
            seen |= 1u << labels[concept][label];
        assert_int_equal(seen, (1u << CLASSES) - 1);
    }
    for (int label = 0; label < CLASSES; label++)
        assert_int_equal(labels[0][label], label);
    assert_memory_not_equal(labels[1], labels[0], sizeof labels[0]);
    assert_memory_not_equal(labels[2], labels[1], sizeof labels[0]);
}

static void noise_grows_with_the_clients_number_and_is_the_same_each_time(void **state) {
    (void)state;
    const Chosen gaussian = noise("gaussian 0.5");
    const float scale = 2.0f / 255;
    for (uint32_t client = 0; client < CLIENTS; client++) {
        float once[SIZE] = {0}, again[SIZE] = {0};
        double squares = 0;
        view_add_noise(once, IMAGE, &scale, &gaussian, 3, client, CLIENTS, 17);
        view_add_noise(again, IMAGE, &scale, &gaussian, 3, client, CLIENTS, 17);
        assert_memory_equal(once, again, sizeof once);
        for (int i = 0; i < SIZE; i++)
            squares += (double)once[i] * (double)once[i];
        const double expected = 2 * 0.5 * client / (CLIENTS - 1);
        assert_true(fabs(sqrt(squares / SIZE) - expected) <= 0.12 * expected);
    }
}

static void every_client_has_a_block_of_its_own(void **state) {
    (void)state;
    const Chosen block = noise("block 1");
    int owners[SIZE] = {0};
    for (uint32_t client = 0; client < CLIENTS; client++) {
        float inputs[SIZE] = {0};
        view_add_noise(inputs, IMAGE, NULL, &block, 3, client, CLIENTS, 0);
        for (int i = 0; i < SIZE; i++)
            owners[i] += inputs[i] != 0;
    }
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(owners[i], 1); // nine blocks of 10x10
}

static void what_cannot_be_seen_so_is_refused(void **state) {
    (void)state;
    Chosen chosen;
    Error err;
    assert_int_equal(view_parse_drift(&chosen, "labels change=gradual", &err), STATUS_USAGE);
    assert_string_equal(err.message, "a drift that is gradual needs a period, in rounds, such as period=10");
    assert_int_equal(view_parse_drift(&chosen, "lables", &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "did you mean labels?"));
    const ViewPlan blocks = {.noise = noise("block 1")};
    assert_int_equal(view_check(&blocks, (Shape){1, 4, 4}, 16, &err), STATUS_OK);
    assert_int_equal(view_check(&blocks, (Shape){1, 4, 4}, 17, &err), STATUS_USAGE);
    const ViewPlan pixels = {.drift = drift("pixels step=4")};
    assert_int_equal(view_check(&pixels, (Shape){1, 5, 5}, 1, &err), STATUS_OK);
    assert_int_equal(view_check(&pixels, (Shape){1, 1, 80}, 1, &err), STATUS_USAGE);
    assert_int_equal(noise("gaussian sigma=0").row, VIEW_NOISE_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sudden_drift_is_there_from_its_round_on_and_again_every_period),
        cmocka_unit_test(clients_drift_gradually_each_once_and_within_the_period),
        cmocka_unit_test(a_recurrent_drift_goes_there_and_back),
        cmocka_unit_test(clients_hold_what_the_next_one_held),
        cmocka_unit_test(labels_stand_for_each_other_in_another_order_in_every_concept),
        cmocka_unit_test(noise_grows_with_the_clients_number_and_is_the_same_each_time),
        cmocka_unit_test(every_client_has_a_block_of_its_own),
        cmocka_unit_test(what_cannot_be_seen_so_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
