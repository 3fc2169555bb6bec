// Part of combine_rules.h: q-FFL (Li, Sanjabi, Beirami, Smith, ICLR 2020, Algorithm 2), with 1/lr in place of the
// Lipschitz constant:
//
//   w += sum F_k^q d_k / sum (q F_k^(q-1) |d_k|^2 / lr + F_k^q)
//
// F_k is the loss of the global weights on all training data of client k. With q = 0 all clients have equal weights.
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

static double by_loss(double loss, const double *number) {
    return pow(loss, number[0]);
}

// The shares are F_k^q / sum F^q, so the factor restores that sum and divides by the paper's denominator.
static double factor(const Member *members, const double *squared_lengths, uint32_t count, double lr,
                     const double *number) {
    const double q = number[0];
    double of_all = 0, below = 0;
    for (uint32_t k = 0; k < count; k++) {
        of_all += pow(members[k].loss, q);
        if (isnan(squared_lengths[k])) continue; // refused
        if (q != 0 && squared_lengths[k] > 0)
            below += q * pow(members[k].loss + 1e-10, q - 1) * squared_lengths[k] / lr;
        below += pow(members[k].loss, q);
    }
    return below > 0 ? of_all / below : 1; // with all losses 0 no client has a weight
}

const CombineRule qffl_combine_rule = {
    .text = {"qffl",
             "weights clients by a power of their loss, so that clients with a high loss have more weight",
             "Li et al., ICLR 2020, Algorithm 2",
             {{.name = "q", .preset = 0.1, .minimum = 0, .maximum = 100}}},
    .by_loss = by_loss,
    .factor = factor};
