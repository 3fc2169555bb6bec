// Tests which samples clients are tested on if the test set names the owners of its samples.
#include <string.h>

#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "tests/check.h"

enum { USERS = 6, TRAIN = 24, TESTS = 9, WORDS = 128 };

// User u has samples u, u + 6, ...; in the test set user 0 has three, 1 to 4 one each, 5 none, and two have no user.
static const uint32_t test_owners[TESTS] = {0, 4, UINT32_MAX, 0, 1, 2, 3, 0, UINT32_MAX};
static uint32_t owners[TRAIN];
static uint64_t block[WORDS];

static PartitionSpec spec_of(const char *text, uint32_t clients) {
    Error err;
    for (uint32_t i = 0; i < TRAIN; i++)
        owners[i] = i % USERS;
    PartitionSpec spec = {.clients = clients,
                          .seed = 1,
                          .owners = owners,
                          .users = USERS,
                          .test_owners = test_owners,
                          .test_samples = TESTS};
    check_ok(partition_parse(&spec.form, text, &err));
    assert_in_range(partition_block_bytes(&spec, TRAIN), 1, sizeof block);
    return spec;
}

static Partition build(const PartitionSpec *spec) {
    Error err;
    Partition partition;
    check_ok(partition_build(block, spec, NULL, TRAIN, 1, &err));
    check_ok(partition_view(&partition, block, partition_block_bytes(spec, TRAIN), &err));
    return partition;
}

// Every client has exactly the test samples of those whose training samples it has.
static void check_tests(const Partition *partition) {
    for (uint32_t client = 0; client < partition->clients; client++) {
        uint32_t count, tests, wanted = 0;
        bool has[USERS] = {0};
        const uint32_t *trains = partition_client(partition, client, &count);
        for (uint32_t s = 0; s < count; s++)
            has[owners[trains[s]]] = true;
        const uint32_t *own = partition_client_test(partition, client, &tests);
        for (uint32_t s = 0; s < TESTS; s++)
            wanted += test_owners[s] < USERS && has[test_owners[s]];
        assert_int_equal(tests, wanted);
        for (uint32_t s = 0; s < tests; s++)
            assert_true(has[test_owners[own[s]]]);
    }
}

static void clients_are_tested_on_the_test_samples_of_their_users(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t clients, tests, untested;
    } cases[] = {{"natural-id", 6, 7, 1},
                 {"grouped-natural-id size=4", 2, 7, 0},
                 {"grouped-natural-id size=4 mode=drop-reminder", 1, 6, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const PartitionSpec spec = spec_of(cases[i].text, cases[i].clients);
        const Partition partition = build(&spec);
        assert_int_equal(partition_tests_on(&partition), TESTS_ON_OWN);
        assert_int_equal(partition.own_offsets[partition.clients], cases[i].tests);
        assert_int_equal(partition_untested(&partition), cases[i].untested);
        check_tests(&partition);
    }
}

static void users_make_as_many_clients_as_their_partition_has_groups(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t clients;
    } cases[] = {{"natural-id", 6},
                 {"grouped-natural-id size=4", 2},
                 {"grouped-natural-id size=4 mode=allow-bigger", 1},
                 {"grouped-natural-id size=4 mode=strict", 0},
                 {"leaf fraction=0.5", 3},
                 {"leaf fraction=0.6", 4},
                 {"iid", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err;
        uint32_t clients;
        const PartitionSpec spec = spec_of(cases[i].text, 1);
        check_ok(partition_count_clients(&clients, &spec, NULL, TRAIN, 1, &err));
        assert_int_equal(clients, cases[i].clients);
    }
}

static void leaf_takes_as_many_users_as_it_counts_beside_a_validation_set(void **state) {
    (void)state;
    uint32_t least = USERS, most = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Error err;
        PartitionSpec spec = spec_of("leaf fraction=0.5", 1);
        spec.seed = seed;
        spec.validation = 0.25;
        check_ok(partition_count_clients(&spec.clients, &spec, NULL, TRAIN, 1, &err));
        assert_in_range(partition_block_bytes(&spec, TRAIN), 1, sizeof block);
        check_ok(partition_build(block, &spec, NULL, TRAIN, 1, &err));
        least = spec.clients < least ? spec.clients : least;
        most = spec.clients > most ? spec.clients : most;
    }
    assert_true(least < most); // without a validation set there are always three
}

