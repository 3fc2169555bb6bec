// The distributed sampler: PyTorch's lists without shuffle, its definition with it, and the contiguous split.
#include "datasets/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "distributed_sampler_lists.h"
#include "tests/check.h"

enum { TEXT_BYTES = 1024 };

// Room that is exact, so that a sanitizer sees a write beyond it.
static uint32_t *room(size_t count) {
    uint32_t *items = malloc(count * sizeof *items + !count);
    assert_non_null(items);
    return items;
}

// The indices of this rank and epoch, malloc'ed, and their number.
static uint32_t *draw(uint32_t *count, const DistributedSampler *sampler, uint32_t epoch) {
    Error err;
    check_ok(distributed_sampler_check(sampler, &err));
    *count = distributed_sampler_count(sampler);
    uint32_t *indices = room(*count), *order = room(sampler->samples);
    distributed_sampler_draw(indices, order, sampler, epoch);
    free(order);
    return indices;
}

static void without_shuffle_every_rank_takes_what_pytorch_deals_it(void **state) {
    (void)state;
    for (size_t row = 0; row < sizeof pytorch_lists / sizeof *pytorch_lists; row++) {
        const struct PytorchLists *lists = &pytorch_lists[row];
        char text[TEXT_BYTES] = "";
        size_t used = 0;
        DistributedSampler sampler = {.samples = lists->samples, .ranks = lists->ranks, .drop_last = lists->drop_last};
        for (sampler.rank = 0; sampler.rank < lists->ranks; sampler.rank++) {
            uint32_t count;
            uint32_t *indices = draw(&count, &sampler, 3);
            if (sampler.rank > 0) used += (size_t)snprintf(text + used, sizeof text - used, "; ");
            for (uint32_t i = 0; i < count; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, i ? " %u" : "%u", indices[i]);
            free(indices);
        }
        assert_string_equal(text, lists->indices);
    }
}

// The definition, word for word: an order, made divisible by padding from its head or by cutting, [rank : m R : R].
static void check_definition(DistributedSampler sampler, uint32_t epoch) {
    const uint32_t n = sampler.samples, ranks = sampler.ranks;
    uint32_t *order = room(n);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    rng_shuffle(order, n, rng_key(sampler.seed, RNG_EPOCH, epoch, 0, 0));
    uint32_t total = n;
    while (total % ranks != 0)
        total = sampler.drop_last ? total - 1 : total + 1;
    uint32_t *dealt = room(total);
    for (uint32_t i = 0; i < total; i++)
        dealt[i] = i < n ? order[i] : dealt[i - n];
    for (sampler.rank = 0; sampler.rank < ranks; sampler.rank++) {
        uint32_t count;
        uint32_t *indices = draw(&count, &sampler, epoch);
        assert_int_equal(count, total / ranks);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(indices[i], dealt[sampler.rank + i * ranks]);
        free(indices);
    }
    free(dealt);
    free(order);
}

static void with_shuffle_the_ranks_interleave_one_order_padded_from_its_head_or_cut(void **state) {
    (void)state;
    for (uint32_t samples = 0; samples <= 40; samples++)
        for (uint32_t ranks = 1; ranks <= 17; ranks++)
            for (int drop_last = 0; drop_last <= 1; drop_last++)
                check_definition(
                    (DistributedSampler){
                        .samples = samples, .ranks = ranks, .shuffle = true, .drop_last = drop_last, .seed = 11},
                    samples % 5);
    check_definition((DistributedSampler){.samples = 60000, .ranks = 7, .shuffle = true, .seed = 1}, 2);
}

