// How much each client of a cohort counts: its share in the mean, which is known before it trains.
//
//   cohort_shares(&all, members, count, &world, &recipe->parts[PART_COMBINE]);
//
// The shares of a round sum to at most 1 (rules/aggregate.h). FedNova's are cut below the clients' weights, and what was
// cut from all alike comes back as one factor of the mean, exactly 1 where nothing was.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_RULES_H
#define SOUNDER_FEDAVG_RULES_COMBINE_RULES_H

#include "fedavg/rules/rule.h"
#include "fedavg/rules/world.h"

// Of the whole cohort.
typedef struct CohortShares {
    double factor; // of the mean
    double total;  // what the shares sum to: exactly 1 unless they were cut
} CohortShares;

typedef struct CombineRule {
    RuleText text;
    // Cuts the shares of those that arrive, which are their weights, summing to 1. NULL: nothing.
    void (*cut)(CohortShares *all, Member *members, uint32_t count, const double *number);
    // What a client counts by its loss; NULL: the losses are not asked for, which saves a pass over the data.
    double (*by_loss)(double loss, const double *number);
    // The factor, once the lengths of the updates are known; NULL: it is that of the cohort.
    double (*factor)(const Member *members, const double *squared_lengths, uint32_t count, double lr,
                     const double *number);
} CombineRule;

enum { COMBINE_MEAN, COMBINE_NOVA, COMBINE_QFFL, COMBINE_RULE_COUNT };

extern const CombineRule combine_rules[COMBINE_RULE_COUNT];

// Fills in the shares of the members (ascending by client) that arrive; the others have none. Who was drawn by size
// counts as often as it was drawn, where others count by their samples.
void cohort_shares(CohortShares *all, Member *members, uint32_t count, const World *world, const Chosen *chosen);

#endif
