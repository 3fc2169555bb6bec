#include "combine_rules.h"

#include <math.h>
#include <stdbool.h>

enum { WEIGHTS_SAMPLES, WEIGHTS_UNIFORM, WEIGHTS_SQRT, WEIGHTS_LOG };

#define WEIGHTS_NUMBER                                                                                                 \
    {                                                                                                                  \
        .name = "weights", .words = { "samples", "uniform", "sqrt", "log" }                                            \
    }

static double weight_of(const Member *member, const World *world, double weights) {
    if (member->fate != MEMBER_ARRIVES) return 0;
    const bool by_size = world->sampling == SAMPLING_BY_SIZE || world->sampling == SAMPLING_POWER_OF_CHOICE;
    const double count = by_size ? member->times : member->samples;
    switch ((int)weights) {
    case WEIGHTS_UNIFORM:
        return count > 0;
    case WEIGHTS_SQRT:
        return sqrt(count);
    case WEIGHTS_LOG:
        return log10(1 + count);
    default:
        return count;
    }
}

// FedNova (Wang, Liu, Liang, Joshi, Poor, NeurIPS 2020, equations 5 to 8): D = tau_eff sum p_k d_k / a_k. With a_ref the
// least a_k the share is p_k (a_ref / a_k), and the factor tau_eff / a_ref; both are exactly those of FedAvg when all a_k
// are equal.
static void nova_cut(CohortShares *all, Member *members, uint32_t count, const double *number) {
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

const CombineRule combine_rules[COMBINE_RULE_COUNT] = {
    [COMBINE_MEAN] = {.text = {"mean",
                               "the mean of the clients' updates, each weighted by its samples or otherwise",
                               "McMahan et al., AISTATS 2017",
                               {WEIGHTS_NUMBER}}},
    [COMBINE_NOVA] = {.text = {"nova",
                               "updates are divided by the length of their local training first",
                               "Wang et al., NeurIPS 2020, equations 5 to 8",
                               {WEIGHTS_NUMBER, {.name = "tau", .words = {"a", "steps"}}}},
                      .cut = nova_cut},
};

// Weights by samples are whole numbers, so that their sum is exact in any order.
void cohort_shares(CohortShares *all, Member *members, uint32_t count, const World *world, const Chosen *chosen) {
    const CombineRule *rule = &combine_rules[chosen->row];
    double total = 0;
    *all = (CohortShares){.factor = 1, .total = 1};
    for (uint32_t k = 0; k < count; k++)
        total += weight_of(&members[k], world, chosen->number[0]);
    for (uint32_t k = 0; k < count; k++)
        members[k].share = total > 0 ? weight_of(&members[k], world, chosen->number[0]) / total : 0;
    if (rule->cut && total > 0) rule->cut(all, members, count, chosen->number);
}
