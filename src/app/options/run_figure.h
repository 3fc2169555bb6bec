// The figure that a run is about: goals, rankings, tables, reports and a run's last line use it.
//
// --target names it. Without that option: a personal recipe trains a model for every client, and parts of the global
// model may never be trained, so its figure is that of the clients' own models on the clients' own samples, a mean over
// the clients. With a validation set rounds are tested on that, and it is the global model's figure there. If targets
// are numbers, or a trainer counts no hits, there is no accuracy, and the figure is the loss.
//
//   RunFigure figure = run_figure_of(&options, dataset_has_numbers(&data->items));  // run_target.h
//   double value = round_test_value(&test, &figure);                  // round_test.h; NaN: it was not measured
//   if (run_figure_is_better(&figure, value, best)) ...
#ifndef SOUNDER_APP_OPTIONS_RUN_FIGURE_H
#define SOUNDER_APP_OPTIONS_RUN_FIGURE_H

#include <jansson.h>
#include <stdbool.h>

#include "app/options/options.h"
#include "fedavg/figures/figure.h"

// Plain data; zeroed it is the accuracy.
typedef struct RunFigure {
    const Figure *row;              // NULL: the global model's accuracy; a trainer's metric: figure_metric
    bool validates;                 // of the global model on the validation set
    bool falls;                     // a metric: less is better
    char metric[METRIC_NAME_BYTES]; // a metric: its name
} RunFigure;

const Figure *run_figure_row(const RunFigure *figure);

// Whether its row has the trait, such as FIGURE_IS_SHARE.
bool run_figure_has(const RunFigure *figure, unsigned trait);

// The figure of this key of a round's line ("test_accuracy", "validation_macro_f1"), the accuracy where there is none.
RunFigure run_figure_of_key(const char *key);

// The loss of its models on its samples: it decides between equal values, and stands in for an accuracy that
// there is not. A metric has that of the test set.
RunFigure run_figure_loss(const RunFigure *figure);

// Whether each test of the run also tests models on the clients' own samples.
bool run_figure_tests_clients(const RunFigure *figure);

// The figure of the final model on the test set, for a run whose rounds are tested on a validation set: the global
// model's accuracy or loss, or the metric.
RunFigure run_figure_on_test(const RunFigure *figure);

bool run_figure_same(const RunFigure *a, const RunFigure *b);
bool run_figure_is_metric(const RunFigure *figure);

// Writes "accuracy", "validation macro F1", or the metric's name, to the caller's text (RUN_FIGURE_NAME_BYTES), and
// returns it.
enum { RUN_FIGURE_NAME_BYTES = METRIC_NAME_BYTES + 16 };
const char *run_figure_name(char text[RUN_FIGURE_NAME_BYTES], const RunFigure *figure);

// Whether a is better than b. NaN is worse than every number.
bool run_figure_is_better(const RunFigure *figure, double a, double b);

// The line "start" of a run's record names the figure, each round's line has its value. NULL, and a line
// that names none, mean accuracy.
void run_figure_key(char key[FIGURE_KEY_BYTES], const RunFigure *figure);
RunFigure run_figure_told(const json_t *start);

// The key of its best value in the summary: "best_accuracy", "best_validation_loss", "best_metric". Written to the
// caller's text, and returned.
const char *run_figure_best_key(char key[FIGURE_KEY_BYTES], const RunFigure *figure);

// The value in a round's line; NaN if it has none.
double run_figure_in(const json_t *round, const RunFigure *figure);

// A trainer that counts no hits shows that in its first test: a line with a loss and without an accuracy. Then the loss
// becomes the figure. Returns whether it does.
bool run_figure_settle(RunFigure *figure, const json_t *round);

// Write "40.80%", "personal 89.43%", "loss 3.6700", "perplexity 18.2000", and the number alone, to the caller's text
// (RUN_FIGURE_TEXT_BYTES); both return it.
enum { RUN_FIGURE_TEXT_BYTES = 192 };
const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], const RunFigure *figure, double value);
const char *run_figure_number(char text[RUN_FIGURE_TEXT_BYTES], const RunFigure *figure, double value);

// A metric as people read it: four decimals, or four digits of a small number.
const char *metric_text(char text[RUN_FIGURE_TEXT_BYTES], double value);

#endif
