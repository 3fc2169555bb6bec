// The run's best model by its figure, in best.safetensors beside the final model.
//
// A model that is the best of all rounds so far stays in memory: its checkpoint has it, too. The file is written when a
// checkpoint of a later round is, so that a run whose every test is better writes it once. At the end, after
// model.safetensors was written, that gets the second name if it is the best.
#ifndef SOUNDER_APP_TRAIN_BEST_MODEL_H
#define SOUNDER_APP_TRAIN_BEST_MODEL_H

#include <stdbool.h>

#include "base/err.h"

struct Run;

// On the first node: writes the file, if that has not been done, and loads its weights (parameters). *found: whether
// there is a best model that is not the final one.
Status best_model_load(float *weights, bool *found, const struct Run *run, Error *err);

#endif
