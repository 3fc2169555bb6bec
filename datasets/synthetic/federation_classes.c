// Part of federation.h: federations whose users have linear models of their own: a sample's class is the largest score
// of its user's model.
//   synthetic-fedprox   Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, MLSys 2020: generate_synthetic.py, generate_iid.py
//   synthetic-feddyn    Acar et al., ICLR 2021: generate_syn_logistic of their code; the test set is the training set
//   synthetic-leaf      LEAF (Caldas et al. 2018): data/synthetic/data_generator.py; users come from clusters
//   fcube               NIID-Bench (Li, Diao, Chen, He, ICDE 2022): points of a cube, a user for two opposite octants
// The original programs draw from numpy's generator, this code from the counter-based one: the distributions are equal,
// the numbers are not. alpha and beta are standard deviations, as in their code.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/synthetic/federation.h"

// The streams of RNG_FEDERATION: the first index of a key.
enum { STREAM_SIZES, STREAM_USER, STREAM_WEIGHTS, STREAM_MEANS, STREAM_SAMPLES, STREAM_CLUSTERS, STREAM_LOGITS };

static RngKey key_of(const DatasetSource *source, uint32_t stream, uint32_t user, uint32_t sample) {
    return rng_key(source->seed, RNG_FEDERATION, stream, user, sample);
}

static double normal(RngKey key, uint32_t index, double mean, double stddev) {
    return mean + stddev * rng_normal(key, index);
}

// A user --------------------------------------------------------------------------------------------------------------

enum { MOST_DIMENSIONS = 1024, MOST_CLASSES = 100 };

typedef struct User {
    uint32_t dimensions, classes;
    double mean[MOST_DIMENSIONS];                   // of its samples; the variance of coordinate j (from 1) is j^-1.2
    double weights[MOST_DIMENSIONS * MOST_CLASSES]; // (classes, dimensions)
    double bias[MOST_CLASSES];
    double noise; // standard deviation of the noise on the scores
} User;

static void draw_model(User *user, RngKey key, double mean) {
    for (uint32_t c = 0; c < user->classes; c++) {
        user->bias[c] = normal(key, c, mean, 1);
        for (uint32_t j = 0; j < user->dimensions; j++)
            user->weights[c * user->dimensions + j] = normal(key, MOST_CLASSES + c * user->dimensions + j, mean, 1);
    }
}

static void draw_means(User *user, RngKey key, double mean) {
    for (uint32_t j = 0; j < user->dimensions; j++)
        user->mean[j] = normal(key, j, mean, 1);
}

// Writes one sample's values and returns its class.
static uint16_t draw_sample(float *values, const User *user, RngKey key, RngKey logits) {
    double best = -INFINITY;
    uint32_t label = 0;
    for (uint32_t j = 0; j < user->dimensions; j++)
        values[j] = (float)normal(key, j, user->mean[j], sqrt(pow(j + 1, -1.2)));
    for (uint32_t c = 0; c < user->classes; c++) {
        double score = user->bias[c] + (user->noise > 0 ? normal(logits, c, 0, user->noise) : 0);
        for (uint32_t j = 0; j < user->dimensions; j++)
            score += user->weights[c * user->dimensions + j] * (double)values[j];
        if (score > best) best = score, label = c;
    }
    return (uint16_t)label;
}

// to: moves to the next sample.
static void put_sample(DatasetArrays *to, uint32_t owner, const float *values, size_t count, uint16_t label) {
    to->samples = mempcpy(to->samples, values, count * sizeof *values);
    *to->labels++ = label;
    *to->owners++ = owner;
}

// Draws all samples of one user; with `shared` each is used for both training and test.
static void fill_user(DatasetArrays to[DATASET_SPLITS], const User *user, const DatasetSource *source, uint32_t number,
                      uint32_t size, bool shared) {
    float values[MOST_DIMENSIONS];
    const uint32_t train_part = (uint32_t)(0.9 * size);
    for (uint32_t i = 0; i < size; i++) {
        uint16_t label = draw_sample(values, user, key_of(source, STREAM_SAMPLES, number, i),
                                     key_of(source, STREAM_LOGITS, number, i));
        bool trains = shared || i < train_part, tests = shared || i >= train_part;
        if (trains) put_sample(&to[DATASET_TRAIN], number, values, user->dimensions, label);
        if (tests) put_sample(&to[DATASET_TEST], number, values, user->dimensions, label);
    }
}

