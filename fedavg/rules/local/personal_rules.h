// Personal models: what of a model is a client's own, beside what all share. A rule says which parameters stay with the
// client and are never sent, or that it trains a second model of its own.
//
//   TRY(personal_plan(&plan, &recipe->personal, &spec, &training, err));
//
// What a client keeps lies in its row (memory/client_state_file.h) as a difference, so that a client that never had a
// turn has zeros: of the parameters that stay, from the global ones, which nobody moves; of a second model, from the
// initial weights.
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
    PERSONAL_COUNT
};

typedef struct PersonalRule {
    RuleText text;
} PersonalRule;

extern const PersonalRule personal_rules[PERSONAL_COUNT];

// Parameters side by side.
typedef struct PersonalRun {
    uint64_t first, end;
} PersonalRun;

// Plain data, in RunConfig.
typedef struct PersonalPlan {
    uint64_t first,
        end;            // the parameters that stay with the client, if they are one run; first == end: none, or several
    uint32_t run_count; // all runs that stay, in order
    PersonalRun runs[SPEC_MAX_LAYERS];
    double lambda;       // of a second model: the pull to the global one, or to the client's copy of it
    uint32_t epochs;     // of a second model's training, or with `alternates` of the head's; 0: there is none
    uint32_t second;     // 1: a client trains a model of its own beside the shared one
    uint32_t inner;      // steps of the second model for each of the first, which follows it; 0: trained afterwards
    double inner_lr;     // of those steps
    uint32_t alternates; // 1: first what stays is trained alone, then what is sent
} PersonalPlan;

// Floats that a client keeps.
uint64_t personal_floats(const PersonalPlan *plan, uint64_t parameters);

// USAGE with the rule and what the net lacks.
Status personal_plan(PersonalPlan *plan, const Chosen *chosen, const Spec *spec, const Training *training, Error *err);

#endif
