// Each partitioner against its source's rule: sizes as the formula says, classes as promised, nothing given twice.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "datasets/partition/partitioner.h"
#include "tests/check.h"

enum { CLASSES = 10, SAMPLES = 6000 };

// One dealt partition of SAMPLES samples, class c's share evenly spread and in random order.
typedef struct Dealt {
    Partition partition;
    void *block;
    uint16_t labels[SAMPLES];
    uint32_t counts[1000][CLASSES]; // (clients, classes)
    uint32_t sizes[1000], given;
} Dealt;

static Dealt dealt;

static Status try_to_deal(const char *text, uint32_t clients, uint64_t seed, Error *err) {
    PartitionSpec spec = {.clients = clients, .seed = seed};
    uint32_t order[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++)
        order[i] = i;
    rng_shuffle(order, SAMPLES, rng_key(11, RNG_SYNTHETIC, 0, 0, 0));
    for (uint32_t i = 0; i < SAMPLES; i++)
        dealt.labels[i] = (uint16_t)(order[i] % CLASSES);
    TRY(partition_parse(&spec.form, text, err));
    size_t bytes = partition_block_bytes(&spec, SAMPLES);
    dealt.block = malloc(bytes);
    Status status = partition_build(dealt.block, &spec, dealt.labels, SAMPLES, CLASSES, err);
    if (status == STATUS_OK) status = partition_view(&dealt.partition, dealt.block, bytes, err);
    if (status != STATUS_OK) free(dealt.block);
    return status;
}

// Deals, counts, and checks that no sample is given twice.
static void deal(const char *text, uint32_t clients, uint64_t seed) {
    Error err;
    uint8_t seen[SAMPLES] = {0};
    check_ok(try_to_deal(text, clients, seed, &err));
    memset(dealt.counts, 0, sizeof dealt.counts);
    dealt.given = 0;
    for (uint32_t client = 0; client < clients; client++) {
        const uint32_t *indices = partition_client(&dealt.partition, client, &dealt.sizes[client]);
        dealt.given += dealt.sizes[client];
        for (uint32_t i = 0; i < dealt.sizes[client]; i++) {
            assert_in_range(indices[i], 0, SAMPLES - 1);
            if (seen[indices[i]]++) fail_msg("%s: sample %u is given twice", text, indices[i]);
            dealt.counts[client][dealt.labels[indices[i]]]++;
        }
    }
    assert_int_equal(dealt.partition.samples, dealt.given);
    free(dealt.block);
}

static uint32_t classes_of(uint32_t client) {
    uint32_t classes = 0;
    for (int label = 0; label < CLASSES; label++)
        classes += dealt.counts[client][label] > 0;
    return classes;
}

// The largest share of one class, the mean over the clients.
static double concentration(uint32_t clients) {
    double sum = 0;
    for (uint32_t client = 0; client < clients; client++) {
        uint32_t most = 0;
        for (int label = 0; label < CLASSES; label++)
            if (dealt.counts[client][label] > most) most = dealt.counts[client][label];
        sum += (double)most / dealt.sizes[client];
    }
    return sum / clients;
}

static void refuse(const char *text, uint32_t clients, const char *part_of_sentence) {
    Error err = {.message = ""};
    assert_int_equal(try_to_deal(text, clients, 1, &err), STATUS_USAGE);
    if (!strstr(err.message, part_of_sentence))
        fail_msg("%s: \"%s\" does not say \"%s\"", text, err.message, part_of_sentence);
}

static void who_loses_no_sample_gives_each_one_once(void **state) {
    (void)state;
    static const char *const texts[] = {"contiguous",
                                        "iid",
                                        "dirichlet",
                                        "dirichlet form=plain",
                                        "dirichlet form=balanced",
                                        "inner-dirichlet",
                                        "shards",
                                        "linear",
                                        "square",
                                        "pathological mode=deterministic classes=3",
                                        "noniid-label",
                                        "distribution",
                                        "noniid-labeldir",
                                        "shard per-client=2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        deal(texts[i], 10, 1);
        if (dealt.given != SAMPLES) fail_msg("%s gave %u of %d", texts[i], dealt.given, SAMPLES);
    }
}

