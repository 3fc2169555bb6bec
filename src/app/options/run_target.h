// --target NAME=VALUE: the figure that a run is about, and the value that it is to reach.
//
//   accuracy=0.8, accuracy=80%      reached at this accuracy or more
//   loss=0.5                        reached at this loss or less
//   perplexity<20, recall>0.8       a metric of the trainer's tests, with the side on which it is reached
//
// accuracy and loss are those of the models that the run is about: the clients' own ones if --algorithm trains personal
// models, else the global one, on the validation set if there is one (validation-accuracy). test-accuracy
// and test-loss are the global model's, client-accuracy and client-loss its means over the clients' own samples,
// personal-accuracy and personal-loss those of the clients' own models.
#ifndef SOUNDER_APP_OPTIONS_RUN_TARGET_H
#define SOUNDER_APP_OPTIONS_RUN_TARGET_H

#include "app/options/run_figure.h"

// Plain data; zeroed there is no target.
typedef struct Target {
    bool given;
    RunFigure figure;
    double value;
} Target;

// Reads options->target; the algorithm must be resolved. USAGE with what to write.
Status target_read(Target *target, const Options *options, Error *err);

// Reads options->patience_by, the name of a figure ("macro-f1", of a trainer's metric with its direction: "recall>").
// USAGE with what to write, also if --target names another figure.
Status patience_by_read(RunFigure *figure, const Options *options, Error *err);

// A figure's name without a sign, for completion; NULL: there is none.
const char *figure_name(size_t index);

// Name number `index` with its sign, "accuracy=", for completion; NULL: there is none.
const char *target_name(size_t index);

// The value in a target's text alone, for a past run whose algorithm is not resolved; NaN if it has none.
double target_value(const char *text);

// The figure of a run with these options, whose target must be a right one. has_targets: the data's labels are numbers.
RunFigure run_figure_of(const Options *options, bool has_targets);

// Whether the value reaches the target.
bool target_is_reached(const Target *target, double value);

#endif
