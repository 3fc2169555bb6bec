// A program is known by its files and by the tensors of its net that do not travel. A run notes both when it asks for
// the net. Each later start (by a worker, a nursery, a resumed run, an evaluation) compares them, since a model is only
// right with the other half of its net.
//
//   TRY(trainer_program_read(&program, plan, told, err));    // told: the answer to describe, or ready
//   TRY(trainer_program_check(plan, ready, err));            // against plan->program
#ifndef SOUNDER_FEDAVG_TRAINER_PROGRAM_H
#define SOUNDER_FEDAVG_TRAINER_PROGRAM_H

#include <jansson.h>

#include "base/err.h"
#include "fedavg/rules/trainer_plan.h"

// DATA for an answer that tells something else than hashes, counts and readable files.
Status trainer_program_read(TrainerProgram *program, const TrainerPlan *plan, const json_t *told, Error *err);

// DATA with one sentence if the program that is ready has other files, or other tensors that do not travel. Parts that
// it does not tell are not compared.
Status trainer_program_check(const TrainerPlan *plan, const json_t *ready, Error *err);

#endif
