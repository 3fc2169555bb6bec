// What bad clients do, whatever the algorithm: they train on false labels, hand in another update than they trained, or
// agree on one when they have seen those of all others (crafted.h). Part of the world, not of the recipe: what
// honest clients compute does not depend on it.
//
//   TRY(attack_parse(&attack, "sign-flip scale=3", err));
//   TRY(attack_choose(attackers, "0.2", clients, seed, err));          // a part of the clients, or "3,7": these
//   attack_labels(label_of, classes, &attack);                         // what an attacker trains on: label_of[label]
//   attack_update(weights, global, count, &attack, &turn);             // what an attacker makes of what it trained
#ifndef SOUNDER_FEDAVG_RULES_ATTACK_ATTACK_RULES_H
#define SOUNDER_FEDAVG_RULES_ATTACK_ATTACK_RULES_H

#include <stddef.h>

#include "base/err.h"
#include "fedavg/rules/rule.h"

enum {
    ATTACK_NONE,
    ATTACK_LABEL_FLIP,
    ATTACK_SIGN_FLIP,
    ATTACK_SCALED,
    ATTACK_GAUSSIAN,
    ATTACK_ZERO,
    ATTACK_FREE_RIDER,
    ATTACK_ALIE,
    ATTACK_IPM,
    ATTACK_MIN_MAX,
    ATTACK_MIN_SUM,
    ATTACK_MIMIC,
    ATTACK_BACKDOOR,
    ATTACK_RULE_COUNT
};

// Numbers of label-flip; NAN where they are not given.
enum { ATTACK_LABEL_FROM, ATTACK_LABEL_TO, ATTACK_LABEL_EXCEPT };

// Numbers of backdoor.
enum { BACKDOOR_TARGET, BACKDOOR_FRACTION, BACKDOOR_SIZE, BACKDOOR_FACTOR };

// The first is none, which no text names.
extern const RuleText attack_rules[ATTACK_RULE_COUNT];

// USAGE with the nearest word.
Status attack_parse(Chosen *attack, const char *text, Error *err);

// attackers (clients): 1 for those that attack, which text tells: a part of the clients ("0.2", with a point: the first
// so many of a shuffled list), or their numbers ("3,7"). attackers NULL: only looks whether the text fits. USAGE.
Status attack_choose(uint8_t *attackers, const char *text, uint32_t clients, uint64_t seed, Error *err);

// Whether attackers train on false labels; the others train as everybody and change their update.
static inline bool attack_is_on_labels(const Chosen *attack) {
    return attack->row == ATTACK_LABEL_FLIP;
}

// Whether attackers train on other samples than they have: with false labels, or marked ones.
static inline bool attack_is_in_training(const Chosen *attack) {
    return attack_is_on_labels(attack) || attack->row == ATTACK_BACKDOOR;
}

// Of a batch of so many samples, how many an attacker marks; 0 with other attacks.
uint32_t attack_marked(const Chosen *attack, uint32_t count);

// others (count): those of the samples first to first + count - 1 that are not of the backdoor's target. Returns how
// many.
uint32_t attack_others(uint32_t *others, const uint16_t *labels, uint32_t first, uint32_t count, const Chosen *attack);

// Whether attackers train as everybody, and then hand in one update that follows from those of others: such a run has
// all updates side by side, and the parent makes that one of them (parent/crafting.h).
static inline bool attack_is_crafted(const Chosen *attack) {
    return attack->row >= ATTACK_ALIE && attack->row <= ATTACK_MIMIC;
}

// label_of (classes): what stands for each label.
void attack_labels(uint16_t *label_of, int classes, const Chosen *attack);

// A client's turn in a round.
typedef struct AttackTurn {
    uint64_t seed;
    uint32_t round, client;
    uint32_t key; // of its random numbers: another one for each training from one model; the round for the first
    double share; // of its update in the mean
} AttackTurn;

// weights (count): as trained from global (count), and then as handed in.
void attack_update(float *weights, const float *global, size_t count, const Chosen *attack, const AttackTurn *turn);

#endif
