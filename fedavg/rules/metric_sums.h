// Figures of a trainer's own beside loss and hits, such as "recall": by name, with a sum and a weight each. The value
// of a metric is sum / weight, a mean over samples in which every turn counts by the weight that it reports.
//
//   MetricSums all = {0};
//   TRY(metric_sums_add(&all, "recall", 412.5, 500, err));
//   TRY(metric_sums_join(&all, &of_another_job, err));    // in the order of the jobs
//   double recall = metric_sums_value(&all, "recall");
//
// Metrics are ordered by name, whatever the order in which they are added. Sums are added in the order of the calls:
// callers keep one order, so that the bits do not depend on the number of workers.
#ifndef SOUNDER_FEDAVG_RULES_METRIC_SUMS_H
#define SOUNDER_FEDAVG_RULES_METRIC_SUMS_H

#include <stdint.h>

#include "base/err.h"

enum { METRICS_MOST = 32, METRIC_NAME_BYTES = 65 };

typedef struct MetricSum {
    char name[METRIC_NAME_BYTES];
    double sum, weight;
} MetricSum;

// Plain data, empty if zeroed.
typedef struct MetricSums {
    uint32_t count;
    MetricSum all[METRICS_MOST];
} MetricSums;

// DATA if this is no name of a metric: a letter, then letters, digits and _ - . / @, at most 64 bytes. Names of figures
// that every run has, such as "accuracy" and "test-loss", are refused, and all names that begin with "client-" or
// "personal-".
Status metric_name_check(const char *name, Error *err);

// Adds to the metric of this name. DATA, with sums unchanged, for a bad name, a weight that is negative or not finite,
// and a metric too many. A sum that is not finite makes the value NaN.
Status metric_sums_add(MetricSums *sums, const char *name, double sum, double weight, Error *err);

// Adds all metrics of `more`. Errors as metric_sums_add.
Status metric_sums_join(MetricSums *sums, const MetricSums *more, Error *err);

// NaN without weight.
double metric_value(const MetricSum *metric);

// The value of the metric of this name; NaN if there is none.
double metric_sums_value(const MetricSums *sums, const char *name);

// NULL if there is none.
const MetricSum *metric_sums_find(const MetricSums *sums, const char *name);

#endif
