// The traits of a run's options, some of which do not go together (fedavg/algorithm/clashes.h), and the refusal of such
// a pair, with name and value of both sides.
//
//   Traits traits;
//   options_traits(&traits, &options);               // of algorithm and options; data, net and device add more:
//   traits.has[NO_IMAGES] = data->items.pixel_bytes > 1;
//   TRY(options_check_traits(&options, &traits, err));
#ifndef SOUNDER_APP_OPTIONS_OPTION_TRAITS_H
#define SOUNDER_APP_OPTIONS_OPTION_TRAITS_H

#include "fedavg/algorithm/clashes.h"
#include "options.h"

// options: resolved at least in their texts and counts.
void options_traits(Traits *traits, const Options *options);

// USAGE with both sides and a remedy. With ON_GPU, refuses only what a GPU cannot do, in a sentence without remedy:
// "personal ditto of --algorithm is for the CPU alone".
Status options_check_traits(const Options *options, const Traits *traits, Error *err);

#endif
