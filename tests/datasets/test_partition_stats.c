// The heterogeneity of a partition: cases that can be computed by hand, and that the extremes come out as extremes.
#include "datasets/partition/partition_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datasets/partition.h"
#include "tests/check.h"
#include "tests/scratch.h"

static const ClientMean *measure_of(const PartitionStats *stats, const char *name) {
    for (int kind = 0; kind < PARTITION_MEASURES; kind++)
        if (strcmp(partition_measures[kind], name) == 0) return &stats->measures[kind];
    fail_msg("no measure %s", name);
    return NULL;
}

static void expect(const PartitionStats *stats, const char *name, double mean, double weighted, double worst) {
    const ClientMean *of = measure_of(stats, name);
    if (fabs(of->mean - mean) > 1e-9 || fabs(of->weighted - weighted) > 1e-9 || fabs(of->worst - worst) > 1e-9)
        fail_msg("%s: mean %.10g, weighted %.10g, worst %.10g instead of %.10g, %.10g, %.10g", name, of->mean,
                 of->weighted, of->worst, mean, weighted, worst);
}

static void clients_of_one_class_each_are_as_far_apart_as_can_be(void **state) {
    (void)state;
    const uint32_t counts[2][2] = {{4, 0}, {0, 4}};
    PartitionStats stats;
    Error err;
    check_ok(partition_statistics(&stats, counts[0], 2, 2, &err));
    expect(&stats, "entropy", 0, 0, 0);
    expect(&stats, "hellinger", sqrt(1 - sqrt(0.5)), sqrt(1 - sqrt(0.5)), sqrt(1 - sqrt(0.5)));
    expect(&stats, "emd", 1, 1, 1);
    const double divergence = -0.75 * log2(0.75) - 0.25 * log2(0.25) - 0.5;
    expect(&stats, "jensen_shannon", divergence, divergence, divergence);
    expect(&stats, "classes", 1, 1, 1);
    assert_true(stats.gini == 0 && stats.variation == 0 && stats.median == 4);
}

static void clients_that_are_alike_have_no_distance(void **state) {
    (void)state;
    const uint32_t counts[3][3] = {{2, 4, 2}, {1, 2, 1}, {3, 6, 3}};
    PartitionStats stats;
    Error err;
    check_ok(partition_statistics(&stats, counts[0], 3, 3, &err));
    const double entropy = (0.5 * log(4) + 0.5 * log(2)) / log(3);
    expect(&stats, "entropy", entropy, entropy, entropy);
    expect(&stats, "hellinger", 0, 0, 0);
    expect(&stats, "emd", 0, 0, 0);
    expect(&stats, "jensen_shannon", 0, 0, 0);
    expect(&stats, "classes", 3, 3, 3);
}

static void sizes_weigh_and_empty_clients_count_in_the_sizes_alone(void **state) {
    (void)state;
    const uint32_t counts[4][2] = {{1, 0}, {0, 0}, {3, 3}, {1, 0}}; // sizes 1, 0, 6, 1; all: 5 to 3
    PartitionStats stats;
    Error err;
    check_ok(partition_statistics(&stats, counts[0], 4, 2, &err));
    assert_int_equal(stats.samples, 8);
    assert_int_equal(stats.smallest, 0);
    assert_int_equal(stats.largest, 6);
    assert_true(stats.median == 1);
    assert_true(fabs(stats.variation - sqrt((4 + 1 + 1 + 16) / 4.0) / 2) < 1e-12);
    // sum over i < j of |x_i - x_j| / (n^2 mean) = (1 + 1 + 6 + 0 + 5 + 5) / (16 * 2)
    assert_true(fabs(stats.gini - 18 / 32.0) < 1e-12);
    expect(&stats, "classes", 4 / 3.0, (1 + 6 * 2 + 1) / 8.0, 1);
    expect(&stats, "emd", (0.75 + 0.25 + 0.75) / 3, (0.75 + 6 * 0.25 + 0.75) / 8, 0.75);
}

static void counts_are_of_the_samples_that_a_client_has(void **state) {
    (void)state;
    const uint16_t labels[6] = {0, 1, 2, 0, 1, 2};
    uint64_t block[64];
    uint32_t counts[6];
    Partition partition;
    Error err;
    PartitionSpec spec = {.clients = 2, .seed = 1};
    check_ok(partition_parse(&spec.form, "size sizes=2,3", &err));
    check_ok(partition_build(block, &spec, labels, 6, 3, &err));
    check_ok(partition_view(&partition, block, sizeof block, &err));
    partition_count(counts, &partition, labels, 3);
    const uint32_t expected[6] = {1, 1, 0, 1, 1, 1};
    assert_memory_equal(counts, expected, sizeof expected);
    partition_count(counts, &partition, NULL, 1);
    assert_int_equal(counts[1], 3);
}

