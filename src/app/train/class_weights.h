// --class-weights: what a sample of each class counts in the local steps.
//
//   TRY(class_weights_read(&memory, &options, err));      // into memory->class_weights
#ifndef SOUNDER_APP_TRAIN_CLASS_WEIGHTS_H
#define SOUNDER_APP_TRAIN_CLASS_WEIGHTS_H

#include "app/options/options.h"
#include "fedavg/memory/run_memory.h"

// Fills memory->class_weights (classes) from options->class_weights. USAGE for another number of weights than of
// classes, and a weight that is not above 0.
Status class_weights_read(RunMemory *memory, const Options *options, Error *err);

#endif
