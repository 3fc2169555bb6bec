// What is made of the updates of a cohort before they are combined: means of several of them, in which no attacker
// stands alone. A mix is a matrix: each of its rows says how much of each update goes into one mixed update.
//
//   uint32_t mixed = rule->mixed(count, number);      // 0: there are too few
//   rule->mix(parts, &turn);                          // parts (mixed, count)
//
// Mixed updates are seldom computed: their products follow from those of the updates, and the shares that a rule gives
// to mixed updates are shares of updates.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_MIX_RULES_H
#define SOUNDER_FEDAVG_RULES_COMBINE_MIX_RULES_H

#include <stdbool.h>

#include "fedavg/rules/rule.h"

typedef struct MixTurn {
    const double *products; // (count, count): of the updates; NULL where the rule does without
    uint32_t count, stride; // of updates; of parts
    const double *number;
    uint64_t seed;
    uint32_t round;
    uint32_t *order; // (count): workspace
} MixTurn;

typedef struct MixRule {
    RuleText text;
    bool products; // it looks at the distances between updates
    // NULL: updates are left as they are. parts (mixed, stride): zeros.
    void (*mix)(double *parts, const MixTurn *turn);
    // Of so many updates, how many mixed ones there will be; 0: too few for the rule.
    uint32_t (*mixed)(uint32_t count, const double *number);
} MixRule;

enum { MIX_NONE, MIX_BUCKETS, MIX_NEAREST, MIX_RULE_COUNT };

extern const MixRule mix_rules[MIX_RULE_COUNT];

#endif
