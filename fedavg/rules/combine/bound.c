// Part of combine_rules.h: the bound on norms (Sun, Kairouz, Suresh, McMahan 2019): an update that is longer than NORM
// is shortened to it, so that no client moves the mean by more than its share of that.
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
