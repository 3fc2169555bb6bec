#include "paired_test.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/spread.h"

// Returns the probability that |T| <= t: the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
static double student_within(double t, size_t freedom) {
    const double angle = atan(t / sqrt((double)freedom)), cosine = cos(angle);
    const size_t odd = freedom % 2;
    double term = odd ? cosine : 1, sum = freedom > 1 ? term : 0;
    for (size_t k = 2 + odd; k + 1 < freedom; k += 2) {
        term *= cosine * cosine * (double)(k - 1) / (double)k;
        sum += term;
    }
    return odd ? 2 / M_PI * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double student_quantile(double probability, size_t freedom) {
    const double within = 2 * probability - 1;
    double low = 0, high = 1;
    assert(freedom > 0 && probability >= 0.5 && probability <= 0.9999);
    while (student_within(high, freedom) < within)
        high *= 2;
    while (high - low > 1e-12 * high) {
        const double middle = (low + high) / 2;
        *(student_within(middle, freedom) < within ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

// Returns the probability that a fair coin shows the rarer side at most `rare` times in `count`, on either side.
static double sign_test(size_t rare, size_t count) {
    double sum = 0;
    for (size_t k = 0; k <= rare; k++)
        sum += exp(lgamma((double)count + 1) - lgamma((double)k + 1) - lgamma((double)(count - k) + 1) -
                   (double)count * M_LN2);
    return fmin(2 * sum, 1);
}

// Whether an effect of this many deviations is found in 80% of cases. Student's quantiles stand in for the noncentral
// ones.
static bool is_found(double effect, size_t count) {
    return effect * sqrt((double)count) >= student_quantile(0.975, count - 1) + student_quantile(0.8, count - 1);
}

static size_t pairs_to_add(double effect, size_t count) {
    size_t few = count, enough = PAIRED_TEST_MOST;
    if (!is_found(effect, enough)) return SIZE_MAX;
    while (enough - few > 1) {
        const size_t middle = few + (enough - few) / 2;
        *(is_found(effect, middle) ? &enough : &few) = middle;
    }
    return enough - count;
}

void paired_test(PairedTest *test, const double *differences, size_t count) {
    Spread spread = {0};
    size_t above = 0, below = 0;
    assert(count >= PAIRED_TEST_LEAST && count <= PAIRED_TEST_MOST);
    for (size_t i = 0; i < count; i++) {
        spread_add(&spread, differences[i]);
        above += differences[i] > 0;
        below += differences[i] < 0;
    }
    test->mean = spread.mean;
    test->deviation = spread_deviation(&spread);
    const double reach = student_quantile(0.975, count - 1) * test->deviation / sqrt((double)count);
    test->low = test->mean - reach;
    test->high = test->mean + reach;
    test->sign = sign_test(above < below ? above : below, above + below);
    test->more = 0;
    if (test->low <= 0 && test->high >= 0 && test->deviation > 0)
        test->more = pairs_to_add(fabs(test->mean) / test->deviation, count);
}
