#include "fairness.h"

#include <math.h>
#include <stdlib.h>

#include "base/sorting.h"

static double mean(const double *values, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

void fairness_measure(Fairness *fairness, double *accuracies, uint32_t count) {
    static const double parts[FAIRNESS_QUANTILES] = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 1};
    double deviations = 0, sum = 0, squares = 0;
    uint32_t tenth = (count + 9) / 10;
    qsort(accuracies, count, sizeof *accuracies, ascending_reals);
    fairness->mean = mean(accuracies, count);
    for (uint32_t i = 0; i < count; i++) {
        double deviation = 100 * (accuracies[i] - fairness->mean);
        deviations += deviation * deviation;
        sum += accuracies[i];
        squares += accuracies[i] * accuracies[i];
    }
    for (int q = 0; q < FAIRNESS_QUANTILES; q++)
        fairness->quantiles[q] = sorted_quantile(accuracies, count, parts[q]);
    fairness->variance = deviations / count;
    fairness->worst_tenth = mean(accuracies, tenth);
    fairness->best_tenth = mean(accuracies + count - tenth, tenth);
    fairness->jain = squares > 0 ? sum * sum / (count * squares) : NAN;
}
