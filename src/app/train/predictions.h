// A net's predictions on a test set: the class of each sample and its probability, counted as a confusion matrix, or
// written as CSV. Samples with targets have a predicted number, and no confusion.
#ifndef SOUNDER_APP_TRAIN_PREDICTIONS_H
#define SOUNDER_APP_TRAIN_PREDICTIONS_H

#include <stdio.h>

#include "base/err.h"
#include "datasets/dataset.h"
#include "io/json.h"

typedef struct Predictions {
    const Dataset *data; // borrowed
    int classes;         // outputs of the net, at least the classes of the data
    float *logits;       // owned (test count, classes); with targets the predicted numbers
    const char **users;  // owned: the names of the users by number; NULL: users have none
    bool one_vs_rest;    // each class has a probability of its own (Spec.one_vs_rest)
} Predictions;

// confusion: whether the user wants one, which data with targets have not (USAGE). Nothing to free on failure.
Status predictions_init(Predictions *predictions, const Dataset *data, int classes, bool confusion, Error *err);
void predictions_free(Predictions *predictions);

// Returns the class with the largest logit, the lowest of equal ones. *probability: by softmax, or of that class alone.
int predictions_class(double *probability, const Predictions *predictions, uint32_t sample);

// One row per true class, one column per predicted class, by their names if they have some: as a table for people, or
// the most frequent confusions if the table would be too wide; as "confusion" and "class_names" of an object; as CSV.
Status predictions_print_confusion(const Predictions *predictions, Error *err);
void predictions_put_confusion(JsonObject *object, const Predictions *predictions);
Status predictions_write_confusion(const Predictions *predictions, const char *path, Error *err);

enum { CLASS_NUMBER_BYTES = 16 };

// The name of a class; its number, written to `number`, if it has none.
const char *class_name(char number[CLASS_NUMBER_BYTES], const Dataset *data, int class);

// Puts "counts": one row for every N-th client, the number of its samples of each class. counts: (clients, classes).
void put_class_counts(JsonObject *object, const uint32_t *counts, uint32_t clients, uint32_t classes, uint32_t every);

// Puts "class_names", if the classes of the data have names.
void put_class_names(JsonObject *object, const Dataset *data);

// Writes a field of CSV, in quotes where its letters ask for them (RFC 4180), and after an apostrophe where a
// spreadsheet would evaluate it.
void predictions_write_field(FILE *file, const char *text);

// Writes a file; one that cannot be written completely is removed. mark: the first letters of such files, without
// which an earlier one is not replaced.
Status predictions_write_file(const Predictions *predictions, const char *path, const char *mark,
                              void (*write)(FILE *file, const Predictions *predictions), Error *err);

// Writes sample,label,prediction,probability, or sample,target,prediction; after the sample its client, if the
// data have users, and its line, if they are a table.
Status predictions_write(const Predictions *predictions, const char *path, Error *err);

#endif
