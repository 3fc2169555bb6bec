// Published figures and how they were made: a recipe, as a YAML file of tools/recipes.
//
//   title: Lolli's thesis on Flower, Fashion-MNIST, 10 clients
//   source: where the figures stand
//   note: what is not as it was there
//   measure: accuracy              percent after the last test; best-accuracy, personal-accuracy, attack-success,
//                                  loss, rounds-to-target, seconds
//   seeds: 42..56                  seeds of the publication; three of them run unless more are asked for
//   minutes: 1.7                   duration of one run on one core
//   within: 2                      published deviations that ours may differ by; or times: a factor
//   options: {data: fashion-mnist, rounds: 40}
//   over: [algorithm, partition]   options that cells set, followed by the figure and its deviation (or ~)
//   cells:
//     - [fedavg, iid, 86.8, 0.4]
#ifndef SOUNDER_APP_LOOK_PUBLISHED_H
#define SOUNDER_APP_LOOK_PUBLISHED_H

#include <yaml.h>

#include "app/options/option_table.h"
#include "base/err.h"

enum { PUBLISHED_OVER = 4, PUBLISHED_OPTIONS = 40, PUBLISHED_CELLS = 200 };

// A figure that recipes may measure.
typedef struct Measure {
    const char *name, *title;
    const char *key; // in the record of a run
    double scale;    // of its value there; 100: percent
    int decimals;
    bool is_time; // compared, and not judged
} Measure;

typedef struct PublishedCell {
    const char *values[PUBLISHED_OVER];
    double figure, deviation; // NaN: none published
} PublishedCell;

typedef struct Published {
    yaml_document_t document;          // owned; has all texts
    const char *title, *source, *note; // note: may be NULL
    const Measure *measure;
    int first_seed, seeds; // seeds that exist
    double minutes;        // duration of one run
    double deviations;     // accepted distance in deviations; NaN: use factor
    double factor;         // accepted factor; NaN: use deviations
    const Option *options[PUBLISHED_OPTIONS];
    const char *values[PUBLISHED_OPTIONS];
    size_t option_count;
    const Option *over[PUBLISHED_OVER];
    size_t over_count;
    PublishedCell cells[PUBLISHED_CELLS];
    size_t cell_count;
} Published;

// text: the recipe; name: for error sentences. DATA, with the line, if it is no recipe. Nothing to free on failure.
Status published_parse(Published *published, const char *name, const char *text, Error *err);
void published_free(Published *published);

#endif
