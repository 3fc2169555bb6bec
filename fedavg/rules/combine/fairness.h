// Fairness of a model across clients: figures over the accuracies on each client's own data.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_FAIRNESS_H
#define SOUNDER_FEDAVG_RULES_COMBINE_FAIRNESS_H

#include <stdint.h>

enum { FAIRNESS_QUANTILES = 7 };

typedef struct Fairness {
    double mean;                          // all clients weighted equally
    double quantiles[FAIRNESS_QUANTILES]; // 0, 10, 25, 50, 75, 90, 100%, linear in between (as NumPy's default)
    double variance;                      // of the clients, in squared percentage points (Li et al. 2020, q-FFL)
    double worst_tenth, best_tenth;       // mean of the worst and the best 10% of the clients, rounded up
    double jain;                          // (sum a)^2 / (N sum a^2) (Jain et al. 1984); NaN where all are 0
} Fairness;

// accuracies (count >= 1), from 0 to 1; sorted on return.
void fairness_measure(Fairness *fairness, double *accuracies, uint32_t count);

#endif
