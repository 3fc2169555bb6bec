// Mixing before combining: each mixed update is a mean of several updates, so that no attacker's update is used alone.
// A mix is a matrix; each row gives the weights of all updates in one mixed update.
//
//   uint32_t mixed = rule->mixed(count, number);      // 0: too few updates
//   rule->mix(parts, &turn);                          // parts (mixed, count)
//
// Mixed updates are rarely computed: their inner products follow from those of the updates, and shares of mixed updates
// translate into shares of updates.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_MIX_RULES_H
#define SOUNDER_FEDAVG_RULES_COMBINE_MIX_RULES_H

#include <stdbool.h>

#include "fedavg/rules/rule.h"

typedef struct MixTurn {
    const double *products; // (count, count): of the updates; NULL if the rule does not use them
    uint32_t count, stride; // number of updates; row length of parts
    const double *number;
    uint64_t seed;
    uint32_t round;
    uint32_t *order; // (count): workspace
} MixTurn;

typedef struct MixRule {
    RuleText text;
    bool products; // the rule uses distances between updates
    // parts (mixed, stride): zeros on entry. NULL: updates are not mixed.
    void (*mix)(double *parts, const MixTurn *turn);
    // The number of mixed updates made of `count` updates; 0 if these are too few.
    uint32_t (*mixed)(uint32_t count, const double *number);
} MixRule;

enum { MIX_NONE, MIX_BUCKETS, MIX_NEAREST, MIX_RULE_COUNT };

extern const MixRule mix_rules[MIX_RULE_COUNT];

#endif
