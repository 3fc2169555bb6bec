// The witness turn: the first turn that a program is asked for in each of its starts, with the weights that it makes
// itself and the samples of one client. A program that trains otherwise in a later start has other data, another base
// or other numbers of words, which no hash of files shows.
//
//   witness = trainer_witness_of(told, first, weights, count);       // told: the answer; first: a hash
//   TRY(trainer_witness_judge(&then, &witness, plan, accepts, err));
#ifndef SOUNDER_FEDAVG_TRAINER_WITNESS_H
#define SOUNDER_FEDAVG_TRAINER_WITNESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/rules/trainer_plan.h"

// first: hash of the weights (count) with which the turn began, of which `weights` are the trained ones.
TrainerWitness trainer_witness_of(const json_t *told, uint64_t first, const float *weights, size_t count);

uint64_t trainer_witness_hash(const float *weights, size_t count);

// Warns if the first weights differ, or if only the trained weights do, as on another processor. DATA if the loss
// or the files differ, which is a warning if the user accepts it.
Status trainer_witness_judge(const TrainerWitness *then, const TrainerWitness *now, const TrainerPlan *plan,
                             bool accepts, Error *err);

#endif
