// The figure that a run is about: goals, rankings, tables, reports and a run's last line judge it by this one, by name.
//
// A personal recipe trains a model for every client, and parts of the global one may never be trained: its figure is
// that of the clients' own models on the clients' own samples, a mean over the clients. Where targets are numbers,
// there is no accuracy, and the figure is the loss.
//
//   RunFigure figure = run_figure_of(&options.recipe, dataset_has_targets(&data->items));
//   double value = round_test_value(&test, figure);                  // round_test.h; NaN: it was not measured
//   if (run_figure_is_better(figure, value, best)) ...
#ifndef SOUNDER_APP_TRAIN_RUN_FIGURE_H
#define SOUNDER_APP_TRAIN_RUN_FIGURE_H

#include <stdbool.h>

#include "fedavg/algorithm/recipe.h"

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

// "40.80%", "personal 89.43%", "loss 3.6700"; and the number alone. text: (RUN_FIGURE_TEXT_BYTES) of the caller's,
// which is returned.
enum { RUN_FIGURE_TEXT_BYTES = 96 };
const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value);
const char *run_figure_number(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value);

#endif
