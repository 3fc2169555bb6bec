// A recipe names the rules that an algorithm consists of. It is plain data: the options fill it in, and workers read
// the same struct in the control segment.
//
// An algorithm is written as a text, like a net. The text has an entry of the zoo (names.c), or the parts that differ
// from FedAvg, or both:
//
//   fedprox                                    an entry of the zoo, with the numbers of its paper
//   fedprox mu=0.1                             ... with another number
//   local prox mu=0.01; server adam lr=0.03    a rule for each part; the other parts are FedAvg's
//   fedadam lr=0.03; local prox 0.1            parts after an entry replace the entry's parts
//   send clip 1; send top-k 0.01               "send" names several parts: clipping, noise and encoding of an update
//
//   Recipe recipe;
//   TRY(recipe_parse(&recipe, "fedprox mu=0.1", err));    // USAGE, with the part, its form and the nearest word
#ifndef SOUNDER_FEDAVG_ALGORITHM_RECIPE_H
#define SOUNDER_FEDAVG_ALGORITHM_RECIPE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/engine_facts.h"

// The parts of an algorithm; each has a table of rules.
typedef enum Part {
    PART_LOCAL,     // the term added to a client's steps, and client state (local_rules.h)
    PART_OPTIMIZER, // a client's optimizer (optimizer_rules.h)
    PART_PERSONAL,  // the part of the model that belongs to the client (personal_rules.h)
    PART_CLIP,      // the three parts called "send", in this order (send_rules.h): clips the update,
    PART_NOISE,     // adds noise,
    PART_CODE,      // encodes it
    PART_MIX,       // mixes updates before a rule that sees all of them (mix_rules.h)
    PART_COMBINE,   // the weight of each client, or a robust mean (combine_rules.h)
    PART_RELEASE,   // noise on the sum of the updates before it is used (release_rules.h)
    PART_SERVER,    // computes the weights from the mean update (server_rules.h)
    PART_SCHEDULE,  // how processes work together: an EngineKind (engine_facts.h)
    PART_STALE,     // the weight of a stale update (stale_rules.h)
} Part;

enum { PART_COUNT = PART_STALE + 1, RECIPE_TEXT_BYTES = RULE_TEXT_BYTES };

// The rule of each part, as an array by Part and as fields by name.
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

// Reads an algorithm. USAGE, with both sides if two rules do not go together (clashes.h).
Status recipe_parse(Recipe *recipe, const char *text, Error *err);

// Takes the optimizer of a name (diloco's AdamW) out of the recipe: with a trainer the program's own is in its place.
// An optimizer that the text names itself, or whose numbers it gives, stays, and clashes.
void recipe_leave_optimizer(Recipe *recipe, const char *text);

EngineKind recipe_engine(const Recipe *recipe);

// The first word of an algorithm's text ("fedprox"), or the first two if it begins with a part ("local prox").
const char *recipe_name(char name[RECIPE_TEXT_BYTES], const char *text);

// The name of the rule of a part: "prox".
const char *recipe_rule(const Recipe *recipe, Part part);

// For help and messages; parts of the same name are adjacent. part_rule: a rule of a part; NULL after the last row.
extern const char *const part_names[PART_COUNT];
const RuleText *part_rule(Part part, uint32_t row);

// Algorithms with a name. text: the parts; empty for FedAvg.
typedef struct ZooAlgorithm {
    const char *name, *text, *help, *source;
} ZooAlgorithm;
extern const ZooAlgorithm zoo_algorithms[];
extern const size_t zoo_algorithm_count;

#endif
