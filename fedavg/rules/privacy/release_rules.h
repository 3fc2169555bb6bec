// The release of the cohort's sum: as it is, or with noise that hides each single client (central differential privacy:
// McMahan, Ramage, Talwar, Zhang, ICLR 2018).
//
//   send clip norm=C; combine mean uniform; release gaussian noise=Z
//
// Every update has a length of at most C and the share 1/c, where c is the planned size of the cohort: a client that
// drops out or is refused changes nothing for the others. Noise of deviation Z C/c is added to every weight of the sum,
// once. The accountant (accountant.h) computes the resulting epsilon.
//
// A tree (DP-FTRL: Kairouz et al., ICML 2021) has noise of that deviation on each of its nodes, which cover 1, 2, 4 ...
// rounds. The sum of all updates up to a round has the noise of the nodes that make up these rounds, one for each 1 bit
// of their number. So a round adds the noise of the node that it completes and subtracts the noise of the nodes below
// it. Nodes are functions of (key, tree, level, index), so nothing has to be remembered.
//
// The key of the noise subtracts it: rules/noise_key.h says where the key is from.
#ifndef SOUNDER_FEDAVG_RULES_PRIVACY_RELEASE_RULES_H
#define SOUNDER_FEDAVG_RULES_PRIVACY_RELEASE_RULES_H

#include "base/err.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/noise_key.h"
#include "fedavg/rules/privacy/accountant.h"
#include "fedavg/rules/rule.h"

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

// The cohorts from whose updates the sum is made, and the number of releases.
typedef struct ReleaseWorld {
    Cohorts cohorts;
    uint32_t clients, clients_per_round;
    uint32_t absent; // of the clients: drawn, but they never arrive
    double rounds;   // of the run; epsilon is spent over all of them
} ReleaseWorld;

// Plain data, in RunConfig. Made once from the algorithm's text and the world; rounds only read it.
typedef struct ReleasePlan {
    uint32_t hides;       // 1: noise is added to the sum
    uint32_t tree_rounds; // until a tree restarts; 0: no tree
    Mechanism mechanism;  // of a round, for the accountant
    double delta;         // for which epsilon is reported
    double updates_noise; // of the updates, in norms: larger than the mechanism's if the clip is found with noise, too
    double count_noise;   // deviation of the noise on the number of clipped updates
    double arriving;      // clients of a round as planned, less the part of them that is absent
    double cohort;        // divisor of the mean as far as noise is concerned
    double local_noise;   // of every update, in norms (`send noise`)
    double local_epsilon; // of one update, at local_delta; NAN without such noise
    double local_delta;
} ReleasePlan;

// Plans the noise of a run. local_noise: the noise that a client adds to its own update. USAGE with both sides of a
// contradiction, or with what no noise achieves.
Status release_plan(ReleasePlan *plan, const Chosen *release, const Chosen *clip, const Chosen *local_noise,
                    const ReleaseWorld *world, Error *err);

// Every client that arrives has the share 1/cohort, regardless of how many arrive. cohort: ReleasePlan.arriving.
void release_shares(CohortShares *all, Member *members, uint32_t count, double cohort);

// total (parameters) += noise of this deviation, in units of 2^-40, for the parameters that are sent.
void release_add_noise(int64_t *total, double deviation, const NoiseKey *key, uint32_t round, const PersonalRun *sent,
                       uint32_t runs);

// For a round of a tree: adds the change of the tree's noise.
void release_add_tree_noise(int64_t *total, double deviation, uint32_t tree_rounds, const NoiseKey *key, uint32_t round,
                            const PersonalRun *sent, uint32_t runs);

// The clipping norm of the next round (Andrew, Thakkar, McMahan, Ramaswamy, NeurIPS 2021), after `arrived` updates of
// which `clipped` were longer than the norm.
double release_next_clip(double norm, const Chosen *clip, const ReleasePlan *plan, uint32_t arrived, uint32_t clipped,
                         const NoiseKey *key, uint32_t round);

#endif
