// A short run of `sounder train` for its figures: a process of its own, quiet, in a temporary folder.
//
//   char *options[] = {"--device", "cuda", "--rounds", "1", NULL};
//   TRY(trial_run(&trial, folder.path, "gpu", options, err));      // its folder: FOLDER/gpu
//   printf("%.0f samples/s\n", trial.samples_per_second);
#ifndef SOUNDER_APP_LOOK_TRIAL_H
#define SOUNDER_APP_LOOK_TRIAL_H

#include "base/err.h"

enum { TRIAL_SECONDS = 60, TRIAL_PATH_BYTES = 1200 };

typedef struct Trial {
    char model[TRIAL_PATH_BYTES]; // path of its model.safetensors
    double samples_per_second;    // in its last round
    double start_seconds;         // until the first round began
} Trial;

// Trains lenet. options: words of the command line, ended by NULL. UNAVAILABLE with the sentence of the run if that
// fails, or after TRIAL_SECONDS, when it is killed.
Status trial_run(Trial *trial, const char *folder, const char *name, char *const *options, Error *err);

// *difference: the largest difference of a weight between two trials of one net; NaN if a weight is NaN.
Status trial_compare(double *difference, const Trial *a, const Trial *b, Error *err);

#endif
