// Partitions: who gets what, that nothing is lost or given twice, and that only the seed decides.
#include "datasets/partition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/order.h"
#include "tests/check.h"

enum { CLASSES = 10 };

// "dirichlet alpha=0.5" for so many clients; "whole" is every client's.
static PartitionSpec spec_of(const char *text, uint32_t clients, uint64_t seed) {
    PartitionSpec spec = {.clients = clients, .seed = seed, .whole = strcmp(text, "whole") == 0};
    Error err;
    check_ok(partition_parse(&spec.form, spec.whole ? "iid" : text, &err));
    return spec;
}

// `samples` labels, malloc'ed: evenly spread and in random order, as in the published sets.
static uint16_t *spread_labels(uint32_t samples) {
    uint16_t *labels = malloc(samples * sizeof *labels);
    uint32_t *order = malloc(samples * sizeof *order);
    for (uint32_t i = 0; i < samples; i++)
        order[i] = i;
    rng_shuffle(order, samples, rng_key(11, RNG_SYNTHETIC, 0, 0, 0));
    for (uint32_t i = 0; i < samples; i++)
        labels[i] = (uint16_t)(order[i] % CLASSES);
    free(order);
    return labels;
}

// Builds into a malloc'ed block and views it.
static void *build(Partition *partition, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples) {
    Error err;
    size_t bytes = partition_block_bytes(spec, samples);
    void *block = malloc(bytes);
    check_ok(partition_build(block, spec, labels, samples, CLASSES, &err));
    check_ok(partition_view(partition, block, bytes, &err));
    assert_int_equal(partition->clients, spec->clients);
    assert_int_equal(partition->samples, samples);
    return block;
}

static void expect_each_sample_once(const Partition *partition) {
    uint8_t *seen = calloc(partition->samples, 1);
    uint32_t total = 0;
    for (uint32_t client = 0; client < partition->clients; client++) {
        uint32_t count;
        const uint32_t *indices = partition_client(partition, client, &count);
        for (uint32_t i = 0; i < count; i++) {
            assert_in_range(indices[i], 0, partition->samples - 1);
            assert_int_equal(seen[indices[i]]++, 0);
        }
        total += count;
    }
    assert_int_equal(total, partition->samples);
    free(seen);
}

static void expect_client(const Partition *partition, uint32_t client, const uint32_t *expected,
                          uint32_t expected_count) {
    uint32_t count;
    const uint32_t *indices = partition_client(partition, client, &count);
    assert_int_equal(count, expected_count);
    assert_memory_equal(indices, expected, count * sizeof *indices);
}

static uint32_t size_of_client(const Partition *partition, uint32_t client) {
    uint32_t count;
    partition_client(partition, client, &count);
    return count;
}

static uint32_t smallest_client(const Partition *partition) {
    uint32_t smallest = UINT32_MAX;
    for (uint32_t client = 0; client < partition->clients; client++)
        if (size_of_client(partition, client) < smallest) smallest = size_of_client(partition, client);
    return smallest;
}

static void contiguous_runs_keep_the_order_and_the_last_takes_the_remainder(void **state) {
    (void)state;
    const uint16_t labels[10] = {0};
    Partition partition;
    const PartitionSpec spec = spec_of("contiguous", 4, 1);
    void *block = build(&partition, &spec, labels, 10);
    expect_client(&partition, 0, (uint32_t[]){0, 1}, 2);
    expect_client(&partition, 2, (uint32_t[]){4, 5}, 2);
    expect_client(&partition, 3, (uint32_t[]){6, 7, 8, 9}, 4);
    free(block);
}

static void whole_gives_every_client_the_same_full_list(void **state) {
    (void)state;
    const uint16_t labels[5] = {0};
    Partition partition;
    const PartitionSpec spec = spec_of("whole", 7, 1);
    void *block = build(&partition, &spec, labels, 5);
    for (uint32_t client = 0; client < 7; client++)
        expect_client(&partition, client, (uint32_t[]){0, 1, 2, 3, 4}, 5);
    assert_null(partition.offsets);
    free(block);
}