static void a_saved_partition_reads_back_and_a_damaged_one_does_not(void **state) {
    static const char *const damages[] = {
        "sounder partition 2\nsamples 4 clients 1\n0\n",       "sounder partition 1\nsamples 4 clients 1 \n0\n",
        "sounder partition 1\nsamples 4 clients 2\n0\n",       "sounder partition 1\nsamples 4 clients 2\n0\n4\n",
        "sounder partition 1\nsamples 4 clients 2\n0 1\n1\n",  "sounder partition 1\nsamples 4 clients 2\n0 -1\n1\n",
        "sounder partition 1\nsamples 4 clients 2\n0  1\n2\n", "sounder partition 1\nsamples 4 clients 2\n0 x\n2\n",
        "sounder partition 1\nsamples 4 clients 2\n0\n1\n2\n", ""};
    const uint32_t indices[4] = {3, 1, 0, 2}, offsets[4] = {0, 1, 1, 4};
    const Partition partition = {.clients = 3, .indices = indices, .offsets = offsets, .samples = 4};
    uint32_t read_offsets[4], read_indices[4], clients;
    char path[SCRATCH_PATH_BYTES];
    Error err;
    scratch_path(path, *state, "partition");
    check_ok(partition_file_write(path, &partition, 5, &err));
    check_ok(partition_file_clients(&clients, path, &err));
    assert_int_equal(clients, 3);
    check_ok(partition_file_read(read_offsets, read_indices, path, 5, 3, &err));
    assert_memory_equal(read_offsets, offsets, sizeof offsets);
    assert_memory_equal(read_indices, indices, sizeof indices);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        scratch_write(path, damages[i], strlen(damages[i]));
        if (partition_file_read(read_offsets, read_indices, path, 4, 2, &err) != STATUS_DATA)
            fail_msg("accepted: %s", damages[i]);
    }
    static const char many[] = "sounder partition 1\nsamples 4 clients 999999999\n0\n";
    scratch_write(path, many, strlen(many));
    assert_int_equal(partition_file_clients(&clients, path, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "partition:2: 999999999 clients; there may be 1 to 1000000"));
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(partition_file_clients(&clients, path, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "is no regular file"));
}

static void clients_of_a_sorted_file_have_few_classes(void **state) {
    enum { SAMPLES = 40, CLASSES = 4 };
    (void)state;
    for (int sorted = 0; sorted < 2; sorted++) {
        uint16_t labels[SAMPLES];
        uint32_t fewest, most, classes;
        _Alignas(8) uint8_t block[4096];
        Partition partition;
        Error err;
        PartitionSpec spec = {.clients = 5, .seed = 1};
        for (int i = 0; i < SAMPLES; i++)
            labels[i] = (uint16_t)(sorted ? i / (SAMPLES / CLASSES) : i % CLASSES);
        check_ok(partition_parse(&spec.form, "contiguous", &err));
        assert_in_range(partition_block_bytes(&spec, SAMPLES), 1, sizeof block);
        check_ok(partition_build(block, &spec, labels, SAMPLES, CLASSES + 1, &err));
        check_ok(partition_view(&partition, block, partition_block_bytes(&spec, SAMPLES), &err));
        assert_int_equal(partition_has_few_classes(&fewest, &most, &classes, &partition, labels, CLASSES + 1), sorted);
        assert_int_equal(fewest, sorted ? 1 : CLASSES);
        assert_int_equal(most, sorted ? 2 : CLASSES);
        assert_int_equal(classes, CLASSES); // the fifth class does not occur
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_of_one_class_each_are_as_far_apart_as_can_be),
        cmocka_unit_test(clients_that_are_alike_have_no_distance),
        cmocka_unit_test(sizes_weigh_and_empty_clients_count_in_the_sizes_alone),
        cmocka_unit_test(counts_are_of_the_samples_that_a_client_has),
        cmocka_unit_test(clients_of_a_sorted_file_have_few_classes),
        cmocka_unit_test(a_saved_partition_reads_back_and_a_damaged_one_does_not),
    };
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}
