// Mean and standard deviation of a sample, value by value (Welford, Technometrics 1962): equal values have exactly that
// mean and the deviation 0.
//
//   Spread spread = {0};
//   spread_add(&spread, 84.9); ...
//   printf("%.2f ± %.2f\n", spread.mean, spread_deviation(&spread));
#ifndef SOUNDER_BASE_SPREAD_H
#define SOUNDER_BASE_SPREAD_H

#include <math.h>
#include <stddef.h>

// Zeroed it has no values.
typedef struct Spread {
    size_t count;
    double mean;    // 0 without values
    double squares; // sum of the squared distances from the mean
} Spread;

static inline void spread_add(Spread *spread, double value) {
    const double off = value - spread->mean;
    spread->mean += off / (double)++spread->count;
    spread->squares += off * (value - spread->mean);
}

// That of a sample (n - 1); NaN for fewer than two values.
static inline double spread_deviation(const Spread *spread) {
    return spread->count > 1 ? sqrt(spread->squares / (double)(spread->count - 1)) : (double)NAN;
}

#endif
