// Part of command.h: exports of a run's trainer. A module of the Python package writes them, by the Python of the
// trainer, because they call the program's own functions.
#ifndef SOUNDER_APP_AGAIN_EXPORT_PROGRAM_H
#define SOUNDER_APP_AGAIN_EXPORT_PROGRAM_H

#include "base/err.h"

// This process becomes the module, whose words are run and folder. option: "peft" or "flower". Returns on failure
// alone: USAGE for a run without a trainer. Call run_trust_programs first.
Status export_program(const char *run, const char *option, const char *folder, Error *err);

// Writes the run's data, partition and first weights into folder/federation, and lets the module write the app beside
// them. CANTCREATE if the folder exists.
Status export_flower(const char *run, const char *folder, Error *err);

#endif
