// The files of `sounder export RUN --federation FOLDER`: all that another implementation needs to repeat a federation,
// and what it has to get. `sounder help export` and tools/python/README.md describe the layout.
//
//   TRY(federation_files_begin(&options, &memory, net, rounds, folder, err));     // settings, data, first weights
//   each round: TRY(rounds_draw(&rounds, round, err));
//               TRY(rounds_train(&rounds, round, &report, err));
//               TRY(federation_files_round(&memory, NULL, &rounds.cohort, round, folder, err));
//   TRY(federation_files_end(folder, err));                                       // federation.json: all is there
#ifndef SOUNDER_APP_TRAIN_FEDERATION_FILES_H
#define SOUNDER_APP_TRAIN_FEDERATION_FILES_H

#include "app/options/options.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/parent/cohort.h"

// Bytes that the files take at most, and the bytes of the largest one; the config is that of the memory.
double federation_files_bytes(double *largest, const RunMemory *memory, uint32_t rounds);

// The name of federation.json until all rounds are written.
#define FEDERATION_PARTIAL_NAME "federation.partial.json"

// Writes the files that do not depend on a round, and the initial weights, into a folder that is empty or of an export
// that was killed.
Status federation_files_begin(const Options *options, const RunMemory *memory, const char *net, uint32_t rounds,
                              const char *folder, Error *err);

Status federation_files_end(const char *folder, Error *err);

// Writes the round that was trained: its jobs are in the queue, its model in the shared weights. begun (parameters):
// the weights that the round's clients began with; NULL if these are the model of the round before.
Status federation_files_round(const RunMemory *memory, const float *begun, const Cohort *cohort, uint32_t round,
                              const char *folder, Error *err);

#endif
