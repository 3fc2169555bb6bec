#include "combine_rules.h"

#include <math.h>

#define COMBINE_POINTER(name) [COMBINE_ROW_##name] = &name##_combine_rule,
const CombineRule *const combine_rules[COMBINE_RULE_COUNT] = {COMBINE_RULES(COMBINE_POINTER)};

const CombineRule mean_combine_rule = {
    .text = {"mean",
             "the mean of the clients' updates, each weighted by its samples or otherwise",
             "McMahan et al., AISTATS 2017",
             {COMBINE_WEIGHTS}}};

const CombineRule external_combine_rule = {
    .text = {"external", "what the program of --aggregator makes of the updates", "the user", {{0}}},
    .rows = true,
    .external = true};

static int weights_of(const Chosen *chosen) {
    const double weights = rule_number(chosen, &combine_rules[chosen->row]->text, "weights");
    return isnan(weights) ? WEIGHTS_UNIFORM : (int)weights;
}

bool combine_counts_samples(const Chosen *chosen) {
    return !combine_wants_losses(chosen) && weights_of(chosen) == WEIGHTS_SAMPLES;
}

bool combine_is_told(const Chosen *chosen) {
    const int weights = weights_of(chosen);
    return !combine_wants_losses(chosen) && (weights == WEIGHTS_TOLD || weights == WEIGHTS_TOKENS);
}

double combine_told(const Chosen *chosen, uint64_t samples, uint64_t tokens) {
    if (weights_of(chosen) == WEIGHTS_TOKENS) return (double)tokens / WEIGHTS_TOKENS_UNIT;
    return (double)samples / WEIGHTS_TOLD_UNIT;
}

bool combine_is_uniform(const Chosen *chosen) {
    return !combine_wants_losses(chosen) && weights_of(chosen) == WEIGHTS_UNIFORM;
}

bool combine_wants_losses(const Chosen *chosen) {
    const CombineRule *rule = combine_rules[chosen->row];
    return rule->by_loss || rule->learn;
}

static double weight_of(const Member *member, const World *world, const Chosen *chosen) {
    const CombineRule *rule = combine_rules[chosen->row];
    if (member->fate != MEMBER_ARRIVES) return 0;
    if (rule->by_loss) return rule->by_loss(member->loss, chosen->number);
    const bool by_size = world->sampling == SAMPLING_BY_SIZE || world->sampling == SAMPLING_POWER_OF_CHOICE;
    const double count = member->weight > 0 ? member->weight * member->times
                         : by_size          ? member->times
                                            : member->samples;
    switch (weights_of(chosen)) {
    case WEIGHTS_UNIFORM:
        return count > 0;
    case WEIGHTS_TOKENS:
    case WEIGHTS_TOLD: // what the trainer tells is multiplied with it
        return by_size ? member->times : count > 0;
    case WEIGHTS_SQRT:
        return sqrt(count);
    case WEIGHTS_LOG:
        return log10(1 + count);
    default:
        return count;
    }
}

// Weights by samples are whole numbers, so their sum is exact in any order.
void cohort_shares(CohortShares *all, Member *members, uint32_t count, const World *world, const Chosen *chosen) {
    const CombineRule *rule = combine_rules[chosen->row];
    double total = 0;
    *all = (CohortShares){.factor = 1, .total = 1};
    for (uint32_t k = 0; k < count; k++)
        total += weight_of(&members[k], world, chosen);
    for (uint32_t k = 0; k < count; k++)
        members[k].share = total > 0 ? weight_of(&members[k], world, chosen) / total : 0;
    if (rule->cut && total > 0) rule->cut(all, members, count, chosen->number);
}

// |d_k - v|^2 = d_k d_k - 2 d_k v + v v, from inner products alone.
void choice_distances(double *distances, const double *c, const Choice *choice) {
    const size_t count = choice->count;
    double squared = 0, *products = choice->workspace + 2 * count * count;
    for (size_t k = 0; k < count; k++) {
        products[k] = 0;
        for (size_t j = 0; j < count; j++)
            products[k] += choice->products[k * count + j] * c[j];
        squared += c[k] * products[k];
    }
    for (size_t k = 0; k < count; k++) {
        const double apart = choice->products[k * count + k] - 2 * products[k] + squared;
        distances[k] = apart > 0 ? sqrt(apart) : 0;
    }
}