static void iid_sizes_differ_by_at_most_one_and_the_order_is_random(void **state) {
    (void)state;
    uint16_t *labels = spread_labels(1003);
    Partition partition;
    const PartitionSpec spec = spec_of("iid", 10, 1);
    void *block = build(&partition, &spec, labels, 1003);
    expect_each_sample_once(&partition);
    for (uint32_t client = 0; client < 10; client++)
        assert_int_equal(size_of_client(&partition, client), client < 3 ? 101 : 100);
    uint32_t in_place = 0;
    for (uint32_t i = 0; i < 1003; i++)
        in_place += partition.indices[i] == i;
    assert_in_range(in_place, 0, 10);
    free(block);
    free(labels);
}

static void shards_hold_few_labels_and_lose_no_sample(void **state) {
    (void)state;
    const struct {
        uint32_t samples, clients, per_client;
    } cases[] = {{60000, 100, 2}, {1003, 10, 3}, {7, 7, 1}, {9, 2, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t *labels = spread_labels(cases[i].samples);
        Partition partition;
        char text[64];
        snprintf(text, sizeof text, "shards per-client=%u", cases[i].per_client);
        const PartitionSpec spec = spec_of(text, cases[i].clients, 5);
        void *block = build(&partition, &spec, labels, cases[i].samples);
        expect_each_sample_once(&partition);
        for (uint32_t client = 0; client < cases[i].clients; client++) {
            uint32_t count, changes = 0;
            const uint32_t *indices = partition_client(&partition, client, &count);
            uint32_t equal = cases[i].samples / (cases[i].clients * cases[i].per_client) * cases[i].per_client;
            assert_in_range(count, equal, equal + cases[i].per_client);
            for (uint32_t s = 1; s < count; s++)
                changes += labels[indices[s]] != labels[indices[s - 1]];
            // Equal shards of 300 lie within one label of 6,000: two shards, at most two labels.
            if (i == 0) assert_in_range(changes, 0, 1);
        }
        free(block);
        free(labels);
    }
}

// Who gives to the short ones decides the bits of a run: of equally large clients or classes the first one.
static void of_equally_large_clients_the_first_gives_to_the_short_ones(void **state) {
    (void)state;
    uint16_t *labels = spread_labels(2000);
    Partition partition;
    const PartitionSpec spec = spec_of("dirichlet alpha=0.01", 100, 1);
    void *block = build(&partition, &spec, labels, 2000);
    uint64_t hash = 14695981039346656037u;
    for (uint32_t client = 0; client < 100; client++)
        hash = (hash ^ size_of_client(&partition, client)) * 1099511628211u;
    for (uint32_t i = 0; i < 2000; i++)
        hash = (hash ^ partition.indices[i]) * 1099511628211u;
    if (hash != UINT64_C(0x44ccdd49d74d0dab)) fail_msg("the partition is another one: %" PRIx64, hash);
    free(block);
    free(labels);
}

static void dirichlet_gives_each_sample_to_one_client_and_everyone_the_minimum(void **state) {
    (void)state;
    const struct {
        uint32_t samples, clients;
        double alpha;
        uint32_t minimum;
    } cases[] = {{60000, 1000, 0.1, 10}, {60000, 10, 0.5, 10}, {60000, 10000, 0.1, 3}, {60000, 100, 1e-4, 10},
                 {1000, 100, 1000, 5},   {20, 20, 0.1, 1},     {5, 1, 0.1, 2},         {60000, 2, 1e9, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            uint16_t *labels = spread_labels(cases[i].samples);
            Partition partition;
            char text[64];
            snprintf(text, sizeof text, "dirichlet alpha=%g", cases[i].alpha);
            const PartitionSpec spec = spec_of(text, cases[i].clients, seed);
            void *block = build(&partition, &spec, labels, cases[i].samples);
            expect_each_sample_once(&partition);
            assert_in_range(smallest_client(&partition), cases[i].minimum, UINT32_MAX);
            free(block);
            free(labels);
        }
}

// The mean over clients of the largest class's share: 1 when every client knows one class, 0.1 when all know all.
static double concentration(double alpha) {
    uint16_t *labels = spread_labels(60000);
    char text[64];
    snprintf(text, sizeof text, "dirichlet alpha=%g", alpha);
    Partition partition;
    const PartitionSpec spec = spec_of(text, 100, 3);
    void *block = build(&partition, &spec, labels, 60000);
    double sum = 0;
    for (uint32_t client = 0; client < 100; client++) {
        uint32_t count, of_class[CLASSES] = {0}, largest = 0;
        const uint32_t *indices = partition_client(&partition, client, &count);
        for (uint32_t i = 0; i < count; i++)
            if (++of_class[labels[indices[i]]] > largest) largest = of_class[labels[indices[i]]];
        sum += (double)largest / count;
    }
    free(block);
    free(labels);
    return sum / 100;
}

static void a_smaller_alpha_concentrates_classes(void **state) {
    (void)state;
    assert_true(concentration(1e6) < 0.11);
    assert_true(concentration(1) > 0.2 && concentration(1) < 0.5);
    assert_true(concentration(0.1) > 0.5);
    assert_true(concentration(0.01) > 0.8);
}

// A full client gets no more: it exceeds the average by at most one class's worth of samples.
static void dirichlet_balances_itself(void **state) {
    (void)state;
    uint16_t *labels = spread_labels(60000);
    Partition partition;
    const PartitionSpec spec = spec_of("dirichlet alpha=0.1", 10, 2);
    void *block = build(&partition, &spec, labels, 60000);
    for (uint32_t client = 0; client < 10; client++)
        assert_in_range(size_of_client(&partition, client), 10, 6000 + 6000);
    free(block);
    free(labels);
}

static void the_seed_alone_decides(void **state) {
    (void)state;
    uint16_t *labels = spread_labels(2000);
    const char *const kinds[] = {"iid", "dirichlet alpha=0.3", "shards per-client=2"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        Partition first, again, other;
        PartitionSpec spec = spec_of(kinds[k], 20, 1);
        void *first_block = build(&first, &spec, labels, 2000), *again_block = build(&again, &spec, labels, 2000);
        spec.seed = 2;
        void *other_block = build(&other, &spec, labels, 2000);
        assert_memory_equal(first_block, again_block, partition_block_bytes(&spec, 2000));
        assert_memory_not_equal(first_block, other_block, partition_block_bytes(&spec, 2000));
        free(first_block);
        free(again_block);
        free(other_block);
    }
    free(labels);
}

// What seed 1 gave when this was written: a change here breaks every published experiment.
static void small_partitions_are_as_they_always_were(void **state) {
    (void)state;
    const uint16_t labels[12] = {2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1};
    const struct {
        const char *text;
        uint32_t offsets[4], indices[12];
    } cases[] = {
        {"iid", {0, 4, 8, 12}, {2, 6, 3, 11, 8, 9, 0, 4, 5, 7, 1, 10}},
        {"dirichlet alpha=0.5", {0, 3, 6, 12}, {2, 0, 1, 3, 8, 5, 6, 7, 9, 10, 4, 11}},
        {"shards per-client=2", {0, 4, 8, 12}, {1, 4, 0, 3, 7, 10, 8, 11, 2, 5, 6, 9}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Partition partition;
        const PartitionSpec spec = spec_of(cases[i].text, 3, 1);
        void *block = build(&partition, &spec, labels, 12);
        assert_memory_equal(partition.offsets, cases[i].offsets, sizeof cases[i].offsets);
        assert_memory_equal(partition.indices, cases[i].indices, sizeof cases[i].indices);
        free(block);
    }
}

static void impossible_partitions_are_refused_with_the_numbers(void **state) {
    (void)state;
    static const uint16_t labels[70000] = {[69999] = 99};
    const struct {
        const char *text;
        uint32_t clients, samples;
        Status status;
        const char *sentence_part;
    } cases[] = {
        {"contiguous", 6, 5, STATUS_USAGE, "5 samples cannot be divided among 6 clients; give at most 5 clients"},
        {"contiguous", 6, 1, STATUS_USAGE, "1 sample cannot be divided among 6 clients; give at most 1 client"},
        {"iid", 0, 5, STATUS_USAGE, "among 0 clients"},
        {"whole", 1, 0, STATUS_USAGE, "0 samples"},
        {"shards per-client=3", 2, 5, STATUS_USAGE, "give 1 to 2 shards"},
        {"shards per-client=65536", 65536, 69000, STATUS_USAGE, "65536 clients * 65536 shards"},
        {"iid", 2, 70000, STATUS_DATA, "label 99 of sample 69999"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err = {.message = ""};
        static uint64_t block[70000];
        const PartitionSpec spec = spec_of(cases[i].text, cases[i].clients, 1);
        assert_int_equal(partition_build(block, &spec, labels, cases[i].samples, CLASSES, &err), cases[i].status);
        if (!strstr(err.message, cases[i].sentence_part))
            fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].sentence_part);
    }
}

static void held_out_samples_are_not_trained_on_and_nothing_is_lost(void **state) {
    (void)state;
    static const char *const forms[] = {"contiguous", "iid", "dirichlet alpha=0.3", "size sizes=300"};
    uint16_t *labels = spread_labels(2003);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        Error err;
        PartitionSpec spec = spec_of(forms[i], 6, 1), plain = spec;
        spec.client_test = 0.1;
        size_t bytes = partition_block_bytes(&spec, 2003);
        void *block = malloc(bytes), *plain_block = malloc(bytes);
        Partition partition, whole;
        check_ok(partition_build(block, &spec, labels, 2003, CLASSES, &err));
        check_ok(partition_view(&partition, block, bytes, &err));
        check_ok(partition_build(plain_block, &plain, labels, 2003, CLASSES, &err));
        check_ok(partition_view(&whole, plain_block, bytes, &err));
        assert_null(whole.tests);
        for (uint32_t client = 0; client < 6; client++) {
            uint8_t belongs[2003] = {0};
            uint32_t all, trains, tests;
            const uint32_t *own = partition_client(&whole, client, &all);
            for (uint32_t s = 0; s < all; s++)
                belongs[own[s]] = 1;
            const uint32_t *train = partition_client(&partition, client, &trains);
            const uint32_t *test = partition_client_test(&partition, client, &tests);
            assert_int_equal(trains + tests, all);
            assert_int_equal(trains, all * 9 / 10);
            for (uint32_t s = 0; s < trains; s++)
                assert_int_equal(belongs[train[s]]--, 1);
            for (uint32_t s = 0; s < tests; s++)
                assert_int_equal(belongs[test[s]]--, 1);
            partition_client_test(&whole, client, &tests);
            assert_int_equal(tests, 0);
        }
        uint32_t *held_out = (uint32_t *)partition.tests;
        held_out[2] += 2003;
        assert_int_equal(partition_view(&partition, block, bytes, &err), STATUS_DATA);
        free(plain_block);
        free(block);
    }
    free(labels);
}

static void somebody_with_one_sample_trains_on_it(void **state) {
    (void)state;
    const uint16_t labels[4] = {0};
    uint64_t block[64];
    uint32_t trains, tests;
    Error err;
    Partition partition;
    PartitionSpec spec = spec_of("size sizes=1,3", 2, 1);
    spec.client_test = 0.9;
    check_ok(partition_build(block, &spec, labels, 4, CLASSES, &err));
    check_ok(partition_view(&partition, block, sizeof block, &err));
    for (uint32_t client = 0; client < 2; client++) {
        partition_client(&partition, client, &trains);
        partition_client_test(&partition, client, &tests);
        assert_int_equal(trains, 1);
        assert_int_equal(tests, client == 0 ? 0 : 2);
    }
    spec.client_test = 1;
    assert_int_equal(partition_build(block, &spec, labels, 4, CLASSES, &err), STATUS_USAGE);
    spec.client_test = 0.1;
    spec.whole = true;
    assert_int_equal(partition_build(block, &spec, labels, 4, CLASSES, &err), STATUS_USAGE);
}

static void a_damaged_block_is_refused(void **state) {
    (void)state;
    const uint16_t labels[10] = {0};
    uint64_t block[64];
    Error err;
    Partition partition;
    const PartitionSpec spec = spec_of("contiguous", 2, 1);
    size_t bytes = partition_block_bytes(&spec, 10);
    assert_in_range(bytes, 1, sizeof block);
    check_ok(partition_build(block, &spec, labels, 10, CLASSES, &err));
    check_ok(partition_view(&partition, block, bytes, &err));
    for (size_t shorter = 0; shorter < bytes; shorter++)
        assert_int_equal(partition_view(&partition, block, shorter, &err), STATUS_DATA);
    check_ok(partition_view(&partition, block, bytes, &err));

    // One damage at a time. Words: magic, version, whole, clients, samples, padding, bytes (two), then the offsets 0,
    // 5, 10.
    const struct {
        uint32_t word, value;
    } damages[] = {{0, 0}, {1, 0},        {1, 2}, {2, 1},  {3, 1},  {3, 3},          {4, 9},  {4, 11}, {6, 0},
                   {7, 1}, {6, 1u << 31}, {8, 6}, {8, 11}, {9, 11}, {9, UINT32_MAX}, {10, 4}, {10, 11}};
    uint32_t *words = (uint32_t *)block;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint32_t sound = words[damages[i].word];
        words[damages[i].word] = damages[i].value;
        if (partition_view(&partition, block, bytes, &err) != STATUS_DATA)
            fail_msg("%u in word %u is not noticed", damages[i].value, damages[i].word);
        words[damages[i].word] = sound;
        check_ok(partition_view(&partition, block, bytes, &err));
    }
}

