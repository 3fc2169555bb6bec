// Secure aggregation: the sum comes out to the bit whoever drops out, and no single update can be seen.
#include "fedavg/rules/send/masks.h"

#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/sum/aggregate.h"
#include "tests/check.h"

enum { PARAMETERS = 501, CLIENTS = 6, FIRST = 20, END = 31 };

static const uint32_t COHORT[CLIENTS] = {70, 3, 12, 5, 41, 9};

static const NoiseKey KEY = {{77, 1, 2, 3}};

static Masking masking_of(uint32_t round) {
    return (Masking){.key = &KEY,
                     .round = round,
                     .clients = COHORT,
                     .count = CLIENTS,
                     .parameters = PARAMETERS,
                     .still_first = FIRST,
                     .still_end = END};
}

// What client k has to say: large enough that a sum of fixed point is far from zero.
static void fill(int64_t *values, uint32_t k) {
    for (uint32_t i = 0; i < PARAMETERS; i++)
        values[i] =
            i >= FIRST && i < END ? 0 : (int64_t)(rng_normal(rng_key(1, RNG_INIT, k, 0, 0), i) * AGGREGATE_UNIT);
}

static void masked(int64_t *values, const Masking *masking, uint32_t k, uint32_t which) {
    fill(values, k);
    masks_put(values, masking, COHORT[k], which);
}

static void the_sum_of_those_that_are_left_is_plain_to_the_bit(void **state) {
    (void)state;
    static const uint32_t dead[][CLIENTS] = {{0}, {0, 1, 0, 0, 1, 0}, {1, 1, 1, 1, 1, 0}, {1, 0, 0, 0, 0, 0}};
    for (size_t trial = 0; trial < sizeof dead / sizeof *dead; trial++)
        for (uint32_t which = 0; which < 2; which++) {
            const Masking masking = masking_of((uint32_t)trial);
            static int64_t values[PARAMETERS], total[PARAMETERS], plain[PARAMETERS];
            uint32_t alive[CLIENTS], count = 0;
            memset(total, 0, sizeof total), memset(plain, 0, sizeof plain);
            for (uint32_t k = 0; k < CLIENTS; k++) {
                if (dead[trial][k]) continue;
                alive[count++] = COHORT[k];
                masked(values, &masking, k, which);
                for (int i = 0; i < PARAMETERS; i++)
                    total[i] = (int64_t)((uint64_t)total[i] + (uint64_t)values[i]);
                fill(values, k);
                for (int i = 0; i < PARAMETERS; i++)
                    plain[i] += values[i];
            }
            masks_take(total, &masking, alive, count, which);
            assert_memory_equal(total, plain, sizeof total);
        }
}

// Of a uniform number every bit is set half of the time, whatever it hides.
static void what_a_client_hands_in_says_nothing(void **state) {
    (void)state;
    const Masking masking = masking_of(1), next = masking_of(2);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        int64_t plain[PARAMETERS], sent[PARAMETERS], later[PARAMETERS], other[PARAMETERS];
        fill(plain, k);
        masked(sent, &masking, k, 0), masked(later, &next, k, 0), masked(other, &masking, k, 1);
        int bits[64] = {0};
        for (int i = 0; i < PARAMETERS; i++) {
            if (i >= FIRST && i < END) {
                assert_int_equal(sent[i], 0); // is not sent
                continue;
            }
            assert_true(sent[i] != plain[i] && sent[i] != later[i] && sent[i] != other[i]);
            for (int b = 0; b < 64; b++)
                bits[b] += (int)((uint64_t)sent[i] >> b & 1);
        }
        for (int b = 0; b < 64; b++)
            assert_true(bits[b] > 180 && bits[b] < 310); // of 490, within some six deviations
    }
}

static void too_few_survivors_lose_the_round(void **state) {
    (void)state;
    const Masking masking = masking_of(1);
    assert_true(masks_suffice(&masking, 4, 2.0 / 3));
    assert_false(masks_suffice(&masking, 3, 2.0 / 3));
    assert_true(masks_suffice(&masking, 3, 0.5));
    assert_true(masks_suffice(&masking, 6, 1));
    assert_false(masks_suffice(&masking, 5, 1));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_of_those_that_are_left_is_plain_to_the_bit),
        cmocka_unit_test(what_a_client_hands_in_says_nothing),
        cmocka_unit_test(too_few_survivors_lose_the_round),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
