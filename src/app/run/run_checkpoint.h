// A run's checkpoints: its weights, and of the slots those that outlive a round, as tensors "sounder.velocity.0", ....
// The note "sounder.run" says of which run it is (run_record.h), beside those of a model file.
#ifndef SOUNDER_APP_RUN_RUN_CHECKPOINT_H
#define SOUNDER_APP_RUN_RUN_CHECKPOINT_H

#include "app/run/model_file.h"
#include "app/run/run_folder.h"
#include "app/run/run_record.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "nn/spec.h"

// round: how many are done.
Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const ModelAbout *about,
                            const RunRecord *record, uint32_t round, Error *err);

// Fills weights and slots from the last checkpoint and sets *rounds_done. DATA when that is another run's. Where there
// is none, *rounds_done stays as it is if the run had not come so far; NOINPUT if it had.
Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const Spec *spec, const RunFolder *folder,
                              const RunRecord *record, const RunRecord *past, Error *err);

#endif