static void users_that_leaf_leaves_out_have_their_test_samples_left_out(void **state) {
    (void)state;
    const PartitionSpec spec = spec_of("leaf fraction=0.5", 3); // the third user's samples are all taken
    const Partition partition = build(&spec);
    assert_int_equal(partition.samples, TRAIN / 2);
    check_tests(&partition);
    assert_in_range(partition.own_offsets[3], 1, 5);
}

static void other_partitions_and_held_out_samples_leave_the_test_set_alone(void **state) {
    (void)state;
    const PartitionSpec mixed = spec_of("iid", 6);
    const Partition iid = build(&mixed);
    assert_int_equal(partition_tests_on(&iid), TESTS_ON_TRAINING);
    PartitionSpec spec = spec_of("natural-id", 6);
    spec.client_test = 0.5;
    const Partition held = build(&spec);
    assert_int_equal(partition_tests_on(&held), TESTS_ON_HELD_OUT);
    assert_int_equal(held.tests[0], 2);
    spec.client_test = 0;
    spec.test_owners = (const uint32_t[TESTS]){[0 ... TESTS - 1] = UINT32_MAX}; // no test sample is a user's
    const Partition nobody = build(&spec);
    assert_int_equal(partition_tests_on(&nobody), TESTS_ON_TRAINING);
    assert_null(nobody.own_offsets);
}

static void a_damaged_list_of_test_samples_is_refused(void **state) {
    (void)state;
    Error err;
    const PartitionSpec spec = spec_of("natural-id", 6);
    Partition partition = build(&spec);
    uint32_t *offsets = (uint32_t *)partition.own_offsets;
    const size_t bytes = (size_t)((const uint8_t *)(partition.own_tests + offsets[6]) - (const uint8_t *)block);
    assert_int_equal(partition_view(&partition, block, bytes - 1, &err), STATUS_DATA);
    offsets[2] += 100;
    assert_int_equal(partition_view(&partition, block, bytes, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "the test samples of client 1 end at"));
}

// The validation set is a share of each class, the clients have all other samples, and users keep theirs.
static void a_validation_set_belongs_to_no_client(void **state) {
    (void)state;
    static const char *const texts[] = {"natural-id", "iid", "dirichlet alpha=0.5", "shards per-client=2"};
    uint16_t labels[TRAIN];
    Error err;
    for (uint32_t i = 0; i < TRAIN; i++)
        labels[i] = i < 20 ? 0 : 1;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        PartitionSpec spec = spec_of(texts[t], 6);
        Partition partition;
        uint8_t seen[TRAIN] = {0};
        uint32_t of_class[2] = {0}, count;
        spec.validation = 0.25;
        check_ok(partition_build(block, &spec, labels, TRAIN, 2, &err));
        check_ok(partition_view(&partition, block, partition_block_bytes(&spec, TRAIN), &err));
        for (uint32_t i = 0; i < partition.validation_count; i++)
            seen[partition.validation[i]] = 1, of_class[labels[partition.validation[i]]]++;
        assert_true(of_class[0] == 5 && of_class[1] == 1);
        for (uint32_t client = 0; client < 6; client++) {
            const uint32_t *trains = partition_client(&partition, client, &count);
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(seen[trains[i]]++, 0);
                if (t == 0) assert_int_equal(owners[trains[i]], client);
            }
        }
        for (uint32_t i = 0; i < TRAIN; i++)
            assert_int_equal(seen[i], 1);
        if (t == 0) check_tests(&partition);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_are_tested_on_the_test_samples_of_their_users),
        cmocka_unit_test(users_make_as_many_clients_as_their_partition_has_groups),
        cmocka_unit_test(leaf_takes_as_many_users_as_it_counts_beside_a_validation_set),
        cmocka_unit_test(users_that_leaf_leaves_out_have_their_test_samples_left_out),
        cmocka_unit_test(other_partitions_and_held_out_samples_leave_the_test_set_alone),
        cmocka_unit_test(a_validation_set_belongs_to_no_client),
        cmocka_unit_test(a_damaged_list_of_test_samples_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
