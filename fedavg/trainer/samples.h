// The samples of a program that loads them itself (sounder.serve(..., data=)): it writes their labels and owners to a
// data set of labels alone, which the run then reads like any other.
#ifndef SOUNDER_FEDAVG_TRAINER_SAMPLES_H
#define SOUNDER_FEDAVG_TRAINER_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/rules/trainer_plan.h"

// Starts the plan's program, which writes the data set to the folder, under a name that follows from its contents.
// path (bytes): its full path; empty if the program loads no samples itself. Returns USAGE or NOINPUT for a command
// that cannot be run, DATA or UNAVAILABLE with what the program said or did.
Status trainer_ask_samples(char *path, size_t bytes, const TrainerPlan *plan, uint64_t seed, const char *folder,
                           Error *err);

#endif
