// What a combine rule is: what becomes of the updates that a cohort hands in. One file a rule (combine/NAME.c) and one
// line in COMBINE_RULES (combine_rules.h).
//
// A rule that knows how much each client counts before it trains needs no more than one sum (rules/sum/aggregate.h). A
// robust one, which has to see all updates, gets them side by side (rows.h), in which all clients count the same unless
// it says otherwise: a weight that a client could choose would be a weapon. What it takes of them becomes a sum of
// integers, too.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULE_H
#define SOUNDER_FEDAVG_RULES_COMBINE_COMBINE_RULE_H

#include <stdbool.h>

#include "fedavg/rules/combine/rows.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/world.h"

// Of the whole cohort.
typedef struct CohortShares {
    double factor; // of the mean
    double total;  // what the shares sum to: exactly 1 unless they were cut
} CohortShares;

// What a rule that chooses among updates, or weighs them anew, has to go by.
typedef struct Choice {
    const double *products; // (count, count): of the updates; those of the clients, ascending, then what is aside
    uint32_t count;
    const double *weights; // what each client counts; they sum to 1
    const double *number;
    double *workspace; // (2 count count + 4 count)
} Choice;

static inline double choice_squared_distance(const Choice *choice, size_t a, size_t b) {
    const size_t count = choice->count;
    const double squared =
        choice->products[a * count + a] + choice->products[b * count + b] - 2 * choice->products[a * count + b];
    return squared > 0 ? squared : 0; // of equal updates rounding may leave less
}

// distances (count): of every update from the sum of c (count) times the updates.
void choice_distances(double *distances, const double *c, const Choice *choice);

typedef struct CombineRule {
    RuleText text; // a number called "weights" (COMBINE_WEIGHTS): by what clients count; without it all count the same
    // Cuts the shares of those that arrive, which are their weights, summing to 1. NULL: nothing.
    void (*cut)(CohortShares *all, Member *members, uint32_t count, const double *number);
    // What a client counts by its loss; NULL: the losses are not asked for, which saves a pass over the data.
    double (*by_loss)(double loss, const double *number);
    // What clients count is learned: weights (count), which sum to 1, after a round in which the model had these losses
    // on their samples. All clients take part. NULL: nothing is. workspace (count).
    void (*learn)(double *weights, const double *losses, uint32_t count, const double *number, double *workspace);
    // The factor, once the lengths of the updates are known; NULL: it is that of the cohort.
    double (*factor)(const Member *members, const double *squared_lengths, uint32_t count, double lr,
                     const double *number);

    // Robust rules.
    bool rows;                             // the updates are wanted side by side
    double (*least)(const double *number); // fewer updates make no sense; NULL: one does
    const char *for_fewer;                 // what lets fewer do; NULL: "lower byzantine"
    // What a client counts by the mean loss of its training, which is known when it has trained; NULL: nothing more.
    double (*by_training)(double loss, const double *number);
    // shares (count): what of each update the combined one has, or which a column rule looks at. NULL: all alike.
    void (*choose)(double *shares, const Choice *choice);
    bool picks;     // ... some of them, which the record of a round names
    bool remembers; // what came of the last round stands aside, as one more update; zeros at first
    // The server trains on as many samples as the first number says, and its update stands aside.
    bool trusts;
    RowColumn column; // what becomes of each weight on its own; NULL: the mean by shares

    // What an update of this length counts for its client's share, at most 1; NULL: all of it. Known when it is handed
    // in.
    double (*bound)(double squared_length, const double *number);
} CombineRule;

enum { COMBINE_MOST_ROOT_SAMPLES = 10000 };

// f: how many clients may be byzantine.
#define COMBINE_BYZANTINE                                                                                              \
    { .name = "byzantine", .preset = 1, .minimum = 0, .maximum = 1000000, .whole = true }

enum { WEIGHTS_SAMPLES, WEIGHTS_UNIFORM, WEIGHTS_SQRT, WEIGHTS_LOG };

#define COMBINE_WEIGHTS                                                                                                \
    {                                                                                                                  \
        .name = "weights", .words = { "samples", "uniform", "sqrt", "log" }                                            \
    }

#endif