static void a_large_alpha_is_near_iid_and_a_small_one_is_not(void **state) {
    (void)state;
    static const char *const texts[] = {"dirichlet form=plain alpha=1e6", "dirichlet form=balanced alpha=1e6",
                                        "inner-dirichlet alpha=1e6", "noniid-labeldir alpha=1e6"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        deal(texts[i], 10, 2);
        if (concentration(10) >= 0.13) fail_msg("%s: %g of a client is of one class", texts[i], concentration(10));
    }
    deal("dirichlet form=plain minimum=1 alpha=0.1", 10, 2);
    assert_true(concentration(10) > 0.35);
    deal("dirichlet form=balanced minimum=1 alpha=0.1", 10, 2);
    assert_true(concentration(10) > 0.35);
    deal("inner-dirichlet alpha=0.05", 10, 2);
    assert_true(concentration(10) > 0.5);
}

// With alpha large every class is cut evenly, so who balances and who does not agree; small, the plain form lets a
// client have far more than the average, the balanced one at most a class more.
static void balanced_clients_stop_at_the_average_and_plain_ones_do_not(void **state) {
    (void)state;
    uint32_t largest[2] = {0};
    static const char *const texts[] = {"dirichlet form=plain minimum=1 alpha=0.1",
                                        "dirichlet form=balanced minimum=1 alpha=0.1"};
    for (int i = 0; i < 2; i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            deal(texts[i], 10, seed);
            for (uint32_t client = 0; client < 10; client++)
                if (dealt.sizes[client] > largest[i]) largest[i] = dealt.sizes[client];
        }
    assert_in_range(largest[1], 0, SAMPLES / 10 + SAMPLES / CLASSES);
    assert_true(largest[0] > largest[1]);
}

static void all_have_the_minimum_or_the_partition_is_refused(void **state) {
    (void)state;
    deal("dirichlet form=plain alpha=0.5 minimum=50", 10, 1);
    for (uint32_t client = 0; client < 10; client++)
        assert_in_range(dealt.sizes[client], 50, SAMPLES);
    deal("noniid-labeldir alpha=0.1", 20, 1);
    for (uint32_t client = 0; client < 20; client++)
        assert_in_range(dealt.sizes[client], 10, SAMPLES);
    refuse("dirichlet form=plain alpha=0.01 minimum=100", 50, "after 11 draws");
    refuse("dirichlet form=balanced minimum=700", 10, "fewer than 700 samples");
    // With a minimum of 0, as Flower's min_partition_size may be, the first draw stands, and some have nothing.
    static const char *const any[] = {"dirichlet alpha=0.01 form=plain minimum=0",
                                      "dirichlet alpha=0.01 form=balanced minimum=0", "dirichlet alpha=0.01 minimum=0"};
    for (int i = 0; i < 3; i++) {
        deal(any[i], 50, 1);
        uint32_t without = 0;
        for (uint32_t client = 0; client < 50; client++)
            without += dealt.sizes[client] == 0;
        assert_in_range(without, 1, 49);
        assert_int_equal(dealt.given, SAMPLES);
    }
}

static void alpha_may_differ_from_client_to_client(void **state) {
    (void)state;
    refuse("dirichlet alpha=0.1,0.2", 3, "alpha gives 2 numbers for 3 clients");
    // Gamma numbers of shape 1000 against two of shape 1: the first takes nearly all.
    deal("dirichlet form=plain alpha=1000,1,1 minimum=1", 3, 1);
    assert_in_range(dealt.sizes[0], SAMPLES * 9 / 10, SAMPLES);
}

static void inner_clients_have_the_sizes_that_were_asked_for(void **state) {
    (void)state;
    deal("inner-dirichlet sizes=1000,2000,500 alpha=0.3", 3, 1);
    assert_int_equal(dealt.sizes[0], 1000);
    assert_int_equal(dealt.sizes[1], 2000);
    assert_int_equal(dealt.sizes[2], 500);
    assert_int_equal(dealt.given, 3500);
    refuse("inner-dirichlet sizes=3000,3001", 2, "the sizes make 6001 samples, and there are 6000");
    refuse("inner-dirichlet sizes=10,2.5", 2, "inner-dirichlet: 2.5 samples for client 1; give whole numbers");
}

