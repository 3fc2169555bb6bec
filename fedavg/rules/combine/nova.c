// Part of combine_rules.h: FedNova (Wang, Liu, Liang, Joshi, Poor, NeurIPS 2020, equations 5 to 8) divides each update
// by the length of its local training, a_k:
//
//   D = tau_eff sum p_k d_k / a_k
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

// With a_ref the smallest a_k, the share is p_k (a_ref / a_k) and the factor tau_eff / a_ref. Both are exactly FedAvg's
// if all a_k are equal. tau_eff is sum p_k a_k, or the mean number of steps with tau=steps.
static void cut(CohortShares *all, Member *members, uint32_t count, const double *number) {
    const bool counts_steps = number[1] != 0;
    double least = INFINITY, most = 0, effective = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (members[k].share == 0) continue;
        const double reach = members[k].reach;
        least = fmin(least, reach);
        most = fmax(most, reach);
        effective += members[k].share * (counts_steps ? (double)members[k].steps : reach);
    }
    all->factor = least == most && !counts_steps ? 1 : effective / least;
    all->total = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (members[k].share == 0) continue;
        members[k].share *= least / members[k].reach;
        all->total += members[k].share;
    }
    if (least == most) all->total = 1;
}

const CombineRule nova_combine_rule = {.text = {"nova",
                                                "divides updates by the length of their local training before the mean",
                                                "Wang et al., NeurIPS 2020, equations 5 to 8",
                                                {COMBINE_WEIGHTS, {.name = "tau", .words = {"a", "steps"}}}},
                                       .cut = cut};
