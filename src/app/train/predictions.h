// What a net says about each sample of a test set: its class and how sure it is; counted as a confusion matrix, written
// as CSV.
#ifndef SOUNDER_APP_TRAIN_PREDICTIONS_H
#define SOUNDER_APP_TRAIN_PREDICTIONS_H

#include "base/err.h"
#include "datasets/dataset.h"
#include "io/json.h"

typedef struct Predictions {
    const Dataset *data; // borrowed
    int classes;         // outputs of the net, at least those of the data
    float *logits;       // owned (test count, classes)
} Predictions;

// USAGE where the data have targets and no classes. Nothing to free on failure.
Status predictions_init(Predictions *predictions, const Dataset *data, int classes, Error *err);
void predictions_free(Predictions *predictions);

// The class of a sample: that of the largest logit, the lower one of equals. *probability: softmax's.
int predictions_class(double *probability, const Predictions *predictions, uint32_t sample);

// A row a true class, a column a predicted one: as a table for people, as "confusion" of an object.
void predictions_print_confusion(const Predictions *predictions);
void predictions_put_confusion(JsonObject *object, const Predictions *predictions);

// sample,label,prediction,probability. Of a file that cannot be written nothing is left.
Status predictions_write(const Predictions *predictions, const char *path, Error *err);

#endif
