// Part of command.h: exports of a run's trainer. A module of the Python package writes them, by the Python of the
// trainer, because they call the program's own functions.
#ifndef SOUNDER_APP_AGAIN_EXPORT_PROGRAM_H
#define SOUNDER_APP_AGAIN_EXPORT_PROGRAM_H

#include "base/err.h"

// This process becomes the module, which gets run and folder as its words. option: "peft". Returns on failure
// alone: USAGE for a run without a trainer.
Status export_program(const char *run, const char *option, const char *folder, Error *err);

#endif
