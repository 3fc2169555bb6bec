// Published figures and how they were made: a recipe, as a YAML file of tools/recipes.
//
//   title: Lolli's thesis on Flower, Fashion-MNIST, 10 clients
//   source: where the figures stand
//   note: what is not as it was there
//   measure: accuracy              percent after the last test; best-accuracy, personal-accuracy, attack-success,
//                                  loss, rounds-to-target, seconds
//   seeds: 42..56                  those of the publication; three of them unless more are asked for
//   minutes: 1.7                   of a run on one core
//   within: 2                      published deviations that ours may differ by; times: the factor that it may
//   options: {data: fashion-mnist, rounds: 40}
//   over: [algorithm, partition]   options that cells set; the figure and its deviation (or ~) stand behind them
//   cells:
//     - [fedavg, iid, 86.8, 0.4]
#ifndef SOUNDER_APP_INSPECT_PUBLISHED_H
#define SOUNDER_APP_INSPECT_PUBLISHED_H

#include "app/options/option_table.h"
#include "base/err.h"

enum { PUBLISHED_OVER = 4, PUBLISHED_OPTIONS = 40, PUBLISHED_CELLS = 200 };

typedef enum Measure {
    MEASURE_ACCURACY, // percent; all of the model after the last test
    MEASURE_BEST_ACCURACY,
    MEASURE_PERSONAL_ACCURACY, // mean over the clients of their own models
    MEASURE_ATTACK_SUCCESS,    // percent of the marked test samples; --attack backdoor
    MEASURE_LOSS,
    MEASURE_ROUNDS,  // to --target-accuracy
    MEASURE_SECONDS, // of the whole run, its start included
    MEASURE_COUNT,
} Measure;

extern const char *const measure_titles[MEASURE_COUNT];

// Texts are the recipe's own.
typedef struct PublishedCell {
    char *values[PUBLISHED_OVER];
    double figure, deviation; // NaN: none published
} PublishedCell;

typedef struct Published {
    char *title, *source, *note; // note: may be NULL
    Measure measure;
    int first_seed, seeds; // that there are
    double minutes;        // of a run
    double deviations;     // NaN: a factor is the band
    double factor;         // NaN: deviations are
    const Option *options[PUBLISHED_OPTIONS];
    char *values[PUBLISHED_OPTIONS];
    size_t option_count;
    const Option *over[PUBLISHED_OVER];
    size_t over_count;
    PublishedCell cells[PUBLISHED_CELLS];
    size_t cell_count;
} Published;

// text: of the recipe; name: for sentences. DATA with the line for anything but a recipe. Nothing to free on failure.
Status published_parse(Published *published, const char *name, const char *text, Error *err);
void published_free(Published *published);

#endif
