// A run's checkpoints: its weights, and of the slots those that outlive a round, as tensors "sounder.velocity.0", ....
#ifndef SOUNDER_APP_RUN_RUN_CHECKPOINT_H
#define SOUNDER_APP_RUN_RUN_CHECKPOINT_H

#include "app/run/run_folder.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "nn/spec.h"

// text: the layer list. round: how many are done.
Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const char *text,
                            uint32_t round, Error *err);

// Fills weights and slots from the last checkpoint; where there is none yet, *rounds_done stays as it is.
Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const Spec *spec, const RunFolder *folder,
                              Error *err);

#endif
