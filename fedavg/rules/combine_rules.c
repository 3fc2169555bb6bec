#include "combine_rules.h"

#include <math.h>
#include <stdbool.h>

enum { WEIGHTS_SAMPLES, WEIGHTS_UNIFORM, WEIGHTS_SQRT, WEIGHTS_LOG };

#define WEIGHTS_NUMBER                                                                                                 \
    {                                                                                                                  \
        .name = "weights", .words = { "samples", "uniform", "sqrt", "log" }                                            \
    }

static double weight_of(const Member *member, const World *world, const Chosen *chosen) {
    const CombineRule *rule = &combine_rules[chosen->row];
    if (member->fate != MEMBER_ARRIVES) return 0;
    if (rule->by_loss) return rule->by_loss(member->loss, chosen->number);
    const bool by_size = world->sampling == SAMPLING_BY_SIZE || world->sampling == SAMPLING_POWER_OF_CHOICE;
    const double count = by_size ? member->times : member->samples;
    switch ((int)chosen->number[0]) {
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

// q-FFL (Li, Sanjabi, Beirami, Smith, ICLR 2020, Algorithm 2), with 1/lr for the Lipschitz constant:
//
//   w += sum F_k^q d_k / sum (q F_k^(q-1) |d_k|^2 / lr + F_k^q)
//
// F_k is the loss of the global weights on all that client k trains on. With q = 0 all clients count alike.
static double qffl_by_loss(double loss, const double *number) {
    return pow(loss, number[0]);
}

static double qffl_factor(const Member *members, const double *squared_lengths, uint32_t count, double lr,
                          const double *number) {
    const double q = number[0];
    double of_all = 0, below = 0;
    for (uint32_t k = 0; k < count; k++) {
        of_all += pow(members[k].loss, q);
        if (isnan(squared_lengths[k])) continue; // refused
        if (q != 0) below += q * pow(members[k].loss + 1e-10, q - 1) * squared_lengths[k] / lr;
        below += pow(members[k].loss, q);
    }
    return of_all / below;
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
    [COMBINE_QFFL] =
        {.text = {"qffl",
                  "clients count by a power of their loss, so that those the model serves badly count more",
                  "Li et al., ICLR 2020, Algorithm 2",
                  {{.name = "q", .preset = 0.1, .minimum = 0, .maximum = 100}}},
         .by_loss = qffl_by_loss,
         .factor = qffl_factor},
};

// Weights by samples are whole numbers, so that their sum is exact in any order.
void cohort_shares(CohortShares *all, Member *members, uint32_t count, const World *world, const Chosen *chosen) {
    const CombineRule *rule = &combine_rules[chosen->row];
    double total = 0;
    *all = (CohortShares){.factor = 1, .total = 1};
    for (uint32_t k = 0; k < count; k++)
        total += weight_of(&members[k], world, chosen);
    for (uint32_t k = 0; k < count; k++)
        members[k].share = total > 0 ? weight_of(&members[k], world, chosen) / total : 0;
    if (rule->cut && total > 0) rule->cut(all, members, count, chosen->number);
}
