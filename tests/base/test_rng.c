// Philox: the published test vectors, and the properties that training relies on.
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"

// Known answers of Random123's kat_vectors for philox4x32 with 10 rounds.
static void philox_gives_the_published_words(void **state) {
    (void)state;
    RngBlock zeros = rng_block((RngKey){{0, 0}}, 0, 0, 0, 0);
    const uint32_t expected_zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(zeros.word, expected_zeros, sizeof expected_zeros);

    RngBlock ones = rng_block((RngKey){{0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff);
    const uint32_t expected_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(ones.word, expected_ones, sizeof expected_ones);

    RngBlock pi = rng_block((RngKey){{0xa4093822, 0x299f31d0}}, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344);
    const uint32_t expected_pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(pi.word, expected_pi, sizeof expected_pi);
}

static void a_shuffle_is_a_permutation_and_depends_on_the_key_alone(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    uint32_t first[COUNT], again[COUNT], other[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        first[i] = again[i] = other[i] = i;
    rng_shuffle(first, COUNT, rng_key(1, RNG_SHUFFLE, 2, 3, 4));
    rng_shuffle(again, COUNT, rng_key(1, RNG_SHUFFLE, 2, 3, 4));
    rng_shuffle(other, COUNT, rng_key(1, RNG_SHUFFLE, 2, 3, 5));
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    char seen[COUNT] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_in_range(first[i], 0, COUNT - 1);
        assert_int_equal(seen[first[i]]++, 0);
    }
}

static void floats_lie_in_the_half_open_unit_interval(void **state) {
    (void)state;
    assert_true(rng_float(0) == 0.0f);
    assert_true(rng_float(UINT32_MAX) < 1.0f);
    double sum = 0;
    for (uint32_t i = 0; i < 10000; i++)
        sum += (double)rng_float(rng_block((RngKey){{7, 7}}, i, 0, 0, 0).word[0]);
    assert_true(fabs(sum / 10000 - 0.5) < 0.01);
}

static void gamma_and_normal_numbers_have_their_moments(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    const double shapes[] = {0.1, 0.5, 1.0, 7.5};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < COUNT; i++)
            sum += rng_gamma(rng_key(3, RNG_PARTITION, 0, (uint32_t)k, 0), i, shapes[k]);
        assert_true(fabs(sum / COUNT - shapes[k]) < 5 * sqrt(shapes[k] / COUNT));
    }
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        double x = rng_normal(rng_key(4, RNG_SYNTHETIC, 0, 0, 0), i);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / COUNT) < 5 / sqrt(COUNT));
    assert_true(fabs(squares / COUNT - 1) < 5 * sqrt(2.0 / COUNT));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_words),
        cmocka_unit_test(a_shuffle_is_a_permutation_and_depends_on_the_key_alone),
        cmocka_unit_test(floats_lie_in_the_half_open_unit_interval),
        cmocka_unit_test(gamma_and_normal_numbers_have_their_moments),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
