// Personal models: the part of a model that belongs to the client alone. A rule names the parameters that stay with the
// client and are never sent, or lets the client train a second model of its own.
//
//   TRY(personal_plan(&plan, &recipe->personal, &spec, &tensors, &training, err));
//
// Client state (memory/client_state_file.h) holds personal parameters as a difference, so that a client without a turn
// has zeros: parameters that stay, as the difference from the global ones, which do not move; a second model, as the
// difference from the initial weights.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_PERSONAL_RULES_H
#define SOUNDER_FEDAVG_RULES_LOCAL_PERSONAL_RULES_H

#include "base/err.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/training.h"
#include "nn/spec.h"

enum {
    PERSONAL_NONE,
    PERSONAL_DITTO,
    PERSONAL_MOREAU,
    PERSONAL_HEAD,
    PERSONAL_BODY,
    PERSONAL_ALTERNATE,
    PERSONAL_NORMS,
    PERSONAL_ALL,
    PERSONAL_TENSORS,
    PERSONAL_FIXED_HEAD,
    PERSONAL_MIXED,
    PERSONAL_CLUSTERS,
    PERSONAL_FIXED, // no client has tensors of its own: options_resolve makes --freeze of it
    PERSONAL_COUNT
};

extern const RuleText personal_rules[PERSONAL_COUNT];

enum {
    PERSONAL_MOST_RUNS = TENSORS_MOST / 2, // there is another tensor between two runs
    PERSONAL_MOST_CLUSTERS = 16,
};

// A run of adjacent parameters.
typedef struct PersonalRun {
    uint64_t first, end;
} PersonalRun;

// Plain data, in RunConfig. Two kinds of plans share it: parameters that stay (runs), and a second model (second). The
// numbers of the other kind are 0.
typedef struct PersonalPlan {
    uint64_t first,
        end;            // of the parameters that stay, if they are one run; first == end: none, or several runs
    uint32_t run_count; // all runs that stay, in order
    PersonalRun runs[PERSONAL_MOST_RUNS];
    double lambda;   // of a second model: the pull to the global model, or to the client's copy of it
    uint32_t epochs; // of the second model, or with `alternates` of the head; 0: there is none
    uint32_t second; // 1: each client trains its own model beside the shared one
    uint32_t inner;  // steps of the second model per step of the first, which follows it; 0: it trains after the first
    double inner_lr; // their learning rate
    uint32_t mixes;  // 1: the personal model is alpha second + (1 - alpha) first, and both step on every batch
    uint32_t adapts; // 1: alpha follows its gradient, and is one more float of client state
    float alpha;     // before a client's first turn
    double alpha_decay;
    uint32_t clusters;    // models that the server trains, of which a client takes the one that fits it best; 0 is 1
    uint32_t alternates;  // 1: first the parameters that stay are trained alone, then those that are sent
    uint32_t tune_epochs; // a client trains a copy of the global model for its test; 0: it keeps what stays
    uint32_t tunes_head;  // 1: of that copy only the parameters that stay
} PersonalPlan;

// The number of floats of client state.
uint64_t personal_floats(const PersonalPlan *plan, uint64_t parameters);

// travels (list->count): whether clients send the tensor, which is neither frozen nor theirs alone.
void personal_travelling(bool *travels, const PersonalPlan *plan, const TensorList *list);

// spec: without layers where a trainer trains, whose modules are then the layers. USAGE with the rule and what the net
// does not have.
Status personal_plan(PersonalPlan *plan, const Chosen *chosen, const Spec *spec, const TensorList *tensors,
                     const Training *training, Error *err);

#endif
