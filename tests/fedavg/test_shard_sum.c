// The tree sum over shards: the same bits for every way to deal the shards to nodes, and few sums a node.
#include "fedavg/rules/sum/shard_sum.h"

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"
#include "tests/check.h"

enum { MOST_SHARDS = 33, COUNT = 100 };

typedef struct Gradients {
    float values[MOST_SHARDS][COUNT];
    ShardLeaf leaves[MOST_SHARDS];
    float sum[COUNT];
} Gradients;

// Of very different sizes, so that almost every other order of addition gives other bits.
static void fill(Gradients *gradients, uint32_t shards) {
    for (uint32_t shard = 0; shard < shards; shard++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t word = rng_block(rng_key(7, RNG_INIT, shard, 0, 0), i, 0, 0, 0).word[0];
            gradients->values[shard][i] = ldexpf(rng_float(word) - 0.5f, (int)(word % 12));
        }
        gradients->leaves[shard] = (ShardLeaf){
            .range = {shard, shard + 1}, .values = gradients->values[shard], .share = 1.0f / (float)(shard + 2)};
    }
    shard_sum(gradients->sum, gradients->leaves, (ShardRange){0, shards}, 0, COUNT);
}

static ShardRange node_shards(uint32_t shards, uint32_t node, uint32_t nodes) {
    return (ShardRange){shards * node / nodes, shards * (node + 1) / nodes};
}

// The sum as `nodes` nodes compute it: each its own blocks, then what is above them.
static void sum_over_nodes(float *out, const Gradients *gradients, uint32_t shards, uint32_t nodes) {
    static float sums[MOST_SHARDS * 2][COUNT];
    ShardLeaf leaves[MOST_SHARDS * 2];
    uint32_t count = 0;
    for (uint32_t node = 0; node < nodes; node++) {
        ShardRange blocks[SHARD_MAX_SUMS];
        uint32_t blocks_of_node = shard_sums(blocks, shards, node_shards(shards, node, nodes));
        for (uint32_t b = 0; b < blocks_of_node; b++, count++) {
            shard_sum(sums[count], gradients->leaves + blocks[b].first, blocks[b], 0, COUNT);
            leaves[count] = (ShardLeaf){.range = blocks[b], .values = sums[count], .share = 1};
        }
    }
    shard_sum(out, leaves, (ShardRange){0, shards}, 0, COUNT);
}

static void any_number_of_nodes_gives_the_bits_of_one(void **state) {
    (void)state;
    static Gradients gradients;
    for (uint32_t shards = 1; shards <= MOST_SHARDS; shards++) {
        fill(&gradients, shards);
        for (uint32_t nodes = 1; nodes <= shards; nodes++) {
            float sum[COUNT];
            sum_over_nodes(sum, &gradients, shards, nodes);
            assert_memory_equal(sum, gradients.sum, sizeof sum);
        }
    }
}

static void the_sum_is_that_of_all_shards_to_rounding(void **state) {
    (void)state;
    static Gradients gradients;
    fill(&gradients, MOST_SHARDS);
    bool differs_from_running_sum = false;
    for (uint32_t i = 0; i < COUNT; i++) {
        double exact = 0, magnitude = 0;
        float running = 0;
        for (uint32_t shard = 0; shard < MOST_SHARDS; shard++) {
            float part = gradients.leaves[shard].share * gradients.values[shard][i];
            exact += (double)part;
            magnitude += fabs((double)part);
            running += part;
        }
        assert_true(fabs((double)gradients.sum[i] - exact) <= 6 * 0x1p-24 * magnitude); // a tree of six levels
        differs_from_running_sum |= running != gradients.sum[i];
    }
    assert_true(differs_from_running_sum); // otherwise the test above would compare what cannot differ
}

static void slices_give_the_bits_of_the_whole(void **state) {
    (void)state;
    static Gradients gradients;
    fill(&gradients, 11);
    for (size_t first = 0; first < COUNT; first += 7) {
        float slice[7];
        size_t count = COUNT - first < 7 ? COUNT - first : 7;
        shard_sum(slice, gradients.leaves, (ShardRange){0, 11}, first, count);
        assert_memory_equal(slice, gradients.sum + first, count * sizeof *slice);
    }
}

static void a_shard_without_a_share_is_not_read(void **state) {
    (void)state;
    static Gradients gradients;
    fill(&gradients, 5);
    gradients.leaves[3].share = 0;
    float expected[COUNT], sum[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        gradients.values[3][i] = 1;
    shard_sum(expected, gradients.leaves, (ShardRange){0, 5}, 0, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        gradients.values[3][i] = NAN;
    shard_sum(sum, gradients.leaves, (ShardRange){0, 5}, 0, COUNT);
    assert_memory_equal(sum, expected, sizeof sum);
}

static void a_node_sends_one_sum_where_powers_of_two_meet_and_a_few_elsewhere(void **state) {
    (void)state;
    ShardRange sums[SHARD_MAX_SUMS];
    for (uint32_t nodes = 1; nodes <= 64; nodes *= 2)
        for (uint32_t node = 0; node < nodes; node++)
            assert_int_equal(shard_sums(sums, 64, node_shards(64, node, nodes)), 1);
    for (uint32_t nodes = 1; nodes <= 100; nodes++)
        for (uint32_t node = 0; node < nodes; node++) {
            ShardRange own = node_shards(1000, node, nodes);
            uint32_t count = shard_sums(sums, 1000, own), next = own.first;
            assert_in_range(count, 1, 2 * 10); // 2 log2 1000
            for (uint32_t s = 0; s < count; s++) {
                assert_int_equal(sums[s].first, next);
                next = sums[s].end;
            }
            assert_int_equal(next, own.end);
        }
    assert_in_range(shard_sums(sums, 1000000, (ShardRange){1, 999999}), 1, SHARD_MAX_SUMS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_nodes_gives_the_bits_of_one),
        cmocka_unit_test(the_sum_is_that_of_all_shards_to_rounding),
        cmocka_unit_test(slices_give_the_bits_of_the_whole),
        cmocka_unit_test(a_shard_without_a_share_is_not_read),
        cmocka_unit_test(a_node_sends_one_sum_where_powers_of_two_meet_and_a_few_elsewhere),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
