// Reads the text of a rule: cuts it into words and reads those as the numbers of a row (rule.h). The reader of whole
// algorithms (recipe_read.c) uses these functions for each part; every refusal points at the wrong word.
//
//   RuleWords words = {.whole = text, .number = 1};
//   TRY(rule_text_split(&words, text, strlen(text), err));              // "prox mu=0.1": two words
//   rule_choose(&chosen, rule, row);                                    // the numbers are the row's presets
//   TRY(rule_text_numbers(&chosen, rule, &words, 1, err));              // USAGE with the number and its range
#ifndef SOUNDER_FEDAVG_RULES_RULE_TEXT_H
#define SOUNDER_FEDAVG_RULES_RULE_TEXT_H

#include <stddef.h>

#include "fedavg/rules/rule.h"

enum { RULE_MAX_WORDS = 16 };

// A part of an algorithm's text, cut into words.
typedef struct RuleWords {
    const char *whole; // the text that the part belongs to; borrowed
    size_t at;         // the offset of the part in it
    int number;        // the number of the part, from 1
    char text[RULE_TEXT_BYTES], split[RULE_TEXT_BYTES];
    char *words[RULE_MAX_WORDS];
    int count;
} RuleWords;

#define PART_FORMAT   "part %d (\"%.200s\"): "
#define PART_ARGS(of) (of)->number, (of)->text

// Splits `length` bytes of a text into words: fills in all fields but whole and number. USAGE for an empty part and for
// too many words.
Status rule_text_split(RuleWords *of, const char *from, size_t length, Error *err);

// Adds to a failure a sketch of the whole text with a mark under the wrong word of `split`, or under the part if word
// is NULL. Returns USAGE.
Status rule_text_sketch(const RuleWords *of, const char *word, Error *err);

// Chooses the row, with its numbers at their presets.
void rule_choose(Chosen *chosen, const RuleText *rule, uint32_t row);

// Reads the words of a part, from word `first`, as numbers of its rule. USAGE with the number, and its range or its
// words.
Status rule_text_numbers(Chosen *chosen, const RuleText *rule, const RuleWords *of, int first, Error *err);

#endif