static void set_classes(DatasetSource *source, uint32_t users, uint32_t dimensions, uint32_t classes) {
    source->users = users;
    source->shape = (Shape){1, 1, (int)dimensions};
    source->classes = (int)classes;
}

struct UserKind {
    void (*describe)(DatasetSource *source);                                // sets users, shape and classes
    double (*size)(const DatasetSource *source, uint32_t number);           // samples of a user, a whole number
    void (*draw)(User *user, const DatasetSource *source, uint32_t number); // its model and means, which are 0 at first
    bool shared;                                                            // the test set is the training set
};

// Sets the sizes of a source. Samples are added as doubles, because extreme numbers of the form give more samples than
// 32 bits can count.
static Status describe_users(DatasetSource *source, const UserKind *kind, Error *err) {
    double samples = 0, train = 0;
    kind->describe(source);
    for (uint32_t number = 0; number < source->users; number++) {
        const double size = kind->size(source, number);
        samples += size;
        train += kind->shared ? size : floor(0.9 * size);
    }
    if (samples > 1e8)
        return fail(err, STATUS_USAGE, "%s: %.0f samples; lower users or what makes their sizes differ", source->name,
                    samples);
    source->counts[DATASET_TRAIN] = (uint32_t)train;
    source->counts[DATASET_TEST] = (uint32_t)(kind->shared ? samples : samples - train);
    return STATUS_OK;
}

static Status fill_users(const DatasetArrays *arrays, const DatasetSource *source, const UserKind *kind, Error *err) {
    DatasetArrays to[] = {arrays[DATASET_TRAIN], arrays[DATASET_TEST]};
    User *user = calloc(1, sizeof *user);
    if (!user) return fail(err, STATUS_OS, "no memory for a user of %s", source->name);
    user->dimensions = (uint32_t)source->shape.columns;
    user->classes = (uint32_t)source->classes;
    for (uint32_t number = 0; number < source->users; number++) {
        kind->draw(user, source, number);
        fill_user(to, user, source, number, (uint32_t)kind->size(source, number), kind->shared);
    }
    free(user);
    return STATUS_OK;
}

// FedProx -------------------------------------------------------------------------------------------------------------

enum { PROX_ALPHA, PROX_BETA, PROX_USERS, PROX_IID, PROX_DIMENSIONS = 60, PROX_CLASSES = 10 };

// Size of a user: int(lognormal(4, 2)) + 50.
static double prox_size(const DatasetSource *source, uint32_t number) {
    return floor(exp(normal(key_of(source, STREAM_SIZES, 0, 0), number, 4, 2))) + 50;
}

static void draw_prox(User *user, const DatasetSource *source, uint32_t number) {
    const double *numbers = source->federation.number;
    const RngKey own = key_of(source, STREAM_USER, number, 0);
    if (numbers[PROX_IID] != 0) { // one model for all users, without means
        draw_model(user, key_of(source, STREAM_WEIGHTS, 0, 0), 0);
        return;
    }
    draw_model(user, key_of(source, STREAM_WEIGHTS, number, 0), normal(own, 0, 0, numbers[PROX_ALPHA]));
    draw_means(user, key_of(source, STREAM_MEANS, number, 0), normal(own, 1, 0, numbers[PROX_BETA]));
}

static void describe_prox(DatasetSource *source) {
    set_classes(source, (uint32_t)source->federation.number[PROX_USERS], PROX_DIMENSIONS, PROX_CLASSES);
}

// FedDyn --------------------------------------------------------------------------------------------------------------

enum { DYN_ALPHA, DYN_BETA, DYN_THETA, DYN_USERS, DYN_SAMPLES, DYN_ONE_MODEL, DYN_NO_MEANS };

// Size of a user: int(lognormal(log(average), theta)), at least 1.
static double dyn_size(const DatasetSource *source, uint32_t number) {
    const double *numbers = source->federation.number;
    double size = floor(
        exp(normal(key_of(source, STREAM_SIZES, 0, 0), number, log(numbers[DYN_SAMPLES] + 1e-3), numbers[DYN_THETA])));
    return size < 1 ? 1 : size;
}

