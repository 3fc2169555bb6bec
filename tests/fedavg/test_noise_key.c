// The streams of a run's noise: those of AES-256, one for each purpose and place, and none without the whole key.
#include "fedavg/rules/noise_key.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"

static const char *const HEX = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static NoiseKey key_of(const char *hex) {
    NoiseKey key;
    assert_true(noise_key_read(&key, hex));
    return key;
}

static NoiseStream begun(const NoiseKey *key, RngPurpose purpose, uint32_t a, uint32_t b, uint32_t c) {
    NoiseStream stream;
    noise_begin(&stream, key, purpose, a, b, c);
    return stream;
}

// By tests/runs/noise_streams.py, which is another AES, and FIPS 197's own example there.
static void a_stream_is_that_of_the_standard(void **state) {
    (void)state;
    const NoiseKey key = key_of(HEX);
    NoiseStream stream = begun(&key, RNG_DP_NOISE, 3, 4, 5);
    const RngBlock first = noise_block(&stream, 0), later = noise_block(&stream, 1000);
    const RngBlock known = {{0x565d9320u, 0xae3add4bu, 0x2e47b055u, 0x2177ba7fu}},
                   known_later = {{0x7a5fc43bu, 0x2d208996u, 0xb36cae57u, 0x6a818217u}};
    assert_memory_equal(&first, &known, sizeof known);
    assert_memory_equal(&later, &known_later, sizeof known);
    assert_true(fabs(noise_normal(&stream, 1) - 1.33693456770475) < 1e-12);
}

static void a_key_is_64_hexadecimal_digits(void **state) {
    (void)state;
    NoiseKey key;
    assert_false(noise_key_read(&key, ""));
    assert_false(noise_key_read(&key, HEX + 1));
    assert_false(noise_key_read(&key, "0x112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"));
}

// Numbers of a stream depend on their index alone, whatever was asked before.
static void numbers_do_not_depend_on_the_order(void **state) {
    (void)state;
    enum { COUNT = 300 };
    const NoiseKey key = key_of(HEX);
    double forward[COUNT];
    NoiseStream stream = begun(&key, RNG_DP_STEP, 1, 2, 3);
    for (uint64_t i = 0; i < COUNT; i++)
        forward[i] = noise_normal(&stream, i);
    for (uint64_t i = COUNT; i-- > 0;)
        assert_true(noise_normal(&stream, i) == forward[i]);
}

static double correlation(NoiseStream *one, NoiseStream *other, int count) {
    double product = 0;
    for (uint64_t i = 0; i < (uint64_t)count; i++)
        product += noise_normal(one, i) * noise_normal(other, i);
    return product / count;
}

// A key that differs in any one bit, another purpose and another place give other numbers.
static void whoever_lacks_one_bit_of_the_key_has_nothing(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    const NoiseKey key = key_of(HEX);
    for (uint32_t bit = 0; bit < 8 * NOISE_KEY_BYTES; bit++) {
        NoiseKey near = key;
        near.word[bit / 64] ^= 1ull << bit % 64;
        NoiseStream one = begun(&key, RNG_DP_NOISE, 1, 0, 0), other = begun(&near, RNG_DP_NOISE, 1, 0, 0);
        assert_true(fabs(correlation(&one, &other, COUNT)) < 5 / sqrt(COUNT));
    }
    const uint32_t places[][4] = {
        {RNG_DP_STEP, 1, 0, 0}, {RNG_DP_NOISE, 2, 0, 0}, {RNG_DP_NOISE, 1, 1, 0}, {RNG_DP_NOISE, 1, 0, 1}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        NoiseStream one = begun(&key, RNG_DP_NOISE, 1, 0, 0),
                    other = begun(&key, (RngPurpose)places[i][0], places[i][1], places[i][2], places[i][3]);
        assert_true(fabs(correlation(&one, &other, COUNT)) < 5 / sqrt(COUNT));
    }
}

static void numbers_are_normal(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    const NoiseKey key = key_of(HEX);
    NoiseStream stream = begun(&key, RNG_DP_TREE, 0, 0, 0);
    double sum = 0, squares = 0, fourths = 0, neighbours = 0, before = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = noise_normal(&stream, i);
        sum += x, squares += x * x, fourths += x * x * x * x, neighbours += x * before;
        before = x;
    }
    const double deviation = 1 / sqrt(COUNT);
    assert_true(fabs(sum / COUNT) < 5 * deviation && fabs(neighbours / COUNT) < 5 * deviation);
    assert_true(fabs(squares / COUNT - 1) < 5 * sqrt(2) * deviation);
    assert_true(fabs(fourths / COUNT - 3) < 5 * sqrt(96) * deviation);
}

// Draws without a key are those of the seed, as ever.
static void draws_follow_from_the_seed_unless_a_key_hides_them(void **state) {
    (void)state;
    const NoiseKey key = key_of(HEX);
    DrawStream open, hidden;
    draw_begin(&open, NULL, 7, RNG_SAMPLER, 1, 0, 0);
    draw_begin(&hidden, &key, 7, RNG_SAMPLER, 1, 0, 0);
    const RngBlock seeds = rng_block(rng_key(7, RNG_SAMPLER, 1, 0, 0), 9, 0, 0, 0), drawn = draw_block(&open, 9),
                   secret = draw_block(&hidden, 9);
    assert_memory_equal(&seeds, &drawn, sizeof seeds);
    assert_memory_not_equal(&seeds, &secret, sizeof seeds);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_that_of_the_standard),
        cmocka_unit_test(a_key_is_64_hexadecimal_digits),
        cmocka_unit_test(numbers_do_not_depend_on_the_order),
        cmocka_unit_test(whoever_lacks_one_bit_of_the_key_has_nothing),
        cmocka_unit_test(numbers_are_normal),
        cmocka_unit_test(draws_follow_from_the_seed_unless_a_key_hides_them),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
