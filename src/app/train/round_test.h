// The results of a round's tests, whichever they were.
//
//   RoundTest test = round_test_none(data);                          // a round without a test
//   test = round_test_of(&report, data, target_variance(data));      // after rounds_evaluate
//   double value = round_test_value(&test, figure);
#ifndef SOUNDER_APP_TRAIN_ROUND_TEST_H
#define SOUNDER_APP_TRAIN_ROUND_TEST_H

#include <stdbool.h>

#include "app/train/client_tests.h"
#include "app/train/run_figure.h"
#include "datasets/dataset.h"
#include "fedavg/parent/rounds.h"

// All that a round's tests have found; NaNs where it was not tested, or has no such figure.
typedef struct RoundTest {
    bool tested, has_targets;
    double loss, accuracy; // of the global model on the test set; no accuracy with targets
    double rmse, r2;       // with targets
    double attack_success; // of a backdoor
    ClientTests personal;  // of the clients' own models on their own samples
    ClientTests clients;   // of the global model on those
} RoundTest;

// Returns the results of a round without a test.
RoundTest round_test_none(const Dataset *data);

// Returns the results that rounds_evaluate has put into the report. variance: of the test targets.
RoundTest round_test_of(const RoundReport *report, const Dataset *data, double variance);

double round_test_value(const RoundTest *test, RunFigure figure);

// Returns the variance of the test set's targets, by which R2 is measured; NaN without targets.
double target_variance(const Dataset *data);

// By the squared loss, which is half of the mean square.
double loss_as_rmse(double loss);
double loss_as_r2(double loss, double variance);

// "RMSE 2.4311, R2 0.4852", or only the first where there is no R2. text: (RUN_FIGURE_TEXT_BYTES) of the caller's,
// which is returned.
const char *regression_text(char text[RUN_FIGURE_TEXT_BYTES], double rmse, double r2);

#endif
