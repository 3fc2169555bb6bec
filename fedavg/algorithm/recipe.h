// A recipe says which rules a run's algorithm is made of. Plain data: the options fill it in, and workers read the same
// struct in the control segment.
//
// An algorithm is a text, as a net is. It names an entry of the zoo (names.c), or the parts that differ from FedAvg, or
// both:
//
//   fedprox                                    the zoo's, as published
//   fedprox mu=0.1                             ... with another number
//   local prox mu=0.01; server adam lr=0.03    a rule for each part, the others as in FedAvg
//   fedadam lr=0.03; local prox 0.1            parts after a zoo name replace its own
//   send clip 1; send top-k 0.01               what a client does to its update has several parts of one name
//
//   Recipe recipe;
//   TRY(recipe_parse(&recipe, "fedprox mu=0.1", err));    // USAGE, with the part, its form and the nearest word
#ifndef SOUNDER_FEDAVG_ALGORITHM_RECIPE_H
#define SOUNDER_FEDAVG_ALGORITHM_RECIPE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/engine_facts.h"

// The parts of an algorithm, and for each a table of rules.
typedef enum Part {
    PART_LOCAL,     // what a client adds to its steps, and keeps (local_rules.h)
    PART_OPTIMIZER, // how a client steps
    PART_PERSONAL,  // what of the model is the client's own (personal_rules.h)
    PART_CLIP,      // what a client does to its update, one after the other (send_rules.h): shortens it,
    PART_NOISE,     // adds noise,
    PART_CODE,      // encodes it
    PART_MIX,       // what is made of updates before a rule that looks at all of them (mix_rules.h)
    PART_COMBINE,   // how much each client counts (combine_rules.h)
    PART_RELEASE,   // what is done to the sum of the updates before anybody sees it (release_rules.h)
    PART_SERVER,    // what the mean update makes of the weights (server_rules.h)
    PART_SCHEDULE,  // who waits for whom: an EngineKind
    PART_STALE,     // what an update loses that comes late (schedule.h)
} Part;

enum { PART_COUNT = PART_STALE + 1, RECIPE_TEXT_BYTES = RULE_TEXT_BYTES };

// The rule of each part, by its name or by its Part.
typedef union Recipe {
    Chosen parts[PART_COUNT];
    struct {
        Chosen local, optimizer, personal, clip, noise, code, mix, combine, release, server, schedule, stale;
    };
} Recipe;

static_assert(sizeof(Recipe) == PART_COUNT * sizeof(Chosen) &&
                  offsetof(Recipe, combine) == PART_COMBINE * sizeof(Chosen) &&
                  offsetof(Recipe, stale) == PART_STALE * sizeof(Chosen),
              "a field for each part, in the order of Part");

// USAGE with the sentence, which names both sides where two rules do not go together (clashes.h).
Status recipe_parse(Recipe *recipe, const char *text, Error *err);

EngineKind recipe_engine(const Recipe *recipe);

// The first words of an algorithm's text: "fedprox", or "local prox" where it begins with a part.
const char *recipe_name(char name[RECIPE_TEXT_BYTES], const char *text);

// The name of the rule that a part has: "prox".
const char *recipe_rule(const Recipe *recipe, Part part);

// For help and messages; parts of one name follow each other. A rule of a part; NULL behind the last row.
extern const char *const part_names[PART_COUNT];
const RuleText *part_rule(Part part, uint32_t row);

// Named algorithms. text: parts, empty for FedAvg.
typedef struct ZooAlgorithm {
    const char *name, *text, *help, *source;
} ZooAlgorithm;
extern const ZooAlgorithm zoo_algorithms[];
extern const size_t zoo_algorithm_count;

#endif
