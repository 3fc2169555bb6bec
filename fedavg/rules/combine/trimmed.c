// Part of combine_rules.h: the trimmed mean of every weight (Yin, Chen, Ramchandran, Bartlett, ICML 2018): of n values
// the b smallest and the b largest are dropped, and the rest is averaged exactly. The median has the largest b that
// leaves a value: for an even n the mean of the two middle ones.
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

static void trimmed_column(int64_t *total, const float *sorted, const float *from, uint32_t count,
                           const double *number) {
    const uint32_t cut = (uint32_t)floor(number[0] * count + 1e-9); // 0.29 of 100 is 29, despite rounding in binary
    column_mean(total, sorted, from, cut, count - cut);
}

// With fewer updates none would be dropped, and a single attacker could move the mean as far as it wants. A share of 0
// asks for that mean.
static double trimmed_least(const double *number) {
    return number[0] > 0 ? ceil((1 - 1e-9) / number[0]) : 1;
}

static void median_column(int64_t *total, const float *sorted, const float *from, uint32_t count,
                          const double *number) {
    (void)number;
    const uint32_t cut = (count - 1) / 2;
    column_mean(total, sorted, from, cut, count - cut);
}

const CombineRule trimmed_combine_rule = {
    .text = {"trimmed",
             "averages each weight without this share of its smallest and of its largest values",
             "Yin et al., ICML 2018",
             {{.name = "share", .preset = 0.2, .minimum = 0, .maximum = 0.4999}}},
    .rows = true,
    .least = trimmed_least,
    .for_fewer = "raise share",
    .column = trimmed_column};

const CombineRule median_combine_rule = {.text = {"median",
                                                  "every weight moves by the median of the clients' changes to it",
                                                  "Yin et al., ICML 2018",
                                                  {{0}}},
                                         .rows = true,
                                         .column = median_column};
