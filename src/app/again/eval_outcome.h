// The outcome of `sounder eval`: what was measured, as a sentence and as JSON.
//
//   Outcome outcome = {.test = sum, .judged = true, .answers = answers};
//   TRY(outcome_measure(&outcome, data, err));
//   TRY(outcome_tell(&outcome, &predictions, path, data, &options, &device, err));
//   outcome_free(&outcome);
#ifndef SOUNDER_APP_AGAIN_EVAL_OUTCOME_H
#define SOUNDER_APP_AGAIN_EVAL_OUTCOME_H

#include "app/options/options.h"
#include "app/train/predictions.h"
#include "app/train/run_device.h"
#include "fedavg/rules/metric_sums.h"
#include "nn/answers.h"
#include "nn/step.h"

// Results on the test set, and on its marked samples if the run was attacked by a backdoor.
typedef struct Outcome {
    BatchResult test;
    uint32_t samples;   // that were tested
    bool judged;        // whether it counts hits
    MetricSums metrics; // of a trainer
    uint32_t marked, marked_hits;
    double seconds;
    Answer *answers; // owned (test samples): of the net; NULL: a trainer tells none
    double *recalls; // owned (classes): accuracies by class; NULL with targets, or without answers
    AnswerFigures figures;
} Outcome;

// Measures the answers, if there are some. OS without memory.
Status outcome_measure(Outcome *outcome, const Dataset *data, Error *err);

// Prints it, and writes the predictions that the options ask for. path: of the model.
Status outcome_tell(const Outcome *outcome, const Predictions *predictions, const char *path, const Dataset *data,
                    const Options *options, const RunDevice *device, Error *err);

void outcome_free(Outcome *outcome);

#endif
