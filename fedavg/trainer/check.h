// Whether a run's trainer repeats: a turn must give the same weights whatever was done before it, in any process.
// Otherwise the bits of a run depend on the number of workers, and do not survive a kill or --resume.
//
//   TrainerCheck check;
//   TRY(trainer_check(&check, &memory, err));
//   if (!check.repeats) log_warning("--check-trainer: %s", check.finding);
//
// Client A trains, client B, A again, a test is made, A again; then A in a fresh process. Two batches show a momentum,
// a few more a generator. Where the algorithm adds to the gradients, A trains once more with more to add.
#ifndef SOUNDER_FEDAVG_TRAINER_CHECK_H
#define SOUNDER_FEDAVG_TRAINER_CHECK_H

#include "fedavg/trainer/trainer.h"

typedef struct TrainerCheck {
    bool repeats;
    char finding[ERROR_MESSAGE_BYTES]; // one sentence with the first tensor that differs and the likely cause
} TrainerCheck;

// In the parent, before the first worker starts: uses rank 0's place in memory. A trainer that fails is an error as in
// a run: UNAVAILABLE or DATA with its sentence.
Status trainer_check(TrainerCheck *check, const RunMemory *memory, Error *err);

// The same for the run's aggregator: it combines updates that are made up, those of another round, and the first ones
// again; then these in a fresh process. Uses the rows of the cohort, which are zeros afterwards.
Status aggregator_check(TrainerCheck *check, const RunMemory *memory, Error *err);

#endif
