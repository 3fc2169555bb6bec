// Texts of LEAF's data sets (leaf.c), cut into the tokens that enter a net as numbers.
//
//   LeafTexts texts;
//   leaf_texts_begin(&texts, &settings);
//   TRY(leaf_texts_learn(&texts, text, err));          // every text, as often as there are samples
//   TRY(leaf_texts_learn_next(&texts, "e", err));      // and, if the labels are characters, every label
//   TRY(leaf_texts_settle(&texts, model, path, err));  // the vocabulary, and how many tokens a sample has
//   leaf_texts_write(&texts, numbers, text);
//   leaf_texts_free(&texts);
//
// Shakespeare: x are as many characters each, y the one that follows; the classes are the vocabulary. Sent140: x are
// tweets, y classes; 0 is the number of tokens that are not in the vocabulary, and fills short texts up in front, so
// that the last step of an lstm is the last token.
#ifndef SOUNDER_DATASETS_FORMATS_LEAF_TEXT_H
#define SOUNDER_DATASETS_FORMATS_LEAF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "datasets/dataset.h"
#include "datasets/formats/vocabulary.h"

typedef struct LeafTexts {
    Vocabulary vocabulary;
    bool by_words, follows;   // tokens are words; a label is the character that follows
    uint32_t length, most;    // of the settings; then tokens of a sample; tokens of the vocabulary
    size_t shortest, longest; // in tokens
    uint64_t unknown;         // tokens that the model's vocabulary lacks, which are 0
} LeafTexts;

void leaf_texts_begin(LeafTexts *texts, const Form *settings);
Status leaf_texts_learn(LeafTexts *texts, const char *text, Error *err);
Status leaf_texts_learn_next(LeafTexts *texts, const char *next, Error *err);

// model: numbers the tokens, if it knows them; may be NULL.
Status leaf_texts_settle(LeafTexts *texts, const DatasetModel *model, const char *path, Error *err);

// Says what the samples are, in items of the data set: bytes of a number, vocabulary, and names of classes.
void leaf_texts_items(DatasetItems *items, const LeafTexts *texts);

// Writes the tokens of a sample to `to`: uint8 or float32, by leaf_texts_items.
void leaf_texts_write(const LeafTexts *texts, void *to, const char *text);

// Returns the class of the character that follows a text.
uint32_t leaf_texts_class(const LeafTexts *texts, const char *next);

void leaf_texts_free(LeafTexts *texts);

#endif
