// Made-up federations: what their forms say, whose the samples are, and that form and seed alone decide.
#include "datasets/synthetic/federation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/partition.h"
#include "tests/check.h"

typedef struct Loaded {
    DatasetSource source;
    void *block;
    Dataset data;
} Loaded;

static void load(Loaded *loaded, const char *text, uint64_t seed) {
    Error err;
    check_ok(dataset_find(&loaded->source, text, seed, &err));
    loaded->block = aligned_alloc(64, loaded->source.block_bytes);
    check_ok(dataset_read(loaded->block, &loaded->source, &err));
    check_ok(dataset_view(&loaded->data, loaded->block, loaded->source.block_bytes, &err));
}

static float value_at(const DatasetSplit *split, size_t i) {
    float value;
    memcpy(&value, split->pixels + i * sizeof value, sizeof value);
    return value;
}

static float target_at(const DatasetSplit *split, size_t i) {
    float value;
    value = ((const float *)(const void *)split->labels)[i];
    return value;
}

// The mean loss of user `user` in weight w and bias c.
static double loss_of(const DatasetSplit *split, uint32_t user, double w, double c) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t s = 0; s < split->count; s++)
        if (split->owners[s] == user) {
            double distance = (double)value_at(split, s) * w + c - (double)target_at(split, s);
            sum += distance * distance / 2;
            count++;
        }
    return sum / count;
}

static void quadratics_have_the_curvatures_and_optima_of_their_form(void **state) {
    (void)state;
    Loaded loaded;
    const double a[3] = {1, 4, 0.3}, b[3] = {0, -2, 5};
    const uint32_t samples[3] = {2, 4, 6};
    load(&loaded, "quadratics a=1,4,0.3 b=0,-2,5 samples=2,4,6", 1);
    const Dataset *data = &loaded.data;
    assert_int_equal(data->users, 3);
    assert_int_equal(data->train.count, 12);
    assert_int_equal(data->classes, 1);
    assert_int_equal(data->items.label_bytes, 4);
    assert_memory_equal(data->train.pixels, data->test.pixels, 12 * sizeof(float));
    for (uint32_t user = 0; user < 3; user++)
        for (double w = -3; w <= 3; w++)
            for (double c = -1; c <= 1; c++) {
                double expected = a[user] / 2 * (w - b[user]) * (w - b[user]) + c * c / 2;
                assert_true(fabs(loss_of(&data->train, user, w, c) - expected) < 1e-5 * (1 + expected));
            }
    uint32_t owned[3] = {0};
    for (uint32_t s = 0; s < 12; s++)
        owned[data->train.owners[s]]++;
    assert_memory_equal(owned, samples, sizeof samples);
    free(loaded.block);
}

static void natural_id_gives_every_client_its_own(void **state) {
    (void)state;
    Loaded loaded;
    Error err = {.message = ""};
    uint64_t block[256];
    Partition partition;
    load(&loaded, "quadratics a=1,4,2 b=0 samples=4", 1);
    PartitionSpec spec = {.clients = 3, .seed = 1, .owners = loaded.data.train.owners, .users = 3};
    check_ok(partition_parse(&spec.form, "natural-id", &err));
    check_ok(partition_build(block, &spec, NULL, 12, 1, &err));
    check_ok(partition_view(&partition, block, sizeof block, &err));
    for (uint32_t client = 0; client < 3; client++) {
        uint32_t count;
        const uint32_t *indices = partition_client(&partition, client, &count);
        assert_int_equal(count, 4);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(loaded.data.train.owners[indices[i]], client);
    }
    spec.clients = 2;
    assert_int_equal(partition_build(block, &spec, NULL, 12, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "has 3 users, and there are 2 clients"));
    static const char *const by_class[] = {"dirichlet", "shards", "inner-dirichlet", "pathological", "shard size=2"};
    for (size_t i = 0; i < sizeof by_class / sizeof *by_class; i++) {
        check_ok(partition_parse(&spec.form, by_class[i], &err));
        assert_int_equal(partition_build(block, &spec, NULL, 12, 1, &err), STATUS_USAGE);
        if (!strstr(err.message, ": deals by class, and the data set has targets instead of classes"))
            fail_msg("%s: %s", by_class[i], err.message);
    }
    spec.owners = NULL;
    check_ok(partition_parse(&spec.form, "natural-id", &err));
    assert_int_equal(partition_build(block, &spec, NULL, 12, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "nobody owns the samples"));
    free(loaded.block);
}

