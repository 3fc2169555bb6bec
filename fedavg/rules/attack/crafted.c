#include "crafted.h"

#include <math.h>
#include <string.h>

#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/sum/aggregate.h"

// min-max, min-sum and mimic compare distances between updates. Distances follow from inner products, |a - b|^2 =
// aa + bb - 2ab, so that one pass over the long vectors serves all of them.
bool crafted_wants_products(const Chosen *attack) {
    return attack->row == ATTACK_MIN_MAX || attack->row == ATTACK_MIN_SUM || attack->row == ATTACK_MIMIC;
}

// The normal quantile, by bisection of erfc: the z below which a normal number is with this probability.
static double quantile(double probability) {
    double low = -40, high = 40;
    for (int step = 0; step < 100; step++) {
        const double middle = (low + high) / 2;
        if (erfc(-middle / M_SQRT2) / 2 < probability)
            low = middle;
        else
            high = middle;
    }
    return high;
}

// The attackers need s honest clients that are further off than they are: a majority is floor(n / 2) + 1 clients, of
// which f are attackers. z is where s of the n - f honest updates are expected beyond it, if updates are normal.
double crafted_alie(uint32_t clients, uint32_t attackers) {
    const double honest = clients - attackers, needed = floor(clients / 2.0) + 1 - attackers;
    if (honest < 2) return 0; // the deviation of fewer than two is 0
    return quantile((honest - fmax(needed, 1)) / honest);
}

// Blocks -------------------------------------------------------------------------------------------------------------

enum { BLOCK = 512 };

AGGREGATE_VECTORS static void add_updates(double *restrict sums, const float *values, const float *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        sums[i] += (double)values[i] - (double)from[i];
}

AGGREGATE_VECTORS static void add_squares(double *restrict sums, const float *values, const float *from,
                                          const double *means, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double off = (double)values[i] - (double)from[i] - means[i];
        sums[i] += off * off;
    }
}

static void find_means(double *means, const Rows *rows, size_t first, size_t count) {
    memset(means, 0, count * sizeof *means);
    for (uint32_t row = 0; row < rows->count; row++)
        add_updates(means, rows->values[row] + first, rows->from[row] + first, count);
    for (size_t i = 0; i < count; i++)
        means[i] /= rows->count;
}

// Means and squares of a block stay on the stack, and its rows are in the cache when they are read the second time.
void crafted_make(double *out, const Rows *rows, double of_mean, double of_deviation, size_t count) {
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t block = count - first < BLOCK ? count - first : BLOCK;
        double means[BLOCK], squares[BLOCK] = {0};
        find_means(means, rows, first, block);
        for (uint32_t row = 0; row < rows->count && of_deviation != 0; row++)
            add_squares(squares, rows->values[row] + first, rows->from[row] + first, means, block);
        for (size_t i = 0; i < block; i++)
            out[first + i] = of_mean * means[i] - of_deviation * sqrt(squares[i] / rows->count);
    }
}

void crafted_deviations(double *out, const Rows *rows, size_t count) {
    crafted_make(out, rows, 0, -1, count);
}

// Distances -----------------------------------------------------------------------------------------------------------

// The limit of the paper: the largest distance between two of the updates (min-max), or the largest sum of one update's
// distances to all others (min-sum).
static double find_limit(const double *products, uint32_t count, bool sums) {
    const size_t stride = count + 1;
    double limit = 0;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t j = 0; j < count; j++) {
            const double squared = products[i * stride + i] + products[j * stride + j] - 2 * products[i * stride + j];
            sum = sums ? sum + squared : fmax(sum, squared);
        }
        limit = fmax(limit, sum);
    }
    return limit;
}

// The squared distance of the crafted update from update i is a quadratic in g: base - 2 g slope + g^2 |deviations|^2.
// base (count): the squared distance of update i from the mean. slope (count): the product of mean - update with the
// deviations.
static void find_lines(double *base, double *slope, const double *products, uint32_t count) {
    const size_t stride = count + 1;
    double mean_squared = 0, mean_deviation = 0;
    for (size_t i = 0; i < count; i++) {
        base[i] = 0;
        for (size_t j = 0; j < count; j++)
            base[i] += products[i * stride + j] / count; // with the mean
        mean_squared += base[i] / count;
        mean_deviation += products[i * stride + count] / count;
    }
    for (size_t i = 0; i < count; i++) {
        base[i] = products[i * stride + i] - 2 * base[i] + mean_squared;
        slope[i] = mean_deviation - products[i * stride + count];
    }
}

// The largest g at which base - 2 g slope + g^2 square equals the limit; 0 if rounding has put the base above it.
static double find_root(double base, double slope, double square, double limit) {
    const double left = limit - base;
    return left > 0 ? (slope + sqrt(slope * slope + square * left)) / square : 0;
}

// At g = 0 the crafted update is the mean, which is within the limit for every update. So each parabola starts below
// the limit, and the smallest of their roots is the answer (for min-sum the root of their sum).
double crafted_reach(const double *products, uint32_t count, const Chosen *attack, double *workspace) {
    const bool sums = attack->row == ATTACK_MIN_SUM;
    const double limit = find_limit(products, count, sums),
                 deviations = products[(size_t)(count + 1) * (count + 1) - 1];
    double *base = workspace, *slope = workspace + count, base_sum = 0, slope_sum = 0, reach = INFINITY;
    if (!(deviations > 0)) return 0; // all updates are equal
    find_lines(base, slope, products, count);
    for (uint32_t i = 0; i < count; i++) {
        base_sum += base[i], slope_sum += slope[i];
        reach = fmin(reach, find_root(base[i], slope[i], deviations, limit));
    }
    return sums ? find_root(base_sum, slope_sum, count * deviations, limit) : reach;
}

// out = C products C vector, where C subtracts the mean: products of centred updates without centring the updates.
static void multiply_centred(double *out, const double *products, const double *vector, uint32_t count) {
    double mean = 0, all = 0;
    for (uint32_t i = 0; i < count; i++)
        mean += vector[i] / count;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = 0;
        for (uint32_t j = 0; j < count; j++)
            out[i] += products[(size_t)i * count + j] * (vector[j] - mean);
        all += out[i] / count;
    }
    for (uint32_t i = 0; i < count; i++)
        out[i] -= all;
}

// The power method on the centred products, started from the column of the update furthest from the mean. A fixed
// number of steps keeps the result a function of the products alone.
uint32_t crafted_furthest(const double *products, uint32_t count, double *workspace) {
    enum { STEPS = 200 };
    double *vector = workspace, *next = workspace + count, *unit = workspace + 2 * (size_t)count;
    uint32_t furthest = 0;
    double most = -1;
    for (uint32_t i = 0; i < count; i++) {
        memset(unit, 0, count * sizeof *unit);
        unit[i] = 1;
        multiply_centred(next, products, unit, count);
        if (next[i] > most) most = next[i], memcpy(vector, next, count * sizeof *next);
    }
    for (int step = 0; step < STEPS; step++) {
        double squared = 0;
        multiply_centred(next, products, vector, count);
        for (uint32_t i = 0; i < count; i++)
            squared += next[i] * next[i];
        if (!(squared > 0)) return 0; // all updates are equal
        for (uint32_t i = 0; i < count; i++)
            vector[i] = next[i] / sqrt(squared);
    }
    for (uint32_t i = 1; i < count; i++)
        if (fabs(vector[i]) > fabs(vector[furthest])) furthest = i;
    return furthest;
}
