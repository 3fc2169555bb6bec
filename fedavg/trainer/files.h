// The files of a user's program, by which it is known again.
#ifndef SOUNDER_FEDAVG_TRAINER_FILES_H
#define SOUNDER_FEDAVG_TRAINER_FILES_H

#include <jansson.h>

#include "base/err.h"
#include "fedavg/rules/trainer_plan.h"

// Hashes the plan's files: those that the trainer told, an array of paths or NULL, and those that its command names.
// DATA if a told one cannot be read.
Status trainer_hash_files(uint64_t *hash, const TrainerPlan *plan, const json_t *told, Error *err);

#endif
