#include "recipe.h"

const EngineFacts engine_facts[ENGINE_COUNT] = {
    [ENGINE_ROUNDS] = {.name = "fedavg"},
    [ENGINE_WILD] = {.name = "hogwild", .whole_cohort = true, .client_is_worker = true, .writes_weights = true},
    [ENGINE_LOCKSTEP] = {.name = "ssgd",
                         .whole_cohort = true,
                         .worker_needs_client = true,
                         .writes_weights = true,
                         .in_lockstep = true},
};
