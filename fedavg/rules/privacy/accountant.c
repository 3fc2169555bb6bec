#include "accountant.h"

#include <math.h>

const char *const cohorts_neighbouring[] = {[COHORTS_POISSON] = "joins or leaves",
                                            [COHORTS_FIXED] = "is replaced by another",
                                            [COHORTS_TREE] = "joins or leaves"};

enum { LARGEST_ORDER = 63, MOST_TERMS = 1000000 };

double accountant_order(int index) {
    return index < ACCOUNTANT_TENTHS ? 1 + (index + 1) / 10.0 : index - ACCOUNTANT_TENTHS + 12;
}

// Sums of numbers known by their logarithm ----------------------------------------------------------------------------

// The number sign exp(log).
typedef struct Signed {
    double log;
    int sign; // 0: an empty sum
} Signed;

// Adds two numbers that are known by logarithm and sign alone: the terms of the series reach exp(1000) and more, which
// no double holds. The larger number is factored out, so that the exponential of the difference is at most 1, and log1p
// keeps the digits of a small term. Equal numbers of opposite signs cancel to an empty sum.
static Signed sum_of(Signed a, Signed b) {
    if (a.sign == 0 || b.log == -INFINITY) return a.sign == 0 ? b : a;
    const Signed large = a.log >= b.log ? a : b, small = a.log >= b.log ? b : a;
    const double ratio = exp(small.log - large.log);
    if (large.sign == small.sign) return (Signed){large.log + log1p(ratio), large.sign};
    return ratio == 1 ? (Signed){0} : (Signed){large.log + log1p(-ratio), large.sign};
}

// log(erfc(x)), by the asymptotic series where erfc underflows. erfc(25) is about 1e-273, and a little further on no
// double is small enough. From there on the next term of the series is below 1e-10.
static double log_erfc(double x) {
    if (x < 25) return log(erfc(x));
    const double y = 1 / (x * x);
    return -x * x - log(x) - 0.5 * log(M_PI) + log1p(-y / 2 + 3 * y * y / 4 - 15 * y * y * y / 8);
}

// Cohorts by Poisson sampling -----------------------------------------------------------------------------------------

static double log_binomial(int n, int k) {
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
}

// The binomial sum of section 3.3 for a whole order. All terms are positive. With q the sampling rate and s the noise:
//
//   log(sum over i of C(order, i) (1 - q)^(order - i) q^i exp((i^2 - i) / (2 s^2))) / (order - 1)
static double poisson_whole(double rate, double noise, int order) {
    Signed sum = {0};
    for (int i = 0; i <= order; i++) {
        const double log_term = log_binomial(order, i) + (order - i) * log1p(-rate) + i * log(rate) +
                                (double)(i * i - i) / (2 * noise * noise);
        sum = sum_of(sum, (Signed){log_term, 1});
    }
    return sum.log / (order - 1);
}

// The series of section 3.3 for a fractional order: binomial coefficients change sign after `order`, so terms are added
// with their signs until they no longer count. The moment is an integral over the noisy sum. It is split at `turn`,
// where a sum with the client and a sum without it are equally likely: q N(1, s^2) = (1 - q) N(0, s^2). In each half
// one density is larger everywhere, so that the binomial series in the ratio of the two converges. Each term is an
// integral of a normal density over its half, which is an erfc.
static double poisson_real(double rate, double noise, double order) {
    const double turn = noise * noise * log(1 / rate - 1) + 0.5, width = sqrt(2) * noise;
    double coefficient = 1;
    Signed sum = {0};
    for (int i = 0; i < MOST_TERMS; i++) {
        const double j = order - i, log_size = log(fabs(coefficient)) + log(0.5);
        const double low = log_size + i * log(rate) + j * log1p(-rate) + ((double)i * i - i) / (2 * noise * noise) +
                           log_erfc((i - turn) / width);
        const double high = log_size + j * log(rate) + i * log1p(-rate) + (j * j - j) / (2 * noise * noise) +
                            log_erfc((turn - j) / width);
        const int sign = coefficient > 0 ? 1 : -1;
        sum = sum_of(sum_of(sum, (Signed){low, sign}), (Signed){high, sign});
        // The moment is at least 1, so that a term below e^-30 changes no digit of it.
        if (i > order && fmax(low, high) < -30) break;
        coefficient *= j / (i + 1);
    }
    return sum.log / (order - 1);
}

// The RDP of Gaussian noise for a release of all clients.
static double plain(double noise, double order) {
    return order / (2 * noise * noise);
}

// A rate of 1 draws all clients in every round, so that sampling hides nothing.
static double poisson(double rate, double noise, double order) {
    if (rate >= 1) return plain(noise, order);
    return order == floor(order) ? poisson_whole(rate, noise, (int)order) : poisson_real(rate, noise, order);
}

