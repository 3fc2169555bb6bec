#include "datasets/holdout.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h> // qsort
#include <string.h>

#include "base/owned.h"
#include "base/rng.h"
#include "datasets/settings.h"

typedef struct Kind {
    uint32_t first, count; // in `order`
    uint32_t tests;
    double remainder; // of its share of tests
} Kind;

static int by_remainder(const void *a, const void *b) {
    const Kind *first = *(const Kind *const *)a, *second = *(const Kind *const *)b;
    if (first->remainder != second->remainder) return first->remainder > second->remainder ? -1 : 1;
    return first < second ? -1 : first > second;
}

static bool takes_one_more(const Kind *kind) {
    return kind->count > 1 && kind->tests < kind->count - 1;
}

// Gives each kind its share, rounded down, and what is left of `wanted` to the largest remainders.
static void share_out(Kind *kinds, Kind **sorted, uint32_t kind_count, uint32_t wanted, double fraction) {
    uint32_t given = 0;
    for (uint32_t k = 0; k < kind_count; k++) {
        const double share = fraction * kinds[k].count;
        kinds[k].tests = (uint32_t)share;
        if (kinds[k].tests >= kinds[k].count && kinds[k].count > 0) kinds[k].tests = kinds[k].count - 1;
        kinds[k].remainder = share - kinds[k].tests;
        given += kinds[k].tests;
        sorted[k] = &kinds[k];
    }
    qsort(sorted, kind_count, sizeof *sorted, by_remainder);
    for (bool is_full = false; given < wanted && !is_full;) {
        is_full = true;
        for (uint32_t k = 0; k < kind_count && given < wanted; k++)
            if (takes_one_more(sorted[k])) {
                sorted[k]->tests++;
                given++;
                is_full = false;
            }
    }
}

// order: (samples), sorted by kind.
static void sort_by_kind(uint32_t *order, Kind *kinds, const uint32_t *kinds_of, uint32_t samples,
                         uint32_t kind_count) {
    for (uint32_t i = 0; i < samples; i++)
        kinds[kinds_of ? kinds_of[i] : 0].count++;
    for (uint32_t k = 1; k < kind_count; k++)
        kinds[k].first = kinds[k - 1].first + kinds[k - 1].count;
    for (uint32_t i = 0; i < samples; i++) {
        Kind *kind = &kinds[kinds_of ? kinds_of[i] : 0];
        order[kind->first + kind->tests++] = i;
    }
}

// kinds: their samples are shuffled in `order`. Returns the number of tests.
static uint32_t mark(uint8_t *is_test, const uint32_t *order, const Kind *kinds, uint32_t kind_count,
                     const Form *settings) {
    uint32_t fold, folds, marked = 0;
    const bool has_fold = settings_fold(&fold, &folds, settings);
    for (uint32_t k = 0; k < kind_count; k++)
        for (uint32_t i = 0; i < kinds[k].count; i++) {
            const uint32_t place = kinds[k].first + i;
            is_test[order[place]] = has_fold ? place % folds == fold - 1 : i < kinds[k].tests;
            marked += is_test[order[place]];
        }
    return marked;
}

Status holdout_choose(uint8_t *is_test, uint32_t *test_count, const uint32_t *kinds_of, uint32_t samples,
                      uint32_t kind_count, const Form *settings, const char *place, Error *err) {
    const double fraction = settings->number[SETTING_TEST_FRACTION];
    const uint64_t seed = (uint64_t)settings->number[SETTING_TEST_SEED];
    if (!kinds_of) kind_count = 1;
    if (fraction >= 1) {
        memset(is_test, 1, samples);
        *test_count = samples;
        return STATUS_OK;
    }
    Owned owned = {0};
    uint32_t *order = own(&owned, samples, sizeof *order);
    Kind *kinds = own(&owned, kind_count, sizeof *kinds), **sorted = own(&owned, kind_count, sizeof *sorted);
    if (owned.lacks_memory) {
        owned_free(&owned);
        return fail(err, STATUS_OS, "%s: no memory for the order of %u samples", place, samples);
    }
    sort_by_kind(order, kinds, kinds_of, samples, kind_count);
    share_out(kinds, sorted, kind_count, (uint32_t)fmax(round(fraction * samples), 1), fraction);
    for (uint32_t k = 0; k < kind_count; k++)
        rng_shuffle(order + kinds[k].first, kinds[k].count, rng_key(seed, RNG_HOLDOUT, k, 0, 0));
    *test_count = mark(is_test, order, kinds, kind_count, settings);
    owned_free(&owned);
    if (*test_count == samples) return fail(err, STATUS_DATA, "%s: all %u samples are in one fold", place, samples);
    if (*test_count > 0) return STATUS_OK;
    if (settings->given[SETTING_FOLD])
        return fail(err, STATUS_DATA, "%s: fold=%s: has none of the %u samples; give fewer folds", place,
                    form_text(settings, SETTING_FOLD), samples);
    return fail(err, STATUS_DATA, "%s: %u samples, none of which can be spared for tests; each class keeps one", place,
                samples);
}
