// The synthetic data set: its options, that a sample depends on (seed, split, index) alone, and that it can be learned.
#include "datasets/synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

static void options_are_read_with_their_defaults(void **state) {
    (void)state;
    const struct {
        const char *data;
        Shape shape;
        uint32_t train, test;
    } cases[] = {
        {"synthetic", {1, 28, 28}, 60000, 10000},
        {"synthetic:3x32x16", {3, 32, 16}, 60000, 10000},
        {"synthetic:1x8x8:100", {1, 8, 8}, 100, 10000},
        {"synthetic:16x1x1:1:2", {16, 1, 1}, 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Shape shape;
        uint32_t counts[DATASET_SPLITS];
        Error err;
        check_ok(synthetic_parse(&shape, counts, cases[i].data, &err));
        assert_memory_equal(&shape, &cases[i].shape, sizeof shape);
        assert_int_equal(counts[DATASET_TRAIN], cases[i].train);
        assert_int_equal(counts[DATASET_TEST], cases[i].test);
    }
}

static void options_that_are_wrong_are_refused_with_an_example(void **state) {
    (void)state;
    const char *const wrong[] = {
        "synthetic:",
        "synthetic:28x28",
        "synthetic:0x28x28",
        "synthetic:17x28x28",
        "synthetic:1x28x5000",
        "synthetic:1x28x28:",
        "synthetic:1x28x28:-5",
        "synthetic:1x28x28:0",
        "synthetic:1x28x28:1:2:3",
        "synthetic:1x28x28:1:2 ",
        "synthetic: 1x2x3",
        "synthetic:1x28x28:x",
        "synthetic:1X28X28",
        "synthetic:1x28x28:99999999999999999999",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Shape shape;
        uint32_t counts[DATASET_SPLITS];
        Error err = {.message = ""};
        assert_int_equal(synthetic_parse(&shape, counts, wrong[i], &err), STATUS_USAGE);
        assert_non_null(strstr(err.message, "synthetic:1x28x28:60000:10000"));
    }
}

static void only_the_word_itself_names_it(void **state) {
    (void)state;
    assert_true(synthetic_is_named("synthetic"));
    assert_true(synthetic_is_named("synthetic:1x2x3"));
    assert_false(synthetic_is_named("synthetics"));
    assert_false(synthetic_is_named("./synthetic"));
    assert_false(synthetic_is_named("mnist"));
}

static void a_sample_depends_on_seed_split_and_index_alone(void **state) {
    (void)state;
    enum { SIZE = 2 * 6 * 5 };
    const Shape shape = {2, 6, 5};
    Synthetic synthetic, again, other_seed;
    Error err;
    uint8_t first[SIZE], second[SIZE];
    check_ok(synthetic_init(&synthetic, shape, 1, &err));
    check_ok(synthetic_init(&again, shape, 1, &err));
    check_ok(synthetic_init(&other_seed, shape, 2, &err));
    uint8_t label = synthetic_sample(first, &synthetic, DATASET_TRAIN, 7);
    synthetic_sample(second, &again, DATASET_TRAIN, 8);
    assert_memory_not_equal(first, second, SIZE);
    assert_int_equal(synthetic_sample(second, &again, DATASET_TRAIN, 7), label);
    assert_memory_equal(first, second, SIZE);
    synthetic_sample(second, &synthetic, DATASET_TEST, 7);
    assert_memory_not_equal(first, second, SIZE);
    synthetic_sample(second, &other_seed, DATASET_TRAIN, 7);
    assert_memory_not_equal(first, second, SIZE);
    synthetic_free(&synthetic);
    synthetic_free(&again);
    synthetic_free(&other_seed);
}

// Integer arithmetic throughout: the same on every machine and for every compiler.
static void its_bytes_are_as_they_always_were(void **state) {
    (void)state;
    const uint8_t expected[2][9] = {{179, 172, 145, 157, 27, 0, 0, 248, 1}, {61, 167, 215, 188, 163, 159, 118, 107, 4}};
    Synthetic synthetic;
    Error err;
    check_ok(synthetic_init(&synthetic, (Shape){1, 2, 4}, 1, &err));
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t sample[9];
        sample[8] = synthetic_sample(sample, &synthetic, DATASET_TRAIN, i);
        assert_memory_equal(sample, expected[i], sizeof sample);
    }
    synthetic_free(&synthetic);
}

// Classifies test samples by the nearest mean of the training samples of a class.
static void it_can_be_learned_but_not_at_once(void **state) {
    (void)state;
    enum { SIZE = 28 * 28, TRAIN = 4000, TEST = 1000 };
    static double means[SYNTHETIC_CLASSES][SIZE];
    uint8_t pixels[SIZE];
    uint32_t counts[SYNTHETIC_CLASSES] = {0}, hits = 0;
    Synthetic synthetic;
    Error err;
    check_ok(synthetic_init(&synthetic, (Shape){1, 28, 28}, 1, &err));
    for (uint32_t i = 0; i < TRAIN; i++) {
        uint8_t label = synthetic_sample(pixels, &synthetic, DATASET_TRAIN, i);
        counts[label]++;
        for (int p = 0; p < SIZE; p++)
            means[label][p] += pixels[p];
    }
    for (int guess = 0; guess < SYNTHETIC_CLASSES; guess++)
        assert_in_range(counts[guess], TRAIN / 10 - 100, TRAIN / 10 + 100);
    for (uint32_t i = 0; i < TEST; i++) {
        uint8_t label = synthetic_sample(pixels, &synthetic, DATASET_TEST, i), nearest = 0;
        double least = INFINITY;
        for (uint8_t guess = 0; guess < SYNTHETIC_CLASSES; guess++) {
            double distance = 0;
            for (int p = 0; p < SIZE; p++)
                distance += pow(pixels[p] - means[guess][p] / counts[guess], 2);
            if (distance < least) {
                least = distance;
                nearest = guess;
            }
        }
        hits += nearest == label;
    }
    print_message("nearest mean: %u of %d\n", hits, TEST);
    assert_in_range(hits, TEST * 4 / 10, TEST * 9 / 10);
    synthetic_free(&synthetic);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read_with_their_defaults),
        cmocka_unit_test(options_that_are_wrong_are_refused_with_an_example),
        cmocka_unit_test(only_the_word_itself_names_it),
        cmocka_unit_test(a_sample_depends_on_seed_split_and_index_alone),
        cmocka_unit_test(its_bytes_are_as_they_always_were),
        cmocka_unit_test(it_can_be_learned_but_not_at_once),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
