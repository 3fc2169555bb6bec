// Chooses the test samples of data that have none of their own.
//
//   uint8_t *is_test = malloc(samples);
//   TRY(holdout_choose(is_test, &tests, labels, samples, classes, &settings, place, err));   // a share of each class
//
// A fold is such a choice, too: number k of K parts that share no sample and together have all.
//
// The choice depends on the arguments alone, not on the machine.
#ifndef SOUNDER_DATASETS_HOLDOUT_H
#define SOUNDER_DATASETS_HOLDOUT_H

#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"

// Marks round(test-fraction * samples) samples, by the settings test-fraction and test-seed, as near to that share of
// each kind as whole numbers allow (largest remainders); every kind keeps a sample that is not marked, unless the
// fraction is 1. With the setting fold=k/K it marks every K-th sample instead, counted kind by kind: folds differ by at
// most one sample, and by one of each kind. kinds_of: (samples), each below `kinds`; NULL: all are of one kind. place:
// for sentences. Fails with DATA if no sample can be marked.
Status holdout_choose(uint8_t *is_test, uint32_t *test_count, const uint32_t *kinds_of, uint32_t samples,
                      uint32_t kinds, const Form *settings, const char *place, Error *err);

#endif
