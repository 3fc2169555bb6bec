// The traits that the options of a run have, of those that do not go together (fedavg/algorithm/clashes.h), and the
// refusal of a pair with both sides by name and value.
//
//   Traits traits;
//   options_traits(&traits, &options);               // of algorithm and options; data, net and device add theirs:
//   traits.has[NO_IMAGES] = data->items.pixel_bytes > 1;
//   TRY(options_check_traits(&options, &traits, err));
#ifndef SOUNDER_APP_OPTIONS_OPTION_TRAITS_H
#define SOUNDER_APP_OPTIONS_OPTION_TRAITS_H

#include "fedavg/algorithm/clashes.h"
#include "options.h"

// options: resolved as far as their texts and counts.
void options_traits(Traits *traits, const Options *options);

// USAGE with both sides and what to do. With ON_GPU only what a GPU cannot do is refused, and the sentence is without
// a remedy: "personal ditto of --algorithm is for the CPU alone".
Status options_check_traits(const Options *options, const Traits *traits, Error *err);

#endif
