// The contract of a combine rule: how the updates of a cohort become one update. One file per rule (combine/NAME.c) and
// one line in COMBINE_RULES (combine_rules.h).
//
// A rule that knows the weight of each client before training needs one sum only (rules/sum/aggregate.h). A robust rule
// has to see all updates, so it gets them side by side (rows.h). There all clients have equal weights unless the rule
// says otherwise: a weight that a client could choose would be a weapon. The combined update of a robust rule is a sum
// of integers, too.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULE_H
#define SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULE_H

#include <stdbool.h>

#include "fedavg/rules/combine/rows.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/world.h"

// The shares of the whole cohort.
typedef struct CohortShares {
    double factor; // of the mean
    double total;  // the sum of the shares: exactly 1 unless they were cut
} CohortShares;

// The input of a rule that chooses among updates, or weighs them by their distances.
typedef struct Choice {
    const double *products; // (count, count): inner products of the updates: by client, then the extra update
    uint32_t count;
    const double *weights; // of each client; they sum to 1
    const double *number;
    double *workspace; // (2 count count + 4 count)
} Choice;

static inline double choice_squared_distance(const Choice *choice, size_t a, size_t b) {
    const size_t count = choice->count;
    const double squared =
        choice->products[a * count + a] + choice->products[b * count + b] - 2 * choice->products[a * count + b];
    return squared > 0 ? squared : 0; // rounding may make the distance of equal updates negative
}

// distances (count): of each update from the combination sum_k c_k d_k, with coefficients c (count).
void choice_distances(double *distances, const double *c, const Choice *choice);

typedef struct CombineRule {
    RuleText text; // with a number called "weights" (COMBINE_WEIGHTS) clients are weighted by it; without it equally
    // Reduces the shares of the clients that arrive. On entry the shares are the clients' weights and sum to 1. NULL if
    // unused.
    void (*cut)(CohortShares *all, Member *members, uint32_t count, const double *number);
    // The weight of a client, by its loss; NULL if the rule needs no losses, which saves a pass over the data.
    double (*by_loss)(double loss, const double *number);
    // Learns the clients' weights: weights (count), which sum to 1, after a round in which the global model had these
    // losses on the clients' samples. All clients take part. workspace (count). NULL if unused.
    void (*learn)(double *weights, const double *losses, uint32_t count, const double *number, double *workspace);
    // The factor of the mean, computed from the lengths of the updates; NULL for the factor of the cohort.
    double (*factor)(const Member *members, const double *squared_lengths, uint32_t count, double lr,
                     const double *number);

    // Robust rules.
    bool rows;                             // the rule needs the updates side by side
    double (*least)(const double *number); // the fewest updates that the rule accepts; NULL: one
    const char *for_fewer;                 // the remedy where there are fewer; NULL: "lower byzantine"
    // A factor of a client's weight, by the mean loss of its training, which is known once it has trained; NULL if
    // unused.
    double (*by_training)(double loss, const double *number);
    // shares (count): each update's weight in the result, or whether a column rule uses it; NULL: all equal.
    void (*choose)(double *shares, const Choice *choice);
    bool picks;     // chooses some of the updates, which the record of a round names
    bool remembers; // the result of the last round is one more (extra) update; zeros in round 1
    // The server trains on as many samples as the first number says; its update is the extra one.
    bool trusts;
    RowColumn column; // combines each weight on its own; NULL: the mean by shares
    bool external;    // a program of the user's combines the updates
    bool adapters;    // works on pairs of tensors, after the mean (adapters.h)

    // The factor of a client's share for an update of this length, at most 1; NULL: always 1. Known when the update is
    // handed in.
    double (*bound)(double squared_length, const double *number);
} CombineRule;

enum { COMBINE_MOST_ROOT_SAMPLES = 10000 };

// f, the number of clients that may be byzantine.
#define COMBINE_BYZANTINE                                                                                              \
    { .name = "byzantine", .preset = 1, .minimum = 0, .maximum = 1000000, .whole = true }

enum { WEIGHTS_SAMPLES, WEIGHTS_UNIFORM, WEIGHTS_SQRT, WEIGHTS_LOG, WEIGHTS_TOLD, WEIGHTS_TOKENS };

// With weights=told a trainer says after its training how many samples a client has, with weights=tokens how many
// tokens it has trained on. A worker multiplies the update by that number divided by this unit as it adds it, and the
// parent divides by the sum. A unit is large enough that an update of 64 million samples (64 thousand million tokens)
// may move a weight by 1, and small enough that one of a single sample is exact to 2^-35 (of 100 tokens, to 2^-31).
#define WEIGHTS_TOLD_UNIT   64
#define WEIGHTS_TOKENS_UNIT 65536

#define COMBINE_WEIGHTS                                                                                                \
    {                                                                                                                  \
        .name = "weights", .words = { "samples", "uniform", "sqrt", "log", "told", "tokens" }                          \
    }

#endif