static void a_batch_order_is_a_permutation_chosen_by_its_key(void **state) {
    (void)state;
    enum { COUNT = 500 };
    uint32_t indices[COUNT], order[COUNT], other[COUNT];
    uint8_t seen[3 * COUNT] = {0};
    for (uint32_t i = 0; i < COUNT; i++)
        indices[i] = 3 * i;
    batch_order(order, indices, COUNT, 1, 2, 3, 4);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(order[i] % 3, 0);
        assert_int_equal(seen[order[i]]++, 0);
        assert_int_equal(indices[i], 3 * i);
    }
    batch_order(other, indices, COUNT, 1, 2, 3, 4);
    assert_memory_equal(order, other, sizeof order);
    for (uint32_t changed = 0; changed < 4; changed++) {
        batch_order(other, indices, COUNT, 1 + (changed == 0), 2 + (changed == 1), 3 + (changed == 2),
                    4 + (changed == 3));
        assert_memory_not_equal(order, other, sizeof order);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_runs_keep_the_order_and_the_last_takes_the_remainder),
        cmocka_unit_test(whole_gives_every_client_the_same_full_list),
        cmocka_unit_test(iid_sizes_differ_by_at_most_one_and_the_order_is_random),
        cmocka_unit_test(shards_hold_few_labels_and_lose_no_sample),
        cmocka_unit_test(of_equally_large_clients_the_first_gives_to_the_short_ones),
        cmocka_unit_test(dirichlet_gives_each_sample_to_one_client_and_everyone_the_minimum),
        cmocka_unit_test(a_smaller_alpha_concentrates_classes),
        cmocka_unit_test(dirichlet_balances_itself),
        cmocka_unit_test(the_seed_alone_decides),
        cmocka_unit_test(small_partitions_are_as_they_always_were),
        cmocka_unit_test(impossible_partitions_are_refused_with_the_numbers),
        cmocka_unit_test(held_out_samples_are_not_trained_on_and_nothing_is_lost),
        cmocka_unit_test(somebody_with_one_sample_trains_on_it),
        cmocka_unit_test(a_damaged_block_is_refused),
        cmocka_unit_test(a_batch_order_is_a_permutation_chosen_by_its_key),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
