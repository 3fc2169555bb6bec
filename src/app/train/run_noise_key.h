// The key of a run's noise (fedavg/rules/noise_key.h), made when the run begins; its checkpoints keep it.
//
//   TRY(run_noise_key_begin(&memory, &options, &record, err));     // with the first weights, before the first round
//
// By default it is the SHA-256 of all that makes the run: seed, options, the hashes of data, partition, clients' files
// and programs, the words of the programs' commands, the first weights, and the numbers that follow from --rounds.
// Workers, nodes, device, places of files and rounds that are added later are no part of it. Two runs that differ in
// any part share no noise: the difference of their models has the noise of both.
#ifndef SOUNDER_APP_TRAIN_RUN_NOISE_KEY_H
#define SOUNDER_APP_TRAIN_RUN_NOISE_KEY_H

#include "app/options/options.h"
#include "app/train/run_record.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"

// Sets control->noise_key of the memory as its NoiseKeyKind says. record: with the hashes of the programs. OS if the
// system has no random numbers.
Status run_noise_key_begin(RunMemory *memory, const Options *options, const RunRecord *record, Error *err);

#endif