// With 30 clients of 100 samples no class runs out: the smaller alpha, the more of a client is of one class, also where
// gamma numbers underflow. And with 60, where classes run out, each client goes on with the class it likes next.
static void inner_clients_like_one_class_the_more_the_smaller_alpha_is(void **state) {
    (void)state;
    deal("inner-dirichlet alpha=0.01 sizes=100", 30, 1);
    const double near = concentration(30);
    assert_true(near > 0.9 && near < 1);
    deal("inner-dirichlet alpha=1e-5 sizes=100", 30, 1);
    assert_true(concentration(30) >= near);
    deal("inner-dirichlet alpha=1e-9", 60, 1);
    assert_true(concentration(60) > 0.7);
    assert_int_equal(dealt.given, SAMPLES);
}

// With so many classes each block of 256 has a sum of its own.
static void inner_clients_find_each_of_many_classes(void **state) {
    (void)state;
    enum { MANY = 3000, EACH = 2, CLIENTS = 7 };
    static uint16_t labels[MANY * EACH];
    for (uint32_t i = 0; i < MANY * EACH; i++)
        labels[i] = (uint16_t)(i % MANY);
    PartitionSpec spec = {.clients = CLIENTS, .seed = 1};
    Partition partition;
    Error err;
    check_ok(partition_parse(&spec.form, "inner-dirichlet alpha=0.01", &err));
    const size_t bytes = partition_block_bytes(&spec, MANY * EACH);
    void *block = malloc(bytes);
    check_ok(partition_build(block, &spec, labels, MANY * EACH, MANY, &err));
    check_ok(partition_view(&partition, block, bytes, &err));
    uint8_t seen[MANY * EACH] = {0};
    uint32_t given = 0;
    for (uint32_t client = 0; client < CLIENTS; client++) {
        uint32_t size;
        const uint32_t *indices = partition_client(&partition, client, &size);
        assert_int_equal(size, MANY * EACH / CLIENTS);
        for (uint32_t i = 0; i < size; i++)
            given += seen[indices[i]]++ == 0;
    }
    assert_int_equal(given, MANY * EACH / CLIENTS * CLIENTS);
    free(block);
}

static void what_is_drawn_until_it_fits_is_given_up_in_seconds(void **state) {
    (void)state;
    assert_int_equal(partition_tries(10 * 10), 100000);
    assert_int_equal(partition_tries(1000 * 10), 1000);
    assert_int_equal(partition_tries(100 * 65535), 11);
    refuse("noniid-labeldir alpha=0.01", 300, "samples after 3333 draws");
}

static void with_a_tiny_beta_any_client_may_be_the_one_that_has_all(void **state) {
    (void)state;
    uint32_t first = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        deal("iid-diff-quantity beta=1e-6 minimum=0", 50, seed);
        assert_int_equal(dealt.given, SAMPLES);
        first += dealt.sizes[0] > 0;
    }
    assert_true(first < 2);
}

static void pathological_clients_have_exactly_so_many_classes(void **state) {
    (void)state;
    for (uint32_t classes = 1; classes <= CLASSES; classes += 3) {
        static const char *const forms[] = {"pathological mode=random classes=%u",
                                            "pathological mode=first-deterministic classes=%u",
                                            "pathological mode=deterministic classes=%u", "noniid-label classes=%u"};
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            char text[96];
            snprintf(text, sizeof text, forms[i], classes); // NOLINT: the table's own
            deal(text, 30, 3);
            for (uint32_t client = 0; client < 30; client++) {
                assert_int_equal(classes_of(client), classes);
                if (i > 0) assert_true(dealt.counts[client][client % CLASSES] > 0);
                for (uint32_t c = 0; c < classes && i == 2; c++)
                    assert_true(dealt.counts[client][(client + c) % CLASSES] > 0);
            }
        }
    }
    refuse("pathological classes=11", 5, "classes=11, and the data set has 10");
    refuse("pathological classes=10", 601, "601 clients want samples of class 0, and it has 600");
}

