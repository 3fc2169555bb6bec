// The tokens of texts, as the numbers that enter a net.
//
//   Vocabulary vocabulary = {0};
//   TRY(vocabulary_add(&vocabulary, "the", 3, err));          // every token of the texts, as often as it occurs
//   TRY(vocabulary_settle(&vocabulary, 10000, true, err));    // numbers 1, 2, ... for the 10,000 most frequent
//   vocabulary_number(&vocabulary, "the", 3)                  // 0: not in the vocabulary
//   vocabulary_free(&vocabulary);
//
// The numbers follow the bytes of the tokens; of equally frequent ones the first are kept.
#ifndef SOUNDER_DATASETS_FORMATS_VOCABULARY_H
#define SOUNDER_DATASETS_FORMATS_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset_block.h"
#include "datasets/formats/categories.h"

enum { VOCABULARY_TOKEN_BYTES = 64, VOCABULARY_UNKNOWN = UINT32_MAX };

typedef struct Vocabulary {
    Categories tokens;
    uint32_t *counts; // (room) by place in `tokens`; owned
    uint32_t room;
    uint32_t first; // number of the first token: 1 if 0 is for unknown tokens and for gaps
    uint32_t size;  // numbers, 0 included
    char *list;     // the tokens in the order of their numbers, as Dataset.feature_names, and an empty one; owned
} Vocabulary;

// Counts a token; one of more bytes than VOCABULARY_TOKEN_BYTES - 1 is cut.
Status vocabulary_add(Vocabulary *vocabulary, const char *token, size_t bytes, Error *err);

// Numbers the `most` most frequent tokens. has_unknown: 0 is for all others.
Status vocabulary_settle(Vocabulary *vocabulary, uint32_t most, bool has_unknown, Error *err);

// Numbers the tokens as a model does. names: one after another, each with its '\0', and an empty one at the end.
Status vocabulary_settle_as(Vocabulary *vocabulary, const char *names, bool has_unknown, Error *err);

// Returns the number of a token; of an unknown one 0, or VOCABULARY_UNKNOWN if 0 is a token.
uint32_t vocabulary_number(const Vocabulary *vocabulary, const char *token, size_t bytes);

void vocabulary_free(Vocabulary *vocabulary);

// Sets the sizes of names in items, for a data set with these tokens (Vocabulary.list). are_classes: the labels are
// tokens that follow.
void vocabulary_note(DatasetItems *items, const char *tokens, bool are_classes);

// Writes the tokens, and the names of the classes if there are any, as Dataset has them.
void vocabulary_write(DatasetBlock *block, const char *tokens);

// Tokens of texts that a model's vocabulary lacks.
typedef struct UnknownTokens {
    uint32_t tokens;
    uint64_t uses;
    char listed[160];
} UnknownTokens;

void unknown_tokens_add(UnknownTokens *unknown, const char *token, uint64_t uses);

// Fails with DATA if there are any. place: of the texts.
Status unknown_tokens_refuse(const UnknownTokens *unknown, const char *place, Error *err);

#endif
