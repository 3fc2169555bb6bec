// The run's best model by its figure, in best.safetensors beside the final model.
//
//   each test:        if (it is the best so far) TRY(best_model_note(&best, &memory, err));
//   each checkpoint:  TRY(best_model_save(&best, &folder, goals->best_round, round, err));
//   at the end:       TRY(best_model_end(&best, &folder, goals->best_round, rounds, err));
//   best_model_free(&best);
//
// A model that is the best of all rounds so far stays in memory: its checkpoint has it, too. The file is written when a
// checkpoint of a later round is, so that a run whose every test is better writes it once.
#ifndef SOUNDER_APP_TRAIN_BEST_MODEL_H
#define SOUNDER_APP_TRAIN_BEST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "app/train/run_folder.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "io/durable.h"

// Zeroed: no test so far.
typedef struct BestModel {
    void *file; // owned (bytes): the contents of best.safetensors
    size_t bytes;
    bool is_unsaved;
} BestModel;

// Copies the tested model (state_tested_model), whose test is the best so far. OS without memory.
Status best_model_note(BestModel *best, const RunMemory *memory, Error *err);

// Before the checkpoint of `round`: writes the file if the model of best_round is not in that checkpoint.
Status best_model_save(BestModel *best, const Folder *folder, uint32_t best_round, uint32_t round, Error *err);

// After model.safetensors was written: if that is the best model, gives it the second name.
Status best_model_end(BestModel *best, const Folder *folder, uint32_t best_round, uint32_t rounds, Error *err);

// Writes the file, if that has not been done, and loads its weights (parameters). *found: whether there is a best model
// that is not the final one.
Status best_model_load(float *weights, bool *found, BestModel *best, const RunMemory *memory, const RunFolder *folder,
                       uint32_t rounds, Error *err);

void best_model_free(BestModel *best);

#endif
