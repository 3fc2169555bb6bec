// The figure that a run is about: goals, rankings, tables, reports and a run's last line use it.
//
// A personal recipe trains a model for every client, and parts of the global model may never be trained. Its figure is
// therefore that of the clients' own models on the clients' own samples, a mean over the clients. If targets are
// numbers there is no accuracy, and the figure is the loss.
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
    const char *key;  // in a round's line of metrics.jsonl; the summary has "best_..." of its name
    const char *name; // for sentences and titles
    const char *best; // key of its best value in the summary
    bool is_personal, is_loss;
    RunFigure loss; // decides between equal values
} RunFigureFacts;

extern const RunFigureFacts run_figures[RUN_FIGURES];

RunFigure run_figure_of(const Recipe *recipe, bool has_targets);

// Finds a figure by its key. NULL and unknown keys mean accuracy, the only figure before runs named theirs.
RunFigure run_figure_named(const char *key);

// Whether a is better than b. NaN is worse than every number.
bool run_figure_is_better(RunFigure figure, double a, double b);

// Writes "40.80%", "personal 89.43%", "loss 3.6700", and the number alone, to the caller's text
// (RUN_FIGURE_TEXT_BYTES); both return it.
enum { RUN_FIGURE_TEXT_BYTES = 96 };
const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value);
const char *run_figure_number(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value);

#endif
