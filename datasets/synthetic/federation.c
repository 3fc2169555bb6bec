#include "datasets/synthetic/federation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_USERS = 1000 }; // most users whose numbers can be given in the form

// Quadratics ----------------------------------------------------------------------------------------------------------

enum { KEY_A, KEY_B, KEY_SAMPLES };

static Status read_each(double *values, const DatasetSource *source, int key, const char *name, Error *err) {
    uint32_t count = form_reals(values, MOST_USERS, &source->federation, key);
    for (uint32_t user = 1; user < source->users && count == 1; user++)
        values[user] = values[0];
    if (count == 1 || count == source->users) return STATUS_OK;
    return fail(err, STATUS_USAGE, "quadratics: %s gives %u numbers, and a gives %u; give one for all, or as many",
                name, count, source->users);
}

static Status describe_quadratics(DatasetSource *source, const UserKind *kind, Error *err) {
    (void)kind;
    double samples[MOST_USERS], b[MOST_USERS];
    source->users = form_reals(b, MOST_USERS, &source->federation, KEY_A);
    if (source->users > MOST_USERS)
        return fail(err, STATUS_USAGE, "quadratics: a gives %u numbers; at most %d are read", source->users,
                    MOST_USERS);
    TRY(read_each(b, source, KEY_B, "b", err));
    TRY(read_each(samples, source, KEY_SAMPLES, "samples", err));
    for (uint32_t user = 0; user < source->users; user++) {
        if (fmod(samples[user], 2) != 0)
            return fail(err, STATUS_USAGE,
                        "quadratics: samples=%.15g: half of them are the other half's mirror image; give "
                        "even whole numbers",
                        samples[user]);
        source->counts[DATASET_TRAIN] += (uint32_t)samples[user];
    }
    source->counts[DATASET_TEST] = source->counts[DATASET_TRAIN];
    source->shape = (Shape){1, 1, 1};
    source->classes = 1;
    source->items.label_bytes = sizeof(float);
    return STATUS_OK;
}

static Status fill_quadratics(const DatasetArrays *arrays, const DatasetSource *source, const UserKind *kind,
                              Error *err) {
    (void)kind;
    const DatasetArrays *train = &arrays[DATASET_TRAIN], *test = &arrays[DATASET_TEST];
    float *values = train->samples, *targets = (float *)(void *)train->labels;
    double a[MOST_USERS], b[MOST_USERS], samples[MOST_USERS];
    uint32_t s = 0;
    TRY(read_each(a, source, KEY_A, "a", err));
    TRY(read_each(b, source, KEY_B, "b", err));
    TRY(read_each(samples, source, KEY_SAMPLES, "samples", err));
    for (uint32_t user = 0; user < source->users; user++)
        for (uint32_t i = 0; i < (uint32_t)samples[user]; i++, s++) {
            const float sign = i % 2 ? -1 : 1;
            values[s] = (float)sqrt(a[user]) * sign;
            targets[s] = (float)(sqrt(a[user]) * b[user]) * sign;
            train->owners[s] = user;
        }
    memcpy(test->samples, values, s * sizeof *values);
    memcpy(test->labels, targets, s * sizeof *targets);
    memcpy(test->owners, train->owners, s * sizeof *train->owners);
    return STATUS_OK;
}

// clang-format off
const Federation quadratics_federation = {
    .text = {.name = "quadratics", .source = "own, after the lower bounds of SCAFFOLD, 2020",
        .help = "client i has the loss a/2 (w - b)^2 + c^2/2 in weight and bias of \"linear 1\", with its own a and b; the test "
                "set is the training set",
        .keys = {{.name = "a", .type = FORM_REALS, .minimum = 1e-6, .maximum = 1e6, .help = "curvatures, one for each client"},
                 {.name = "b", .type = FORM_REALS, .minimum = -1e6, .maximum = 1e6, .help = "optima; one for all, or one for each"},
                 {.name = "samples", .type = FORM_REALS, .minimum = 2, .maximum = 1e6, .preset = "2", .help = "of a client, even; one for all, or one for each"}}},
    .describe = describe_quadratics, .fill = fill_quadratics};
// clang-format on

// The table ----------------------------------------------------------------------------------------------------------

#define FEDERATION(name) &name##_federation,
static const Federation *const federations[] = {FEDERATIONS(FEDERATION)};

#define FEDERATION_TEXT(name) &name##_federation.text,
static const FormRow *const texts[] = {FEDERATIONS(FEDERATION_TEXT)};

const FormTable federation_table = {
    .list = texts, .count = sizeof texts / sizeof *texts, .what = "federation", .topic = "federations"};

bool federation_is_named(const char *data) {
    for (uint32_t i = 0; i < federation_table.count; i++)
        if (form_is(data, form_row(&federation_table, i)->name)) return true;
    return false;
}

Status federation_describe(DatasetSource *source, const char *data, uint64_t seed, Error *err) {
    source->is_federation = true;
    source->seed = seed;
    source->items =
        (DatasetItems){.pixel_bytes = sizeof(float), .label_bytes = sizeof(uint16_t), .owner_bytes = sizeof(uint32_t)};
    TRY(form_parse(&source->federation, data, &federation_table, err));
    const Federation *federation = federations[source->federation.row];
    snprintf(source->name, sizeof source->name, "%s", federation->text.name);
    return federation->describe(source, federation->kind, err);
}

Status federation_fill(const DatasetArrays *arrays, const DatasetSource *source, Error *err) {
    const Federation *federation = federations[source->federation.row];
    return federation->fill(arrays, source, federation->kind, err);
}
