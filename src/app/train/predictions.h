// A net's predictions on a test set: the class of each sample and its probability, counted as a confusion matrix, or
// written as CSV. Samples with targets have a predicted number, and no confusion.
#ifndef SOUNDER_APP_TRAIN_PREDICTIONS_H
#define SOUNDER_APP_TRAIN_PREDICTIONS_H

#include "base/err.h"
#include "datasets/dataset.h"
#include "io/json.h"

typedef struct Predictions {
    const Dataset *data; // borrowed
    int classes;         // outputs of the net, at least the classes of the data
    float *logits;       // owned (test count, classes); with targets the predicted numbers
} Predictions;

// confusion: whether the user wants one, which data with targets have not (USAGE). Nothing to free on failure.
Status predictions_init(Predictions *predictions, const Dataset *data, int classes, bool confusion, Error *err);
void predictions_free(Predictions *predictions);

// One row per true class, one column per predicted class, by their names if they have some: as a table for people, as
// "confusion" and "class_names" of an object.
void predictions_print_confusion(const Predictions *predictions);
void predictions_put_confusion(JsonObject *object, const Predictions *predictions);

enum { CLASS_NUMBER_BYTES = 16 };

// The name of a class; its number, written to `number`, if it has none.
const char *class_name(char number[CLASS_NUMBER_BYTES], const Dataset *data, int class);

// Puts "class_names", if the classes of the data have names.
void put_class_names(JsonObject *object, const Dataset *data);

// Writes sample,label,prediction,probability, or sample,target,prediction. A file that cannot be written completely is
// removed.
Status predictions_write(const Predictions *predictions, const char *path, Error *err);

#endif
