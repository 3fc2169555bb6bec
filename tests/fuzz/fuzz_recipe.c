// Any algorithm: numbers of an accepted one lie in their ranges, it can be written as a text that is read as the same,
// and what its noise is worth is known or refused. The first three bytes are clients, clients a round and rounds.
#include "fuzz.h"

#include <math.h>

#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/privacy/release_rules.h"

static void must_be_in_range(const RuleNumber *number, double value) {
    int words = 0;
    while (words < RULE_WORDS && number->words[words])
        words++;
    if (words > 0)
        must(value >= 0 && value < words && value == floor(value));
    else if (isnan(value))
        must(number->derived && isnan(number->preset));
    else
        must((value >= number->minimum && value <= number->maximum) || value == number->preset);
}

// Adds the rule that a part has, with all its numbers. Returns the text's length.
static size_t add_part(char *text, size_t room, size_t used, Part part, const Chosen *chosen) {
    const RuleText *rule = part_rule(part, chosen->row);
    must(rule);
    used += (size_t)snprintf(text + used, room - used, "%s%s %s", used ? ";" : "", part_names[part], rule->name);
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++) {
        const RuleNumber *number = &rule->numbers[n];
        const double value = chosen->number[n];
        if (number->names) {
            if (*chosen->names) used += (size_t)snprintf(text + used, room - used, " %s=%s", number->name, chosen->names);
            continue;
        }
        must_be_in_range(number, value);
        if (isnan(value) || value == number->preset) continue;
        if (number->words[0])
            used += (size_t)snprintf(text + used, room - used, " %s=%s", number->name, number->words[(int)value]);
        else
            used += (size_t)snprintf(text + used, room - used, " %s=%.17g", number->name, value);
    }
    must(used < room);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    if (bytes < 3) return 0;
    Recipe recipe, again;
    Error err = {.message = ""};
    char name[RECIPE_TEXT_BYTES], *text = text_of(input + 3, bytes - 3), written[8 * RECIPE_TEXT_BYTES] = "";
    const Status status = refused_with_a_sentence(recipe_parse(&recipe, text, &err), &err);
    if (status == STATUS_OK) must(*recipe_name(name, text));
    free(text);
    if (status != STATUS_OK) return 0;
    size_t used = 0;
    for (int part = 0; part < PART_COUNT; part++)
        used = add_part(written, sizeof written, used, (Part)part, &recipe.parts[part]);
    if (used < RECIPE_TEXT_BYTES) {
        must(recipe_parse(&again, written, &err) == STATUS_OK);
        must(memcmp(&again, &recipe, sizeof recipe) == 0);
    }
    const uint32_t clients = input[0] + 1u, drawn = input[1] % clients + 1;
    const ReleaseWorld world = {.cohorts = COHORTS_POISSON,
                                .clients = clients,
                                .clients_per_round = drawn,
                                .absent = input[2] % clients,
                                .rounds = input[2] + 1.0};
    ReleasePlan plan;
    refused_with_a_sentence(release_plan(&plan, &recipe.release, &recipe.clip, &recipe.noise, &world, &err), &err);
    return 0;
}