static void draw_dyn(User *user, const DatasetSource *source, uint32_t number) {
    const double *numbers = source->federation.number;
    const bool one_model = numbers[DYN_ONE_MODEL] != 0;
    const RngKey own = key_of(source, STREAM_USER, number, 0);
    draw_model(user, key_of(source, STREAM_WEIGHTS, one_model ? 0 : number, 0),
               one_model ? 0 : normal(own, 0, 0, numbers[DYN_ALPHA]));
    if (numbers[DYN_NO_MEANS] == 0)
        draw_means(user, key_of(source, STREAM_MEANS, number, 0), normal(own, 1, 0, numbers[DYN_BETA]));
}

static void describe_dyn(DatasetSource *source) {
    set_classes(source, (uint32_t)source->federation.number[DYN_USERS], 30, 5);
}

// LEAF ----------------------------------------------------------------------------------------------------------------

enum { LEAF_USERS, LEAF_CLASSES, LEAF_CLUSTERS, LEAF_DIMENSIONS, MOST_CLUSTERS = 32 };

// Size of a user: min(int(lognormal(3, 2)) + 5, 1000).
static double leaf_size(const DatasetSource *source, uint32_t number) {
    return fmin(floor(exp(normal(key_of(source, STREAM_SIZES, 0, 0), number, 3, 2))) + 5, 1000);
}

// W = Q m: every weight of a user is a mixture of as many numbers as there are clusters; the mixture m is near its
// cluster's.
static void draw_leaf(User *user, const DatasetSource *source, uint32_t number) {
    const uint32_t clusters = (uint32_t)source->federation.number[LEAF_CLUSTERS];
    RngKey own = key_of(source, STREAM_USER, number, 0), shared = key_of(source, STREAM_WEIGHTS, 0, 0);
    uint32_t cluster = rng_below(rng_block(own, 0, 3, 0, 0).word[0], clusters);
    RngKey of_cluster = key_of(source, STREAM_CLUSTERS, cluster, 0);
    double mix[MOST_CLUSTERS], location = normal(of_cluster, MOST_CLUSTERS, 0, 1);
    for (uint32_t i = 0; i < clusters; i++)
        mix[i] = normal(own, 2 + i, normal(of_cluster, i, location, 1), 0.1);
    for (uint32_t c = 0; c < user->classes; c++)
        for (uint32_t j = 0; j <= user->dimensions; j++) {
            double weight = 0;
            for (uint32_t i = 0; i < clusters; i++)
                weight += mix[i] * normal(shared, ((j * user->classes) + c) * MOST_CLUSTERS + i, 0, 1);
            if (j == 0)
                user->bias[c] = weight;
            else
                user->weights[c * user->dimensions + j - 1] = weight;
        }
    draw_means(user, key_of(source, STREAM_MEANS, number, 0), normal(own, 0, 0, 1));
    user->noise = 0.1;
}

static void describe_leaf(DatasetSource *source) {
    const double *numbers = source->federation.number;
    set_classes(source, (uint32_t)numbers[LEAF_USERS], (uint32_t)numbers[LEAF_DIMENSIONS],
                (uint32_t)numbers[LEAF_CLASSES]);
}

// FCUBE ---------------------------------------------------------------------------------------------------------------

enum { CUBE_USERS = 4, CUBE_TESTS = 1000 };

static Status describe_fcube(DatasetSource *source, const UserKind *kind, Error *err) {
    (void)kind, (void)err;
    set_classes(source, CUBE_USERS, 3, 2);
    source->counts[DATASET_TRAIN] = CUBE_USERS * (uint32_t)source->federation.number[0];
    source->counts[DATASET_TEST] = CUBE_TESTS;
    return STATUS_OK;
}

// A user's two octants are opposite, so that each user has samples of both classes.
static Status fill_fcube(const DatasetArrays *arrays, const DatasetSource *source, const UserKind *kind, Error *err) {
    (void)kind, (void)err;
    DatasetArrays train = arrays[DATASET_TRAIN], test = arrays[DATASET_TEST];
    for (uint32_t user = 0; user < CUBE_USERS; user++)
        for (uint32_t i = 0; i < (uint32_t)source->federation.number[0]; i++) {
            RngBlock block = rng_block(key_of(source, STREAM_SAMPLES, user, i), 0, 0, 0, 0);
            float side = i % 2 ? -1 : 1; // of the first coordinate: the class
            float values[3] = {side * rng_float(block.word[0]), (user > 1 ? -side : side) * rng_float(block.word[1]),
                               (user % 2 ? -side : side) * rng_float(block.word[2])};
            put_sample(&train, user, values, 3, i % 2);
        }
    for (uint32_t i = 0; i < CUBE_TESTS; i++) {
        RngBlock block = rng_block(key_of(source, STREAM_SAMPLES, CUBE_USERS, i), 0, 0, 0, 0);
        float values[3];
        for (int j = 0; j < 3; j++)
            values[j] = 2 * rng_float(block.word[j]) - 1;
        // The user whose octants contain the point.
        uint32_t user = (values[1] * values[0] < 0 ? 2u : 0u) + (values[2] * values[0] < 0 ? 1u : 0u);
        put_sample(&test, user, values, 3, values[0] > 0 ? 0 : 1);
    }
    return STATUS_OK;
}

