// Names that an option's value may begin with, from the tables that own them, so that completion offers a new row
// without further work. Each function returns name number `index`, or NULL after the last.
//
//   {.name = "model", .type = OPTION_TEXT, FIELD(model), .name_of = name_of_model, ...}      // a row of option_table.c
#ifndef SOUNDER_APP_OPTIONS_OPTION_NAMES_H
#define SOUNDER_APP_OPTIONS_OPTION_NAMES_H

#include <stdbool.h>
#include <stddef.h>

const char *name_of_data(size_t index);
const char *name_of_model(size_t index);
const char *name_of_partition(size_t index);
const char *name_of_algorithm(size_t index);
const char *name_of_attack(size_t index);
const char *name_of_noise(size_t index);
const char *name_of_drift(size_t index);

// Writes to the caller's remedy what to write instead of an option that belongs to --algorithm: "a part of --algorithm;
// write ...". False: the name does not belong there.
bool algorithm_remedy(char *remedy, size_t bytes, const char *name);

#endif