static void an_epoch_visits_every_sample_and_only_the_padding_twice(void **state) {
    (void)state;
    enum { SAMPLES = 1003, RANKS = 8 };
    uint32_t visits[SAMPLES] = {0}, twice = 0;
    DistributedSampler sampler = {.samples = SAMPLES, .ranks = RANKS, .shuffle = true, .seed = 5};
    for (sampler.rank = 0; sampler.rank < RANKS; sampler.rank++) {
        uint32_t count;
        uint32_t *indices = draw(&count, &sampler, 1);
        for (uint32_t i = 0; i < count; i++)
            visits[indices[i]]++;
        free(indices);
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        assert_in_range(visits[i], 1, 2);
        twice += visits[i] == 2;
    }
    assert_int_equal(twice, 1008 - SAMPLES);
}

static void another_epoch_or_seed_is_another_order_and_seed_plus_epoch_is_not_what_counts(void **state) {
    (void)state;
    DistributedSampler sampler = {.samples = 100, .ranks = 2, .shuffle = true, .seed = 0};
    uint32_t count;
    uint32_t *first = draw(&count, &sampler, 0), *again = draw(&count, &sampler, 0), *next = draw(&count, &sampler, 1);
    sampler.seed = 1;
    uint32_t *other_seed = draw(&count, &sampler, 0);
    assert_int_equal(count, 50);
    assert_memory_equal(first, again, count * sizeof *first);
    assert_memory_not_equal(first, next, count * sizeof *first);
    assert_memory_not_equal(first, other_seed, count * sizeof *first);
    assert_memory_not_equal(next, other_seed, count * sizeof *first);
    free(first);
    free(again);
    free(next);
    free(other_seed);
}

static void check_refusal(DistributedSampler sampler, const char *sentence) {
    Error err = {.message = "(accepted)"};
    assert_int_equal(distributed_sampler_check(&sampler, &err), STATUS_USAGE);
    assert_string_equal(err.message, sentence);
}

static void ranks_that_do_not_exist_and_padding_beyond_32_bits_are_refused(void **state) {
    (void)state;
    check_refusal((DistributedSampler){.samples = 10, .ranks = 4, .rank = 4},
                  "rank 4 of 4: ranks count from 0, so it must be below 4");
    check_refusal((DistributedSampler){.samples = 10, .ranks = 0, .rank = 0},
                  "rank 0 of 0: ranks count from 0, so it must be below 0");
    check_refusal((DistributedSampler){.samples = UINT32_MAX, .ranks = 2},
                  "4294967295 samples padded to 4294967296 for 2 ranks do not fit 32 bits; drop the last");
    Error err;
    check_ok(distributed_sampler_check(
        &(DistributedSampler){.samples = UINT32_MAX, .ranks = 2, .rank = 1, .drop_last = true}, &err));
}

static void the_contiguous_split_gives_equal_runs_and_the_remainder_to_the_last(void **state) {
    (void)state;
    static const uint32_t expected[][2] = {{0, 3}, {3, 3}, {6, 3}, {9, 5}};
    for (uint32_t rank = 0; rank < 4; rank++) {
        uint32_t first, count;
        contiguous_split(&first, &count, 14, 4, rank);
        assert_int_equal(first, expected[rank][0]);
        assert_int_equal(count, expected[rank][1]);
    }
    uint32_t first, count;
    contiguous_split(&first, &count, 2, 3, 1);
    assert_int_equal(count, 0);
    contiguous_split(&first, &count, 2, 3, 2);
    assert_int_equal(first, 0);
    assert_int_equal(count, 2);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_shuffle_every_rank_takes_what_pytorch_deals_it),
        cmocka_unit_test(with_shuffle_the_ranks_interleave_one_order_padded_from_its_head_or_cut),
        cmocka_unit_test(an_epoch_visits_every_sample_and_only_the_padding_twice),
        cmocka_unit_test(another_epoch_or_seed_is_another_order_and_seed_plus_epoch_is_not_what_counts),
        cmocka_unit_test(ranks_that_do_not_exist_and_padding_beyond_32_bits_are_refused),
        cmocka_unit_test(the_contiguous_split_gives_equal_runs_and_the_remainder_to_the_last),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
