// The results of a round's tests, of all kinds.
//
//   RoundTest test = round_test_none(data);                          // a round without a test
//   test = round_test_of(&report, &memory);                          // after rounds_evaluate
//   double value = round_test_value(&test, &figure);
#ifndef SOUNDER_APP_TRAIN_ROUND_TEST_H
#define SOUNDER_APP_TRAIN_ROUND_TEST_H

#include <stdbool.h>

#include "app/options/run_figure.h"
#include "app/train/client_tests.h"
#include "datasets/dataset.h"
#include "fedavg/parent/rounds.h"

// Returns the results of a round without a test.
RoundTest round_test_none(const Dataset *data);

// Returns the results that rounds_evaluate has put into the report.
RoundTest round_test_of(const RoundReport *report, const RunMemory *memory);

double round_test_value(const RoundTest *test, const RunFigure *figure);

// Returns the variance of the targets of a split's samples (count), by which R2 is measured; NaN without targets.
// indices: numbers of the samples; NULL: the first ones.
double target_variance(const Dataset *data, const DatasetSplit *split, const uint32_t *indices, uint32_t count);

// The variance of the test set's targets.
double test_variance(const Dataset *data);

// Computed from the squared loss, which is the mean square.
double loss_as_rmse(double loss);
double loss_as_r2(double loss, double variance);

// Writes "RMSE 2.4311, R2 0.4852", or only the first if there is no R2, to the caller's text (RUN_FIGURE_TEXT_BYTES),
// and returns it.
const char *regression_text(char text[RUN_FIGURE_TEXT_BYTES], double rmse, double r2);

#endif
