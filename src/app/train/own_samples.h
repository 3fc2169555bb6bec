// The data set of a run whose trainer loads its samples itself: `sounder train --trainer PROGRAM` without --data asks
// the program for their labels, and keeps them as samples/HASH.npz in the user's cache folder.
#ifndef SOUNDER_APP_TRAIN_OWN_SAMPLES_H
#define SOUNDER_APP_TRAIN_OWN_SAMPLES_H

#include <stdbool.h>

#include "app/options/options.h"

// Whether the program has to be asked: the user names no data, or a resumed run's file is gone from the cache.
bool own_samples_wanted(const Options *options);

// Sets options->data to the data set, if own_samples_wanted and if the program loads samples itself; otherwise --data
// keeps its preset. Fails as trainer_ask_samples does.
Status own_samples_find(Options *options, Error *err);

#endif