static void classes_that_nobody_drew_are_lost(void **state) {
    (void)state;
    deal("pathological mode=deterministic classes=2", 3, 1); // classes 0 to 3 of ten
    assert_int_equal(dealt.given, 4 * SAMPLES / CLASSES);
    for (uint32_t client = 0; client < 3; client++)
        assert_int_equal(dealt.sizes[client], client == 1 ? 600 : 900);
}

static void shards_are_equal_and_the_rest_is_lost(void **state) {
    (void)state;
    deal("shard per-client=2", 7, 1); // floor(6000 / 14) = 428
    assert_int_equal(dealt.given, 14 * 428);
    for (uint32_t client = 0; client < 7; client++)
        assert_int_equal(dealt.sizes[client], 2 * 428);
    deal("shard size=250", 7, 1); // 24 shards: three clients have four, four have three
    for (uint32_t client = 0; client < 7; client++)
        assert_int_equal(dealt.sizes[client], client < 3 ? 1000 : 750);
    deal("shard size=700 keep-incomplete=yes", 9, 1); // eight whole ones and one of 400
    assert_int_equal(dealt.given, SAMPLES);
    deal("shard size=700", 8, 1);
    assert_int_equal(dealt.given, 5600);
    deal("shard size=100 per-client=3", 5, 1);
    assert_int_equal(dealt.given, 1500);
    refuse("shard", 5, "needs per-client, size or both");
    refuse("shard size=700", 9, "makes 8 shards for 9 clients");
    refuse("shard size=1000 per-client=2", 4, "more than the 6000 there are");
    refuse("shard size=536870912 per-client=536870912", 64, "more than the 6000 there are"); // 2^64 samples
}

static void sizes_grow_as_their_formula_says(void **state) {
    (void)state;
    const struct {
        const char *text;
        double f[4];
    } cases[] = {{"linear", {1, 2, 3, 4}},
                 {"square", {1, 4, 9, 16}},
                 {"exponential", {2.718281828, 7.389056099, 20.08553692, 54.59815003}}};
    for (size_t i = 0; i < 3; i++) {
        double sum = 0;
        uint32_t before = 0;
        deal(cases[i].text, 4, 1);
        for (int k = 0; k < 4; k++)
            sum += cases[i].f[k];
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(dealt.sizes[k], (uint32_t)(SAMPLES * cases[i].f[k] / sum));
            before += dealt.sizes[k];
        }
        assert_int_equal(dealt.sizes[3], SAMPLES - before);
    }
    refuse("exponential", 12, "client 0 of 12 would get no sample");
    refuse("exponential", 1000, "would get no sample");
}