static uint32_t samples_of(const DatasetSplit *split, uint32_t user) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < split->count; s++)
        count += split->owners[s] == user;
    return count;
}

// Every owner is a user, every label a class, every value finite; each user has its samples.
static void expect_sound(const Dataset *data) {
    const DatasetSplit *splits[] = {&data->train, &data->test};
    for (int i = 0; i < 2; i++)
        for (uint32_t s = 0; s < splits[i]->count; s++) {
            assert_in_range(splits[i]->owners[s], 0, data->users - 1);
            assert_in_range(splits[i]->labels[s], 0, data->classes - 1);
            for (int j = 0; j < data->shape.columns; j++)
                assert_true(isfinite(value_at(splits[i], s * (size_t)data->shape.columns + (size_t)j)));
        }
}

static void federations_are_as_large_as_their_sources_say(void **state) {
    (void)state;
    Loaded loaded;
    load(&loaded, "synthetic-fedprox alpha=1 beta=1", 1);
    assert_int_equal(loaded.data.users, 30);
    assert_int_equal(loaded.data.shape.columns, 60);
    assert_int_equal(loaded.data.classes, 10);
    expect_sound(&loaded.data);
    uint32_t smallest = UINT32_MAX, largest = 0;
    for (uint32_t user = 0; user < 30; user++) {
        uint32_t trains = samples_of(&loaded.data.train, user), tests = samples_of(&loaded.data.test, user);
        assert_int_equal(trains, (uint32_t)(0.9 * (trains + tests)));
        if (trains + tests < smallest) smallest = trains + tests;
        if (trains + tests > largest) largest = trains + tests;
    }
    assert_true(smallest >= 50 && largest > 5 * smallest); // int(lognormal(4, 2)) + 50
    free(loaded.block);

    load(&loaded, "synthetic-feddyn", 1);
    assert_int_equal(loaded.data.train.count, 20 * 200);
    assert_int_equal(loaded.data.classes, 5);
    assert_memory_equal(loaded.data.train.pixels, loaded.data.test.pixels, 4000 * 30 * sizeof(float));
    expect_sound(&loaded.data);
    free(loaded.block);

    load(&loaded, "synthetic-feddyn samples=1 theta=2", 1); // of which many a drawn size is 0
    assert_true(loaded.data.train.count > 20);
    for (uint32_t user = 0; user < 20; user++)
        assert_in_range(samples_of(&loaded.data.train, user), 1, UINT32_MAX);
    free(loaded.block);

    load(&loaded, "synthetic-leaf users=50 classes=3 clusters=4", 1);
    assert_int_equal(loaded.data.users, 50);
    for (uint32_t user = 0; user < 50; user++)
        assert_in_range(samples_of(&loaded.data.train, user) + samples_of(&loaded.data.test, user), 5, 1000);
    expect_sound(&loaded.data);
    free(loaded.block);
}

static void the_points_of_fcube_lie_in_two_octants_of_each_user(void **state) {
    (void)state;
    Loaded loaded;
    load(&loaded, "fcube", 1);
    const Dataset *data = &loaded.data;
    assert_int_equal(data->train.count, 4000);
    assert_int_equal(data->test.count, 1000);
    expect_sound(data);
    const DatasetSplit *splits[] = {&data->train, &data->test};
    for (int i = 0; i < 2; i++)
        for (uint32_t s = 0; s < splits[i]->count; s++) {
            float x = value_at(splits[i], 3 * s), y = value_at(splits[i], 3 * s + 1),
                  z = value_at(splits[i], 3 * s + 2);
            if (x == 0 || y == 0 || z == 0) continue;
            assert_int_equal(splits[i]->labels[s], x < 0);
            assert_int_equal(splits[i]->owners[s], 2 * (x * y < 0) + (x * z < 0));
        }
    free(loaded.block);
}