// Cohorts of a fixed size ---------------------------------------------------------------------------------------------

// The logarithm of the mean of (P/Q - 1)^power over Q, power even, where P/Q is the ratio of two normal densities at
// distance 1. Wang et al. write this moment as an alternating sum of exponentials; the integral has no cancellation.
// The integrand has its peaks near 0 and near `power`, each with a deviation of `noise`: 12 deviations beyond them it
// is below 1e-31 of a peak. The rectangle rule converges faster than any power of the step for such functions, and a
// sixteenth of a deviation is ample. Where the ratio overflows, P/Q - 1 is P/Q, and its logarithm is known.
static double log_moment(double noise, int power) {
    const double step = noise / 16, first = -12 * noise, last = power + 12 * noise;
    Signed sum = {0};
    for (double x = first; x < last; x += step) {
        const double ratio = fabs(expm1((2 * x - 1) / (2 * noise * noise)));
        const double log_ratio = isinf(ratio) ? (2 * x - 1) / (2 * noise * noise) : log(ratio);
        sum = sum_of(sum, (Signed){power * log_ratio - x * x / (2 * noise * noise), 1});
    }
    return sum.log + log(step / noise) - 0.5 * log(2 * M_PI);
}

// The logarithm of the bound in theorem 27 on the moment of a whole order. moments: of the even powers. Each term has
// two bounds, of which the smaller one counts. For i = 2 they are 4 E(P/Q - 1)^2 and 2 E(P/Q)^2. For larger i they are
// 4 times the geometric mean of the even moments around i, because an odd moment has no bound of its own, and 2
// E(P/Q)^i.
static double fixed_log_moment(double rate, double noise, int order, const double *moments) {
    Signed sum = {0, 1};
    for (int i = 2; i <= order; i++) {
        const double whole = (double)i * (i - 1) / (2 * noise * noise); // of the i-th power of P/Q
        const double apart = log(4) + 0.5 * (moments[i / 2] + moments[(i + 1) / 2]);
        const double term = i == 2 ? fmin(log(4) + moments[1], whole + log(2)) : fmin(apart, whole + log(2));
        sum = sum_of(sum, (Signed){term + i * log(rate) + log_binomial(order, i), 1});
    }
    return fmin(sum.log, (order - 1) * plain(noise, order));
}

// Between two whole orders the logarithm of the moment is below the line between theirs (corollary 10 of Wang et al.).
// At every order it is also below that of releases with all clients: leaving a client out of some rounds reveals no
// more.
static void add_fixed(double *rdp, double rate, double noise, double times) {
    double moments[(LARGEST_ORDER + 1) / 2 + 1], logs[LARGEST_ORDER + 1] = {0};
    for (int half = 1; half <= (LARGEST_ORDER + 1) / 2; half++)
        moments[half] = log_moment(noise, 2 * half);
    for (int order = 2; order <= LARGEST_ORDER; order++)
        logs[order] = rate < 1 ? fixed_log_moment(rate, noise, order, moments) : (order - 1) * plain(noise, order);
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++) {
        const double order = accountant_order(i), part = order - floor(order);
        const int below = (int)order, above = part > 0 ? below + 1 : below;
        const double log_moment_of = (1 - part) * logs[below] + part * logs[above];
        rdp[i] += times * fmin(log_moment_of / (order - 1), plain(noise, order));
    }
}

// The budget spent ----------------------------------------------------------------------------------------------------

// The levels of a tree over this many rounds. On each level one node at most covers the client's round.
static double nodes_of_a_client(double rounds) {
    return ceil(log2(rounds + 1));
}

// A client takes part once per tree, so it is in every node above its leaf: one per bit of the number of rounds. The
// last tree may be cut short by the end of the run.
static void add_trees(double *rdp, const Mechanism *mechanism, double rounds) {
    const double each = nearbyint(1 / mechanism->rate), whole = floor(rounds / each);
    const double nodes = whole * nodes_of_a_client(each) + nodes_of_a_client(rounds - whole * each);
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++)
        rdp[i] += nodes * plain(mechanism->noise, accountant_order(i));
}

// Cohorts of a fixed size hide which client takes part. A replaced client changes the sum by twice the norm, so that
// the noise counts half. Without noise the first release spends everything.
void accountant_add(double *rdp, const Mechanism *mechanism, double times) {
    if (mechanism->noise > 0 && mechanism->cohorts == COHORTS_TREE) {
        add_trees(rdp, mechanism, times);
        return;
    }
    if (mechanism->noise > 0 && mechanism->cohorts == COHORTS_FIXED) {
        add_fixed(rdp, mechanism->rate, mechanism->noise / 2, times);
        return;
    }
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++)
        rdp[i] += mechanism->noise > 0 ? times * poisson(mechanism->rate, mechanism->noise, accountant_order(i))
                  : times > 0          ? INFINITY
                                       : 0;
}

