// The text of a rule: its name, its numbers, its source. A recipe (fedavg/algorithm/recipe.h) chooses a row of each
// table of rules and gives its numbers; parser, help and messages read only these texts.
//
//   adam lr=0.03 tau=1e-3         numbers by name, any of them, the others as preset
//   prox 0.01                     the first number needs no name
#ifndef SOUNDER_FEDAVG_RULES_RULE_H
#define SOUNDER_FEDAVG_RULES_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { RULE_NUMBERS = 9, RULE_WORDS = 8, RULE_TEXT_BYTES = 1024, RULE_NAMES_BYTES = 256 };

// A number of a rule, or a choice, whose value is the index of its word.
typedef struct RuleNumber {
    const char *name;
    double preset, minimum, maximum; // preset NAN: `derived` says which option or number sets it
    const char *words[RULE_WORDS];
    const char *derived;
    const char *also; // a second name, that of its paper ("H" for steps); NULL: none
    bool whole;       // numbers with a fraction are refused
    bool names;       // no number but names or patterns, separated by commas: Chosen.names
} RuleNumber;

typedef struct RuleText {
    const char *name, *help, *source; // help: a phrase without a full stop
    RuleNumber numbers[RULE_NUMBERS]; // those with a name are the first
} RuleText;

// The chosen row of one table of rules, and its numbers.
typedef struct Chosen {
    uint32_t row;
    double number[RULE_NUMBERS];
    char names[RULE_NAMES_BYTES]; // "" unless the row has such a number
} Chosen;

// Reads a rule and its numbers ("sign-flip scale=3") from a table of rules (count). what: the kind of rule for messages
// ("attack"). USAGE with the nearest word.
Status rule_parse(Chosen *chosen, const RuleText *rules, uint32_t count, const char *what, const char *text,
                  Error *err);

// Index of the rule's number of this name (bytes long); -1 if it has none.
int rule_number_named(const RuleText *rule, const char *name, size_t bytes);

// The number of this name, as chosen; NAN if the rule has none of that name.
double rule_number(const Chosen *chosen, const RuleText *rule, const char *name);

// Writes the form of a rule: "prox [mu=0.01]".
void rule_form(char *text, size_t bytes, const RuleText *rule);

#endif
