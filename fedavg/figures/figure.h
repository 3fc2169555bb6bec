// The figures of a run's tests: one row each, in the order of a round's line in metrics.jsonl. The record, lines of
// progress, --target and --patience-by, tables, drawings, TensorBoard and help are loops over the rows.
//
//   const Figure *figure = figure_find(FIGURE_OF_MODEL, "macro_f1");
//   char key[FIGURE_KEY_BYTES];
//   figure_key(key, figure, false);                          // "test_macro_f1"
//   double value = figure->value(&(RoundFacts){.test = &test});      // NaN: the round has none
//
// To add a figure, add a row to figure.c. Its key has no "test_", "validation_" or "best_": figure_key adds the first
// two, and the summary the third.
#ifndef SOUNDER_FEDAVG_FIGURES_FIGURE_H
#define SOUNDER_FEDAVG_FIGURES_FIGURE_H

#include <stddef.h>

#include "fedavg/figures/round_facts.h"

enum { FIGURE_KEY_BYTES = METRIC_NAME_BYTES + 32 };

typedef enum FigureOf {
    FIGURE_OF_MODEL,       // the global model on the test set or the validation set: test_, validation_
    FIGURE_OF_ATTACK,      // the global model on the marked test samples of a backdoor
    FIGURE_OF_PERSONAL,    // the clients' own models on the clients' own samples, mean over the clients: personal_
    FIGURE_OF_CLIENTS,     // the global model on the clients' own samples, mean over the clients: client_
    FIGURE_OF_NEW_CLIENTS, // the global model on the samples of clients that never train: new_clients_
    FIGURE_OF_NEW_TUNED,   // the global model after further training on these samples: new_clients_finetuned_
    FIGURE_OF_TRAINER      // a metric that a trainer's test reports by name: test_metrics.NAME
} FigureOf;

enum {
    FIGURE_IS_SHARE = 1,        // a number from 0 to 1, shown in percent
    FIGURE_FALLS = 2,           // less is better
    FIGURE_OF_CLASSES = 4,      // of single classes, by the net's answers: a trainer's test has none
    FIGURE_OF_ONE_LABEL = 8,    // needs samples of one label each
    FIGURE_OF_TWO_CLASSES = 16, // needs two classes
    FIGURE_IN_LINE = 32,        // each round's line of progress shows it, not only that of a run about it
};

// How --target and --patience-by name a figure, with and without the sign that completion adds. NULL: they do not.
typedef struct FigureName {
    const char *name, *begun;
} FigureName;

typedef struct Figure {
    const char *key, *title; // "macro_f1", "macro F1"
    FigureOf of;
    unsigned traits;
    const char *word; // in front of a value in a sentence, with a blank; NULL: the title
    int width;        // of the value in a round's line of progress
    // Heading in tables of runs, without "%"; NULL: tables have it only if --show names it. after: the part of it that
    // "best" and "validation" are put before; NULL: all of it.
    const char *column, *after;
    // Names for the figure of the models that the run is about, on the samples that its rounds are tested with; on the
    // test set; on the validation set.
    FigureName of_run, on_test, on_validation;
    const char *help; // in `sounder help metrics`; NULL: that of the row before is of this one, too
    // Whether a round's line has the figure, be it as null; NULL: where it has a value.
    bool (*listed)(const struct Figure *figure, const RoundFacts *facts);
    double (*value)(const RoundFacts *facts); // NaN: there is none
    bool of_answers;                          // measured of the net's answers, so that a client's own test has it, too
    const char *also;                         // further names, with blanks between; NULL: none
} Figure;

// The rows, in the order of a round's line.
extern const Figure figure_table[];
extern const size_t figure_count;

// Stands in for the row of a metric of trainers, which is known by its name alone; it has no value.
extern const Figure figure_metric;

// The row with this key; NULL if there is none.
const Figure *figure_find(FigureOf of, const char *key);

// The row of the global model that has this key or one of its further names, with _ or -; NULL if there is none.
const Figure *figure_by_name(const char *name);

// The row whose key in a round's line this is; NULL if there is none. *validates, unless NULL: whether it is that of
// the validation set.
const Figure *figure_of_key(bool *validates, const char *key);

// Whether clients are tested to measure it.
bool figure_is_of_clients(const Figure *figure);

// Whether --target and --patience-by can name it, so that a run may be about it.
bool figure_is_goal(const Figure *figure);

// Whether a round's line has the figure.
bool figure_is_listed(const Figure *figure, const RoundFacts *facts);

// Writes the key in a round's line to the caller's text (FIGURE_KEY_BYTES), and returns it. validates: of the
// validation set in place of the test set.
const char *figure_key(char key[FIGURE_KEY_BYTES], const Figure *figure, bool validates);

#endif