// The largest share of one class in a user's samples, the mean over the users.
static double concentration(const Dataset *data) {
    double sum = 0;
    for (uint32_t user = 0; user < data->users; user++) {
        uint32_t counts[10] = {0}, most = 0;
        for (uint32_t s = 0; s < data->train.count; s++)
            if (data->train.owners[s] == user && ++counts[data->train.labels[s]] > most)
                most = counts[data->train.labels[s]];
        sum += (double)most / samples_of(&data->train, user);
    }
    return sum / data->users;
}

static void users_differ_more_the_larger_alpha_and_beta_are(void **state) {
    (void)state;
    static const char *const texts[] = {"synthetic-fedprox iid=yes", "synthetic-fedprox",
                                        "synthetic-fedprox alpha=1 beta=1"};
    double before = 0;
    for (size_t i = 0; i < 3; i++) {
        Loaded loaded;
        load(&loaded, texts[i], 3);
        assert_true(concentration(&loaded.data) > before);
        before = concentration(&loaded.data);
        free(loaded.block);
    }
}

static void form_and_seed_alone_decide(void **state) {
    (void)state;
    static const char *const texts[] = {"synthetic-fedprox users=5", "synthetic-feddyn", "synthetic-leaf users=9",
                                        "fcube"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Loaded first, again, other;
        load(&first, texts[i], 1);
        load(&again, texts[i], 1);
        load(&other, texts[i], 2);
        assert_int_equal(first.source.block_bytes, again.source.block_bytes);
        assert_memory_equal(first.block, again.block, first.source.block_bytes);
        assert_memory_not_equal(first.data.train.pixels, other.data.train.pixels, 64);
        free(first.block);
        free(again.block);
        free(other.block);
    }
}

static void wrong_forms_are_refused_with_the_right_one(void **state) {
    (void)state;
    const struct {
        const char *data, *part;
    } wrong[] = {
        {"quadratics", "needs its a; write quadratics a=X,... b=X,... [samples=2,...]"},
        {"quadratics a=1,2 b=1,2,3", "b gives 3 numbers, and a gives 2"},
        {"quadratics a=0 b=1", "a=0: needs a number from 1e-06 to 1000000, or several between commas"},
        {"quadratics a=1 b=1 samples=3", "give even whole numbers"},
        {"clients", "needs its N; write clients:N"},
        {"clients:0", "clients:0: needs a whole number from 1 to 1000000; write clients:10"},
        {"quadratics a=1 b=1 smples=3", "smples=3 is no part of it (did you mean samples?)"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        DatasetSource source;
        Error err = {.message = ""};
        assert_int_equal(dataset_find(&source, wrong[i].data, 1, &err), STATUS_USAGE);
        if (!strstr(err.message, wrong[i].part)) fail_msg("\"%s\" does not say \"%s\"", err.message, wrong[i].part);
    }
    DatasetSource source;
    Error err;
    assert_int_equal(dataset_find(&source, "quadratic", 1, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "did you mean quadratics?"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quadratics_have_the_curvatures_and_optima_of_their_form),
        cmocka_unit_test(natural_id_gives_every_client_its_own),
        cmocka_unit_test(federations_are_as_large_as_their_sources_say),
        cmocka_unit_test(the_points_of_fcube_lie_in_two_octants_of_each_user),
        cmocka_unit_test(users_differ_more_the_larger_alpha_and_beta_are),
        cmocka_unit_test(form_and_seed_alone_decide),
        cmocka_unit_test(wrong_forms_are_refused_with_the_right_one),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
