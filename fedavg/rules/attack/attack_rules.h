// The behaviour of malicious clients, for any algorithm: they train on false labels, change the update that they
// trained, or agree on one update after seeing the updates of others (crafted.h). Attacks belong to the world, not to
// the recipe: they do not change what honest clients compute.
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

// Numbers of label-flip; NAN if not given.
enum { ATTACK_LABEL_FROM, ATTACK_LABEL_TO, ATTACK_LABEL_EXCEPT };

// The number "knowledge" of crafted updates: those of the honest clients, or those that attackers have trained.
enum { KNOWLEDGE_ALL, KNOWLEDGE_OWN };

// Numbers of backdoor.
enum { BACKDOOR_TARGET, BACKDOOR_FRACTION, BACKDOOR_SIZE, BACKDOOR_FACTOR };

// Row 0 is "none", which no text names.
extern const RuleText attack_rules[ATTACK_RULE_COUNT];

// Reads the text of an attack. USAGE with the nearest word.
Status attack_parse(Chosen *attack, const char *text, Error *err);

// attackers (clients): set to 1 for the attackers that text names: a fraction of the clients ("0.2", with a point: the
// first ones of a shuffled list), or their numbers ("3,7", "3-7"). attackers NULL: only checks the text. USAGE.
Status attack_choose(uint8_t *attackers, const char *text, uint32_t clients, uint64_t seed, Error *err);

// Whether attackers train on false labels; in all other attacks they train on true labels.
static inline bool attack_is_on_labels(const Chosen *attack) {
    return attack->row == ATTACK_LABEL_FLIP;
}

// Whether attackers train on changed samples: with false labels, or with marked images.
static inline bool attack_is_in_training(const Chosen *attack) {
    return attack_is_on_labels(attack) || attack->row == ATTACK_BACKDOOR;
}

// The number of samples that an attacker marks in a batch of `count`; 0 for attacks other than backdoor.
uint32_t attack_marked(const Chosen *attack, uint32_t count);

// others (count): the samples among first to first + count - 1 whose label is not the backdoor's target. Returns how
// many there are.
uint32_t attack_others(uint32_t *others, const uint16_t *labels, uint32_t first, uint32_t count, const Chosen *attack);

// Whether attackers train honestly and then hand in one update computed from the updates of others. Such a run keeps
// all updates side by side, and the parent overwrites the attackers' rows (parent/crafting.h).
static inline bool attack_is_crafted(const Chosen *attack) {
    return attack->row >= ATTACK_ALIE && attack->row <= ATTACK_MIMIC;
}

// label_of (classes): the label that an attacker trains with instead of each label.
void attack_labels(uint16_t *label_of, int classes, const Chosen *attack);

// A client's turn in a round, as an attack needs to know it.
typedef struct AttackTurn {
    uint64_t seed;
    uint32_t round, client;
    uint32_t key; // of its random numbers: the round, or another one for each training from one version
    double share; // of its update in the mean
} AttackTurn;

// weights (count): on entry as trained from global (count), on return as handed in.
void attack_update(float *weights, const float *global, size_t count, const Chosen *attack, const AttackTurn *turn);

#endif