// The rows ------------------------------------------------------------------------------------------------------------

#define DEVIATION(name_, preset_, help_)                                                                               \
    {                                                                                                                  \
        .name = name_, .type = FORM_REAL, .minimum = 0, .maximum = 100, .preset = preset_,                             \
        .help = "standard deviation " help_                                                                            \
    }
#define USERS(preset_)                                                                                                 \
    { .name = "users", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = preset_, .help = "how many" }

// clang-format off
const Federation fedprox_federation = {
    .text = {.name = "synthetic-fedprox", .source = "FedProx: synthetic(alpha, beta)",
        .help = "60 numbers, 10 classes by each user's own linear model; sizes int(lognormal(4, 2)) + 50, a tenth of them tested",
        .keys = {DEVIATION("alpha", "0", "of the means of the users' models"), DEVIATION("beta", "0", "of the means of the users' data"),
                 USERS("30"), {.name = "iid", .type = FORM_CHOICE, .choices = "no yes", .preset = "no", .help = "one model and no means: synthetic_iid"}}},
    .describe = describe_users, .fill = fill_users,
    .kind = &(const UserKind){.describe = describe_prox, .size = prox_size, .draw = draw_prox}};
const Federation feddyn_federation = {
    .text = {.name = "synthetic-feddyn", .source = "FedDyn: example_synthetic.py",
        .help = "30 numbers, 5 classes by each user's own linear model; the test set is the training set",
        .keys = {DEVIATION("alpha", "0", "of the means of the users' models"), DEVIATION("beta", "0", "of the means of the users' data"),
                 {.name = "theta", .type = FORM_REAL, .minimum = 0, .maximum = 10, .preset = "0", .help = "imbalance: sizes int(lognormal(log samples, theta))"},
                 USERS("20"),
                 {.name = "samples", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "200", .help = "of a user, without imbalance"},
                 {.name = "one-model", .type = FORM_CHOICE, .choices = "no yes", .preset = "no", .help = "all users have one"},
                 {.name = "no-means", .type = FORM_CHOICE, .choices = "no yes", .preset = "no", .help = "all users' data lie around 0"}}},
    .describe = describe_users, .fill = fill_users,
    .kind = &(const UserKind){.describe = describe_dyn, .size = dyn_size, .draw = draw_dyn, .shared = true}};
const Federation leaf_federation = {
    .text = {.name = "synthetic-leaf", .source = "LEAF: data/synthetic",
        .help = "users of several clusters, whose linear models are near to each other; sizes min(int(lognormal(3, 2)) + 5, 1000), a "
                "tenth of them tested",
        .keys = {USERS("100"),
                 {.name = "classes", .type = FORM_WHOLE, .minimum = 2, .maximum = 100, .preset = "5", .help = "of the data"},
                 {.name = "clusters", .type = FORM_WHOLE, .minimum = 1, .maximum = 32, .preset = "2", .help = "equally likely"},
                 {.name = "dimensions", .type = FORM_WHOLE, .minimum = 1, .maximum = 1024, .preset = "10", .help = "numbers of a sample"}}},
    .describe = describe_users, .fill = fill_users,
    .kind = &(const UserKind){.describe = describe_leaf, .size = leaf_size, .draw = draw_leaf}};
const Federation fcube_federation = {
    .text = {.name = "fcube", .source = "NIID-Bench: FCUBE",
        .help = "points of a cube with two classes by the side of the first coordinate; each of 4 users has two opposite octants; 1,000 "
                "points of the whole cube tested",
        .keys = {{.name = "samples", .type = FORM_WHOLE, .minimum = 2, .maximum = 1e6, .preset = "1000", .help = "of a user"}}},
    .describe = describe_fcube, .fill = fill_fcube};
// clang-format on
