// Part of combine_rules.h: norm bounding (Sun, Kairouz, Suresh, McMahan 2019): an update longer than NORM is scaled
// down to NORM, which limits how far one client can move the mean.
//
//   d_k min(1, NORM / |d_k|)
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

static double bound(double squared_length, const double *number) {
    const double length = sqrt(squared_length);
    return length > number[0] ? number[0] / length : 1;
}

const CombineRule bound_combine_rule = {
    .text = {"bound",
             "the mean of the updates, each shortened to this length if it is longer",
             "Sun et al. 2019",
             {{.name = "norm", .preset = 1, .minimum = 0, .maximum = 1e30}}},
    .bound = bound};
