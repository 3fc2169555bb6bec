#include "recipe.h"

#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/world/stale_rules.h"

const char *const part_names[PART_COUNT] = {
    [PART_LOCAL] = "local",   [PART_OPTIMIZER] = "optimizer", [PART_PERSONAL] = "personal",
    [PART_CLIP] = "send",     [PART_NOISE] = "send",          [PART_CODE] = "send",
    [PART_MIX] = "mix",       [PART_COMBINE] = "combine",     [PART_RELEASE] = "release",
    [PART_SERVER] = "server", [PART_SCHEDULE] = "schedule",   [PART_STALE] = "stale"};

// NULL ends a loop over the rows of a part. The compiler names a part without a case here, because the switch has no
// default.
const RuleText *part_rule(Part part, uint32_t row) {
    switch (part) {
    case PART_LOCAL:
        return row < LOCAL_RULE_COUNT ? &local_rules[row]->text : NULL;
    case PART_OPTIMIZER:
        return row < OPTIMIZER_COUNT ? &optimizer_rules[row].text : NULL;
    case PART_PERSONAL:
        return row < PERSONAL_COUNT ? &personal_rules[row] : NULL;
    case PART_CLIP:
        return row < CLIP_RULE_COUNT ? &clip_rules[row] : NULL;
    case PART_NOISE:
        return row < NOISE_RULE_COUNT ? &noise_rules[row] : NULL;
    case PART_CODE:
        return row < SEND_CODE_COUNT ? &send_codes[row]->text : NULL;
    case PART_RELEASE:
        return row < RELEASE_RULE_COUNT ? &release_rules[row] : NULL;
    case PART_MIX:
        return row < MIX_RULE_COUNT ? &mix_rules[row].text : NULL;
    case PART_COMBINE:
        return row < COMBINE_RULE_COUNT ? &combine_rules[row]->text : NULL;
    case PART_STALE:
        return row < STALE_COUNT ? &stale_rules[row] : NULL;
    case PART_SERVER:
        return row < SERVER_RULE_COUNT ? &server_rules[row]->text : NULL;
    case PART_SCHEDULE:
        return row < SCHEDULE_COUNT ? &engine_facts[row].text : NULL;
    }
    return NULL;
}

const char *recipe_rule(const Recipe *recipe, Part part) {
    return part_rule(part, recipe->parts[part].row)->name;
}

// The real clock is no schedule: it is an option, which run_algorithm (memory/run_memory_create.c) adds to the recipe's
// schedule.
EngineKind recipe_engine(const Recipe *recipe) {
    return (EngineKind)recipe->schedule.row;
}
