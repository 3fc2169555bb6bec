// What a run writes down about itself: config.yaml, and in metrics.jsonl a line for each process that begins it or goes
// on with it. And what a process that goes on reads back, to make sure that it is the same run.
//
//   {"type":"start","time":"2026-11-22T01:18:15.123Z","schema":1,"sounder":"0.1.0","host":"one","device":"avx512",
//    "blas":"","argv":["--rounds","3"],"data_xxh3":"...","partition_xxh3":"...","run_xxh3":"...",
//    "figure":"test_accuracy","rounds_done":0,"nodes":1,"workers":2,"clients":2,"clients_per_round":2,
//    "checkpoint_every":1}
//
// Hashes are XXH3 with 64 bits in hexadecimal. run_xxh3 is the run's identity: data, partition, and the options that
// may not change with --resume. It is a note in each checkpoint, too. recording_xxh3: the file of --clock replay:FILE.
#ifndef SOUNDER_APP_TRAIN_RUN_RECORD_H
#define SOUNDER_APP_TRAIN_RUN_RECORD_H

#include <stdint.h>

#include "app/options/options.h"
#include "app/train/run_figure.h"
#include "app/train/run_folder.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "io/metrics.h"

enum { RECORD_SCHEMA = 1, HASH_TEXT_BYTES = 17 };

// Plain data. Zeroed: nothing is known.
typedef struct RunRecord {
    char device[128]; // the GPU's name, or the instruction set's
    char blas[128];   // what multiplies for wide layers; empty: nothing
    char data[HASH_TEXT_BYTES], partition[HASH_TEXT_BYTES], identity[HASH_TEXT_BYTES];
    char former_identity[HASH_TEXT_BYTES]; // that a checkpoint may have instead (options/former_options.h)
    char recording[HASH_TEXT_BYTES];       // empty: no recorded schedule is replayed
    RunFigure figure;                      // that the run is about
    uint32_t rounds_done;                  // when the process began
    int clients, clients_per_round;        // which may have followed from the number of workers
    int checkpoint_every;
    uint32_t rounds_told; // of an earlier process: the last that metrics.jsonl tells of
    uint32_t summed_up;   // the rounds that its summary tells of; 0: its last line is no summary
    char model[65];       // the SHA-256 of model.safetensors by that
} RunRecord;

// The samples and who has which of them: what lies around them in memory may tell of files, which differ.
uint64_t run_hash_data(const Dataset *data);
uint64_t run_hash_partition(const RunMemory *memory);

void write_hash(char text[HASH_TEXT_BYTES], uint64_t hash);

// What this process is about to do. options: resolved. data: run_hash_data of the run's.
void run_record_fill(RunRecord *record, const Options *options, const RunMemory *memory, uint64_t data,
                     const char *device, const char *blas);

// The last process that worked in the folder; zeroed when metrics.jsonl does not tell.
Status run_record_read(RunRecord *past, const RunFolder *folder, Error *err);

// Whether the earlier process has ended with the model of so many rounds, and that is still what the folder holds.
bool run_record_has_result(const RunRecord *past, const RunFolder *folder, uint32_t rounds);

// DATA, with both hashes, when the run would go on with other data or another recorded schedule than before. Warns of
// another device or another OpenBLAS, whose results differ in the last bits.
Status run_record_check(const RunRecord *past, const RunRecord *now, const char *folder, Error *err);

Status run_record_write(Metrics *metrics, const RunRecord *record, const Options *options, int argc, char *const *argv,
                        Error *err);

Status run_config_write(const RunFolder *folder, const Options *options, Error *err);

#endif