static void runs_of_given_sizes_keep_the_order_of_the_file(void **state) {
    (void)state;
    Error err;
    check_ok(try_to_deal("size sizes=5,0,10", 3, 1, &err));
    uint32_t count;
    const uint32_t *indices = partition_client(&dealt.partition, 2, &count);
    assert_int_equal(count, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(indices[i], 5 + i);
    assert_int_equal(dealt.partition.samples, 15);
    free(dealt.block);
    refuse("size sizes=3000,3001", 2, "the sizes make 6001 samples, and there are 6000");
    refuse("size", 2, "needs its sizes; write size sizes=X");
}

static void a_distribution_gives_neighbouring_classes_by_a_power_law(void **state) {
    (void)state;
    deal("distribution classes=2 preassigned=5", 100, 1);
    uint32_t largest = 0, smallest = SAMPLES;
    for (uint32_t client = 0; client < 100; client++) {
        assert_int_equal(classes_of(client), 2);
        assert_true(dealt.counts[client][client % CLASSES] >= 5 && dealt.counts[client][(client + 1) % CLASSES] >= 5);
        if (dealt.sizes[client] > largest) largest = dealt.sizes[client];
        if (dealt.sizes[client] < smallest) smallest = dealt.sizes[client];
    }
    assert_true(largest > 10 * smallest); // sigma 2: most clients are small
    refuse("distribution", 15, "must be a multiple of the data set's 10 classes");
    refuse("distribution preassigned=31", 100, "lower preassigned");
}

static void similarity_is_the_share_that_is_dealt_at_random(void **state) {
    (void)state;
    double before = 2;
    static const char *const texts[] = {"similarity percent=0", "similarity percent=10", "similarity percent=50",
                                        "similarity percent=100"};
    for (int i = 0; i < 4; i++) {
        deal(texts[i], 10, 1);
        assert_int_equal(dealt.given, SAMPLES);
        for (uint32_t client = 0; client < 10; client++)
            assert_in_range(dealt.sizes[client], SAMPLES / 10 - 2, SAMPLES / 10 + 2);
        assert_true(concentration(10) < before);
        before = concentration(10);
        if (i == 0) assert_true(before > 0.999); // ten clients of the ten classes
    }
    assert_true(before < 0.15);
    deal("similarity percent=0 iid-clients=2", 10, 1);
    assert_int_equal(dealt.given, SAMPLES);
    for (uint32_t client = 0; client < 10; client++) {
        assert_in_range(dealt.sizes[client], SAMPLES / 10 - 1, SAMPLES / 10 + 1);
        if (client < 8) assert_true(classes_of(client) <= 3);
        if (client >= 8) assert_int_equal(classes_of(client), CLASSES);
    }
    refuse("similarity percent=0 iid-clients=10", 10, "there are only 10 clients; lower it");
}

static void quantities_differ_and_classes_do_not(void **state) {
    (void)state;
    deal("iid-diff-quantity beta=0.5", 10, 1);
    uint32_t smallest = SAMPLES, largest = 0;
    assert_int_equal(dealt.given, SAMPLES);
    for (uint32_t client = 0; client < 10; client++) {
        if (dealt.sizes[client] < smallest) smallest = dealt.sizes[client];
        if (dealt.sizes[client] > largest) largest = dealt.sizes[client];
        if (dealt.sizes[client] > 500) assert_int_equal(classes_of(client), CLASSES);
    }
    assert_true(smallest >= 9 && largest > 5 * smallest);
    deal("iid-diff-quantity beta=1e6", 10, 1);
    for (uint32_t client = 0; client < 10; client++)
        assert_in_range(dealt.sizes[client], 590, 610);
    refuse("iid-diff-quantity minimum=601", 10, "fewer than 601 samples");
}

static void homo_is_iid(void **state) {
    (void)state;
    uint32_t sizes[7];
    deal("iid", 7, 1);
    memcpy(sizes, dealt.sizes, sizeof sizes);
    deal("homo", 7, 1);
    assert_memory_equal(sizes, dealt.sizes, sizeof sizes);
}

// A data set of one-pixel images, darker from sample to sample.
static void strict_clients_are_sorted_by_brightness(void **state) {
    (void)state;
    enum { COUNT = 1000, PARTS = 4 };
    static uint8_t pixels[COUNT];
    static uint16_t labels[COUNT];
    static uint64_t block[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        pixels[i] = (uint8_t)(255 - i / 4);
    Dataset data = {
        .shape = {1, 1, 1}, .items = {.pixel_bytes = 1, .label_bytes = 1}, .train = {.count = COUNT, .pixels = pixels}};
    double spread[3];
    for (int strictness = 0; strictness < 3; strictness++) {
        char text[64];
        Error err;
        Partition partition;
        PartitionSpec spec = {.clients = PARTS, .seed = 1, .data = &data};
        snprintf(text, sizeof text, "continuous strictness=%g", strictness / 2.0);
        check_ok(partition_parse(&spec.form, text, &err));
        check_ok(partition_build(block, &spec, labels, COUNT, 1, &err));
        check_ok(partition_view(&partition, block, sizeof block, &err));
        double means[PARTS] = {0};
        for (uint32_t client = 0; client < PARTS; client++) {
            uint32_t count;
            const uint32_t *indices = partition_client(&partition, client, &count);
            assert_int_equal(count, COUNT / PARTS);
            for (uint32_t i = 0; i < count; i++)
                means[client] += pixels[indices[i]] / (double)count;
            if (strictness == 2 && client > 0) assert_true(means[client] > means[client - 1] + 60);
        }
        spread[strictness] = means[PARTS - 1] - means[0];
    }
    assert_true(spread[0] < 20 && spread[0] > -20 && spread[1] > 50 && spread[2] > spread[1]);
}

static void groups_have_so_many_users_in_the_order_of_appearance(void **state) {
    (void)state;
    enum { USERS = 7 };
    static const uint32_t owners[USERS * 2] = {3, 0, 6, 1, 2, 5, 4, 3, 0, 6, 1, 2, 5, 4};
    static const struct {
        const char *text;
        uint32_t clients, sizes[4];
    } cases[] = {{"grouped-natural-id size=2", 4, {4, 4, 4, 2}},
                 {"grouped-natural-id size=3 mode=allow-bigger", 2, {8, 6}},
                 {"grouped-natural-id size=3 mode=drop-reminder", 2, {6, 6}},
                 {"grouped-natural-id size=7 mode=strict", 1, {14}}};
    Error err;
    uint64_t block[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Partition partition;
        PartitionSpec spec = {.clients = cases[i].clients, .seed = 1, .owners = owners, .users = USERS};
        check_ok(partition_parse(&spec.form, cases[i].text, &err));
        check_ok(partition_build(block, &spec, NULL, 2 * USERS, 1, &err));
        check_ok(partition_view(&partition, block, sizeof block, &err));
        for (uint32_t client = 0; client < cases[i].clients; client++) {
            uint32_t count;
            partition_client(&partition, client, &count);
            assert_int_equal(count, cases[i].sizes[client]);
        }
    }
    PartitionSpec spec = {.clients = 3, .seed = 1, .owners = owners, .users = USERS};
    check_ok(partition_parse(&spec.form, "grouped-natural-id size=3 mode=strict", &err));
    assert_int_equal(partition_build(block, &spec, NULL, 2 * USERS, 1, &err), STATUS_USAGE);
    check_ok(partition_parse(&spec.form, "grouped-natural-id size=2", &err));
    assert_int_equal(partition_build(block, &spec, NULL, 2 * USERS, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "7 users make 4 groups, and there are 3 clients"));
}

static void leaf_takes_users_until_it_has_its_fraction(void **state) {
    (void)state;
    enum { USERS = 10, COUNT = 145 };
    static uint32_t owners[COUNT], sizes[USERS];
    static uint64_t block[COUNT];
    Error err;
    for (uint32_t user = 0, s = 0; user < USERS; user++) // 10, 11, ... 19 samples
        for (uint32_t i = 0; i < 10 + user; i++, s++) {
            owners[s] = user;
            sizes[user]++;
        }
    PartitionSpec spec = {.clients = 1, .seed = 1, .owners = owners, .users = USERS};
    check_ok(partition_parse(&spec.form, "leaf fraction=0.5 minimum=12", &err));
    Status status = STATUS_USAGE;
    for (; status == STATUS_USAGE && spec.clients < USERS; spec.clients += status == STATUS_USAGE)
        status = partition_build(block, &spec, NULL, COUNT, 1, &err);
    check_ok(status);
    Partition partition;
    check_ok(partition_view(&partition, block, sizeof block, &err));
    assert_int_equal(partition.samples, COUNT / 2);
    for (uint32_t client = 0; client < spec.clients; client++) {
        uint32_t count;
        const uint32_t *indices = partition_client(&partition, client, &count), user = owners[indices[0]];
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(owners[indices[i]], user);
        assert_in_range(sizes[user], 12, 19);
        if (client + 1 < spec.clients) assert_int_equal(count, sizes[user]);
    }
    spec.clients = USERS + 1;
    assert_int_equal(partition_build(block, &spec, NULL, COUNT, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "of 10 users, and there are 11 clients; set --clients"));
}

static void leaf_iid_deals_a_fraction_of_all_samples_evenly(void **state) {
    (void)state;
    enum { COUNT = 1000, CLIENTS = 7 };
    static uint64_t block[COUNT];
    bool taken[COUNT] = {false};
    Error err;
    PartitionSpec spec = {.clients = CLIENTS, .seed = 1};
    check_ok(partition_parse(&spec.form, "leaf-iid fraction=0.3", &err));
    check_ok(partition_build(block, &spec, NULL, COUNT, 1, &err));
    Partition partition;
    check_ok(partition_view(&partition, block, sizeof block, &err));
    uint32_t total = 0, late = 0;
    for (uint32_t client = 0; client < CLIENTS; client++) {
        uint32_t count;
        const uint32_t *indices = partition_client(&partition, client, &count);
        assert_in_range(count, 300 / CLIENTS, 300 / CLIENTS + 1);
        total += count;
        for (uint32_t i = 0; i < count; i++) {
            assert_false(taken[indices[i]]);
            taken[indices[i]] = true;
            late += indices[i] >= COUNT / 2;
        }
    }
    assert_int_equal(total, 300);
    assert_in_range(late, 100, 200); // from everywhere
}

static void a_mistyped_form_is_told_with_the_right_one(void **state) {
    (void)state;
    refuse("pathologcal", 2,
           "pathologcal: no such partition (did you mean pathological?); `sounder help partitions` lists them");
    refuse("pathological clases=2", 2,
           "pathological: clases=2 is no part of it (did you mean classes?); write pathological "
           "[classes=2] [mode=random|first-deterministic|deterministic]");
    refuse("pathological classes=0", 2, "pathological: classes=0: needs a whole number from 1 to 65535");
    refuse("pathological classes=2.5", 2, "classes=2.5: needs a whole number");
    refuse("pathological mode=randm", 2, "mode=randm: needs one of random first-deterministic deterministic");
    refuse("pathological classes=2 classes=3", 2, "classes is given twice");
    refuse("dirichlet alpha=0.1,", 2, "alpha=0.1,: needs a number from 1e-09 to 1000000000, or several between commas");
    refuse("iid:x", 2, "iid: :x is no part of it; write iid");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_loses_no_sample_gives_each_one_once),
        cmocka_unit_test(a_large_alpha_is_near_iid_and_a_small_one_is_not),
        cmocka_unit_test(balanced_clients_stop_at_the_average_and_plain_ones_do_not),
        cmocka_unit_test(all_have_the_minimum_or_the_partition_is_refused),
        cmocka_unit_test(alpha_may_differ_from_client_to_client),
        cmocka_unit_test(inner_clients_have_the_sizes_that_were_asked_for),
        cmocka_unit_test(inner_clients_like_one_class_the_more_the_smaller_alpha_is),
        cmocka_unit_test(inner_clients_find_each_of_many_classes),
        cmocka_unit_test(with_a_tiny_beta_any_client_may_be_the_one_that_has_all),
        cmocka_unit_test(what_is_drawn_until_it_fits_is_given_up_in_seconds),
        cmocka_unit_test(pathological_clients_have_exactly_so_many_classes),
        cmocka_unit_test(classes_that_nobody_drew_are_lost),
        cmocka_unit_test(shards_are_equal_and_the_rest_is_lost),
        cmocka_unit_test(sizes_grow_as_their_formula_says),
        cmocka_unit_test(runs_of_given_sizes_keep_the_order_of_the_file),
        cmocka_unit_test(a_distribution_gives_neighbouring_classes_by_a_power_law),
        cmocka_unit_test(similarity_is_the_share_that_is_dealt_at_random),
        cmocka_unit_test(quantities_differ_and_classes_do_not),
        cmocka_unit_test(homo_is_iid),
        cmocka_unit_test(strict_clients_are_sorted_by_brightness),
        cmocka_unit_test(groups_have_so_many_users_in_the_order_of_appearance),
        cmocka_unit_test(leaf_takes_users_until_it_has_its_fraction),
        cmocka_unit_test(leaf_iid_deals_a_fraction_of_all_samples_evenly),
        cmocka_unit_test(a_mistyped_form_is_told_with_the_right_one),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
