// The table of combine rules, and the share of each client of a cohort in the mean, which is known before the client
// trains.
//
//   cohort_shares(&all, members, count, &world, &recipe->combine);
//
// The shares of a round sum to at most 1 (rules/sum/aggregate.h). FedNova reduces shares below the clients' weights;
// the common part of the reduction is returned as a factor of the mean, which is exactly 1 without a reduction.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULES_H
#define SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULES_H

#include "fedavg/rules/combine/combine_rule.h"

// The rows of the table, in this order. Recipes that name none have the first.
#define COMBINE_RULES(X)                                                                                               \
    X(mean)                                                                                                            \
    X(nova)                                                                                                            \
    X(qffl)                                                                                                            \
    X(median)                                                                                                          \
    X(trimmed) X(krum) X(multi_krum) X(bulyan) X(geometric) X(centered) X(bound) X(dga) X(afl) X(fltrust) X(adapters)

#define COMBINE_ROW(name) COMBINE_ROW_##name,
enum { COMBINE_RULES(COMBINE_ROW) COMBINE_RULE_COUNT };

#define DECLARE_COMBINE(name) extern const CombineRule name##_combine_rule;
COMBINE_RULES(DECLARE_COMBINE)

extern const CombineRule *const combine_rules[COMBINE_RULE_COUNT];

// In place of the table's rules where --aggregator names a program (parent/external.h). The shares are those of the
// recipe's mean.
extern const CombineRule external_combine_rule;

// Whether the rule needs the loss of the global weights on each client's training data before the client trains.
bool combine_wants_losses(const Chosen *chosen);

// Whether clients count by their samples, in whose place weights of the user's own can be.
bool combine_counts_samples(const Chosen *chosen);

// Whether clients count by what their trainers tell after training: samples, or tokens.
bool combine_is_told(const Chosen *chosen);

// The weight of an update whose trainer has told these numbers, in units (WEIGHTS_TOLD_UNIT, WEIGHTS_TOKENS_UNIT).
double combine_told(const Chosen *chosen, uint64_t samples, uint64_t tokens);

// Whether all clients have equal weights, regardless of their numbers of samples.
bool combine_is_uniform(const Chosen *chosen);

// Fills in the shares of the members (ascending by client) that arrive; all other members have share 0. Where other
// samplings weight by samples, a client drawn by size is weighted by how often it was drawn: its samples already
// decided its probability. With a weight of its own (Member.weight) it counts that, each time that it was drawn.
void cohort_shares(CohortShares *all, Member *members, uint32_t count, const World *world, const Chosen *chosen);

#endif
