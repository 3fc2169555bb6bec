// All combine rules, and how much each client of a cohort counts: its share in the mean, which is known before it
// trains.
//
//   cohort_shares(&all, members, count, &world, &recipe->combine);
//
// The shares of a round sum to at most 1 (rules/sum/aggregate.h). FedNova's are cut below the clients' weights, and
// what was cut from all alike comes back as one factor of the mean, exactly 1 where nothing was.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULES_H
#define SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULES_H

#include "fedavg/rules/combine/combine_rule.h"

// The rows of the table, in this order. The first is what a recipe has that names none.
#define COMBINE_RULES(X)                                                                                               \
    X(mean)                                                                                                            \
    X(nova) X(qffl) X(median) X(trimmed) X(krum) X(multi_krum) X(bulyan) X(geometric) X(centered) X(bound) X(dga)      \
        X(afl) X(fltrust)

#define COMBINE_ROW(name) COMBINE_ROW_##name,
enum { COMBINE_RULES(COMBINE_ROW) COMBINE_RULE_COUNT };
#undef COMBINE_ROW

#define COMBINE_ROW(name) extern const CombineRule name##_combine_rule;
COMBINE_RULES(COMBINE_ROW)
#undef COMBINE_ROW

extern const CombineRule *const combine_rules[COMBINE_RULE_COUNT];

// Whether the losses of the global weights on what each client trains on are wanted before it trains.
bool combine_wants_losses(const Chosen *chosen);

// Whether all clients count alike, however many samples they have.
bool combine_is_uniform(const Chosen *chosen);

// Fills in the shares of the members (ascending by client) that arrive; the others have none. Who was drawn by size
// counts as often as it was drawn, where others count by their samples.
void cohort_shares(CohortShares *all, Member *members, uint32_t count, const World *world, const Chosen *chosen);

#endif
