// What is done to the sum of the cohort's updates before anybody sees it: nothing, or noise that hides every single
// client (central differential privacy: McMahan, Ramage, Talwar, Zhang, ICLR 2018).
//
//   send clip norm=C; combine mean uniform; release gaussian noise=Z
//
// Every update is at most C long and counts 1/c, where c is the size of the cohort as it was meant to be: who drops out
// or is refused changes nothing for the others. Noise of deviation Z C/c joins every weight of the sum, once, and the
// accountant (accountant.h) says what that is worth.
//
// A tree (DP-FTRL: Kairouz et al., ICML 2021) has noise of that deviation on each of its nodes, which cover 1, 2, 4 ...
// rounds. The sum of all updates up to a round has the noise of the nodes that make up these rounds, one for each bit
// of their number; so a round adds the noise of the node that it completes and takes off that of those below. The nodes
// are functions of (seed, tree, level, index): nothing has to be remembered.
//
// The stream of noise follows from the seed: whoever knows that can take the noise away, so a model that is to be shown
// needs a secret seed.
#ifndef SOUNDER_FEDAVG_RULES_PRIVACY_RELEASE_RULES_H
#define SOUNDER_FEDAVG_RULES_PRIVACY_RELEASE_RULES_H

#include "base/err.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/privacy/accountant.h"
#include "fedavg/rules/rule.h"
#include "nn/spec.h"

enum { RELEASE_EXACT, RELEASE_GAUSSIAN, RELEASE_TREE, RELEASE_RULE_COUNT };
// Numbers of gaussian and tree.
enum {
    RELEASE_NOISE,
    RELEASE_EPSILON,
    RELEASE_DELTA,
    RELEASE_COHORT,
    RELEASE_RESTART = RELEASE_COHORT // of a tree
};
extern const RuleText release_rules[RELEASE_RULE_COUNT];

// Who is asked for the sum, and how often.
typedef struct ReleaseWorld {
    Cohorts cohorts;
    uint32_t clients, clients_per_round;
    double rounds; // of the run, over which epsilon may be spent
} ReleaseWorld;

// Plain data, in RunConfig.
typedef struct ReleasePlan {
    uint32_t hides;       // 1: noise joins the sum
    uint32_t tree_rounds; // until a tree begins anew; 0: there is no tree
    Mechanism mechanism;  // for the accountant: of a round
    double delta;         // at which epsilon is told
    double updates_noise; // of the updates, in norms: more than the mechanism's where the clip is found with noise, too
    double count_noise;   // deviation of the noise in how many updates were clipped
    uint32_t clients_per_round; // as it is meant to be
    double cohort;              // over which the mean is taken where the noise is concerned
    double local_noise;         // of every update, in norms (`send noise`)
    double local_epsilon;       // of one update at local_delta; NAN without such noise
    double local_delta;
} ReleasePlan;

// USAGE with both sides of what does not go together, or with what no noise can do.
// local_noise: of a client's own update.
Status release_plan(ReleasePlan *plan, const Chosen *release, const Chosen *clip, const Chosen *local_noise,
                    const ReleaseWorld *world, Error *err);

// Whoever arrives counts 1/cohort, however many arrive.
void release_shares(CohortShares *all, Member *members, uint32_t count, uint32_t cohort);

// total (parameters) += noise of this deviation, in units of 2^-40, for those that are sent.
void release_add_noise(int64_t *total, double deviation, uint64_t seed, uint32_t round, const PersonalRun *sent,
                       uint32_t runs);

// The same for a round of a tree: what its noise has changed by.
void release_add_tree_noise(int64_t *total, double deviation, uint32_t tree_rounds, uint64_t seed, uint32_t round,
                            const PersonalRun *sent, uint32_t runs);

// What updates are clipped to in the next round (Andrew, Thakkar, McMahan, Ramaswamy, NeurIPS 2021), of `arrived`
// updates of which `clipped` were too long.
double release_next_clip(double norm, const Chosen *clip, const ReleasePlan *plan, uint32_t arrived, uint32_t clipped,
                         uint64_t seed, uint32_t round);

#endif
