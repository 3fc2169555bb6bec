// The figure that a run is about: goals, rankings, tables, reports and a run's last line judge it by this one, by name.
//
// A personal recipe trains a model for every client, and parts of the global one may never be trained: its figure is
// that of the clients' own models on the clients' own samples, a mean over the clients. Where targets are numbers,
// there is no accuracy, and the figure is the loss.
//
//   RunFigure figure = run_figure_of(&options.recipe, dataset_has_targets(&data->items));
//   RoundTest test = round_test_of(&report, data, variance);         // of the global model
//   double value = round_test_value(&test, figure);                  // NaN: this round has not measured it
//   if (run_figure_is_better(figure, value, best)) ...
#ifndef SOUNDER_APP_RUN_RUN_FIGURE_H
#define SOUNDER_APP_RUN_RUN_FIGURE_H

#include <stdbool.h>

#include "app/run/client_tests.h"
#include "datasets/dataset.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/recipe.h"

typedef enum RunFigure {
    FIGURE_ACCURACY,
    FIGURE_LOSS,
    FIGURE_PERSONAL_ACCURACY,
    FIGURE_PERSONAL_LOSS,
    RUN_FIGURES
} RunFigure;

typedef struct RunFigureFacts {
    const char *key;  // in a round's line of metrics.jsonl; "best_..." of its name's words in the summary
    const char *name; // in sentences and titles
    const char *best; // key of its best value in the summary
    bool is_personal, is_loss;
    RunFigure loss; // that decides between equal values
} RunFigureFacts;

extern const RunFigureFacts run_figures[RUN_FIGURES];

RunFigure run_figure_of(const Recipe *recipe, bool has_targets);

// By its key; NULL and unknown keys are the accuracy, by which runs went before they named their figure.
RunFigure run_figure_named(const char *key);

// Whether a is better than b. A NaN is better than nothing.
bool run_figure_is_better(RunFigure figure, double a, double b);

// "40.80%", "personal 89.43%", "loss 3.6700". text: (RUN_FIGURE_TEXT_BYTES) of the caller's, which is returned.
enum { RUN_FIGURE_TEXT_BYTES = 96 };
const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value);

// All that a round's tests have found; NaNs where it was not tested, or has no such figure.
typedef struct RoundTest {
    bool tested, has_targets;
    double loss, accuracy; // of the global model on the test set; no accuracy with targets
    double rmse, r2;       // with targets
    double attack_success; // of a backdoor
    ClientTests personal;  // of the clients' own models
} RoundTest;

// Of a round without a test.
RoundTest round_test_none(const Dataset *data);

// What rounds_evaluate has put into the report. variance: of the test targets.
RoundTest round_test_of(const RoundReport *report, const Dataset *data, double variance);

double round_test_value(const RoundTest *test, RunFigure figure);

// Of the test set's targets, by which R2 is measured; NaN without targets.
double target_variance(const Dataset *data);

// By the squared loss, which is half of the mean square.
double loss_as_rmse(double loss);
double loss_as_r2(double loss, double variance);

// "RMSE 2.4311, R2 0.4852", or only the first where there is no R2. text: (RUN_FIGURE_TEXT_BYTES) of the caller's,
// which is returned.
const char *regression_text(char text[RUN_FIGURE_TEXT_BYTES], double rmse, double r2);

#endif
