// The options' part in a run's identity (run_record.h), which each checkpoint notes.
#ifndef SOUNDER_APP_TRAIN_RUN_IDENTITY_H
#define SOUNDER_APP_TRAIN_RUN_IDENTITY_H

#include <stdint.h>

#include "app/options/options.h"

// XXH3 of all options that may not change with --resume, with the seed. options: resolved.
uint64_t run_hash_options(const Options *options, uint64_t seed);

#endif