// Proposition 12 of Canonne et al., and 0 where already RDP alone gives the delta. The formula is
//
//   epsilon = rdp + log((order - 1) / order) - (log(delta) + log(order)) / (order - 1)
static double converted(double rdp, double order, double delta) {
    if (delta * delta + expm1(-rdp) > 0) return 0;
    return fmax(0, rdp + log1p(-1 / order) - (log(delta) + log(order)) / (order - 1));
}

// Mironov, CSF 2017, proposition 3. Its epsilon is larger, but papers before 2020 report this one.
static double converted_as_before(double rdp, double order, double delta) {
    return rdp - log(delta) / (order - 1);
}

// Every order gives a valid epsilon, and the smallest one counts. If it belongs to the first or the last order, an
// order outside the list could give less, which the result says.
static Spent least(const double *rdp, double delta, double (*convert)(double, double, double)) {
    Spent spent = {.epsilon = INFINITY};
    for (int i = 0; i < ACCOUNTANT_ORDERS; i++) {
        const double order = accountant_order(i), epsilon = convert(rdp[i], order, delta);
        if (epsilon < spent.epsilon) spent = (Spent){epsilon, order, i == 0 || i == ACCOUNTANT_ORDERS - 1};
    }
    return spent;
}

Spent accountant_spent(const double *rdp, double delta) {
    return least(rdp, delta, converted);
}

Spent accountant_spent_as_before(const double *rdp, double delta) {
    return least(rdp, delta, converted_as_before);
}

static double spent_with(Cohorts cohorts, double rate, double noise, double times, double delta) {
    double rdp[ACCOUNTANT_ORDERS] = {0};
    accountant_add(rdp, &(Mechanism){cohorts, rate, noise}, times);
    return accountant_spent(rdp, delta).epsilon;
}

// Doubles the noise until it is enough, then bisects to a relative precision of 10^-5, always returning the upper end.
// More noise spends less, so that the upper end is the side on which the budget holds.
Status accountant_noise(double *noise, Cohorts cohorts, double rate, double times, double epsilon, double delta,
                        Error *err) {
    const double most = 1e6;
    double low = 0, high = 1;
    while (high <= most && spent_with(cohorts, rate, high, times, delta) > epsilon)
        low = high, high *= 2;
    if (high > most)
        return fail(err, STATUS_USAGE,
                    "no noise up to %g spends only epsilon=%g at delta=%g in %g rounds; raise epsilon", most, epsilon,
                    delta, times);
    while (high - low > 1e-5 * high) {
        const double middle = (low + high) / 2;
        if (spent_with(cohorts, rate, middle, times, delta) > epsilon)
            low = middle;
        else
            high = middle;
    }
    *noise = high;
    return STATUS_OK;
}

// One release ---------------------------------------------------------------------------------------------------------

// log of the normal distribution function.
static double log_below(double x) {
    return log_erfc(-x / sqrt(2)) - log(2);
}

// Theorem 8 of Balle and Wang, in units of what one client changes:
//
//   delta = Phi(1 / (2 noise) - epsilon noise) - e^epsilon Phi(-1 / (2 noise) - epsilon noise)
//
// The second product is one exponential of a sum of logarithms, because e^epsilon alone may overflow.
double gaussian_delta(double noise, double epsilon) {
    const double near = 1 / (2 * noise), far = epsilon * noise;
    return fmax(0, exp(log_below(near - far)) - exp(epsilon + log_below(-near - far)));
}

// The least number for which one release costs at most delta, which falls as the number rises. `high` always is the
// side that is private enough, and it is returned. A hundred halvings leave two neighbouring doubles.
static double least_private(double (*delta_of)(double number, double given), double given, double delta) {
    double low = 0, high = 1;
    while (delta_of(high, given) > delta)
        high *= 2;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        *(delta_of(middle, given) > delta ? &low : &high) = middle;
    }
    return high;
}

static double delta_of_epsilon(double epsilon, double noise) {
    return gaussian_delta(noise, epsilon);
}

double gaussian_epsilon(double noise, double delta) {
    if (noise <= 0) return INFINITY;
    return gaussian_delta(noise, 0) <= delta ? 0 : least_private(delta_of_epsilon, noise, delta);
}

double gaussian_noise(double epsilon, double delta) {
    return least_private(gaussian_delta, epsilon, delta);
}
