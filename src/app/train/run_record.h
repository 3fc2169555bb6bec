// A run's record of itself: config.yaml, and in metrics.jsonl one line for each process that begins or resumes it. A
// resuming process reads it to verify that it is the same run.
//
//   {"type":"start","time":"2026-11-22T01:18:15.123Z","schema":1,"sounder":"0.1.0","host":"one","device":"avx512",
//    "blas":"","argv":["--rounds","3"],"data_xxh3":"...","partition_xxh3":"...","run_xxh3":"...",
//    "loss":"cross-entropy","figure":"test_accuracy","rounds_done":0,"nodes":1,"workers":2,"clients":2,
//    "clients_per_round":2,"checkpoint_every":1}
//
// Hashes are XXH3 with 64 bits in hexadecimal. run_xxh3 is the run's identity: data, partition, and the options that
// may not change with --resume. Each checkpoint notes it, too. The other hashes are those of run_inputs.h.
#ifndef SOUNDER_APP_TRAIN_RUN_RECORD_H
#define SOUNDER_APP_TRAIN_RUN_RECORD_H

#include <stdint.h>

#include "app/options/options.h"
#include "app/options/run_figure.h"
#include "app/train/client_names.h"
#include "app/train/run_folder.h"
#include "app/train/run_inputs.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/trainer/witness.h"
#include "io/metrics.h"

// The key of the files that a trainer told, over which its hash is taken with those that its command names.
#define TRAINER_FILES_KEY "trainer_files"

typedef enum TrainerRepeats { TRAINER_UNCHECKED, TRAINER_REPEATS, TRAINER_REPEATS_NOT } TrainerRepeats;

// Facts from metrics.jsonl about the rounds that a resumed run keeps.
typedef struct RunKept {
    uint32_t rounds, last;  // how many rounds, and the last of them; 0: none
    uint32_t tested_round;  // the last round, if it was tested; otherwise 0
    double seconds, joules; // RunCosts (run_metrics.h) after the last round; NaN: unknown
    uint32_t workers_lost;  // in these rounds
} RunKept;

// Plain data. Zeroed means unknown.
typedef struct RunRecord {
    char device[128];                          // name of the GPU or the instruction set
    char blas[128];                            // library that multiplies for wide layers; empty: none
    char inputs[RUN_INPUTS][INPUT_TOLD_BYTES]; // empty: the run has no such input, or its record does not tell it
    char identity[HASH_TEXT_BYTES];
    uint64_t stays_tensors, stays_floats;   // of the trainer that do not travel; of this process alone
    char hash_seed[HASH_SEED_BYTES];        // PYTHONHASHSEED of the run's programs; empty: it was not noted
    TrainerWitness witness;                 // of the trainer
    const json_t *trainer_files;            // that the trainer told; borrowed, NULL: none
    char trainer_folder[RUN_PATH_BYTES];    // of an earlier process: where its relative paths begin
    char aggregator_folder[RUN_PATH_BYTES]; // likewise
    TrainerRepeats repeats;                 // whether turns of --trainer repeat
    RunFigure figure;                       // figure that the run is about
    const char *loss;                       // what losses are
    uint32_t rounds_done;                   // when the process began
    int tensors;                            // that are exchanged
    int clients, clients_per_round;         // they may have followed from the number of workers
    int checkpoint_every;
    uint32_t rounds_told; // of an earlier process: last round in metrics.jsonl
    uint32_t summed_up;   // rounds in its summary; 0: its last line is no summary
    char model[65];       // SHA-256 of model.safetensors in its summary
    RunKept kept;         // of earlier processes; zeroed: there were none
} RunRecord;

// Hash the samples, and their partition. Other bytes around them in memory may come from files and differ.
uint64_t run_hash_data(const Dataset *data);
uint64_t run_hash_partition(const RunMemory *memory);

// Describes this process. options: resolved. data: run_hash_data of the run's data. The hashes of the user's programs
// are left to the caller.
void run_record_fill(RunRecord *record, const Options *options, const RunMemory *memory, uint64_t data,
                     const char *device, const char *blas);

// Notes what the trainer is.
void run_record_program(RunRecord *record, const TrainerProgram *program);

// Reads what a start line says of it.
void run_record_read_program(RunRecord *record, const json_t *start);

// Reads the last process that worked in the folder; zeroed if metrics.jsonl has none.
Status run_record_read(RunRecord *past, const RunFolder *folder, Error *err);

// Reads the record of a run that continues after this many rounds. Warns if it lacks some of them.
Status run_record_kept(RunKept *kept, const RunFolder *folder, uint32_t rounds_done, Error *err);

// Whether the earlier process ended with a model of this many rounds, and the folder still holds that model.
bool run_record_has_result(const RunRecord *past, const RunFolder *folder, uint32_t rounds);

// For a run that continues from a checkpoint: takes over the hash of its first model, whose file is not read again and
// may be gone.
void run_record_keep_init(RunRecord *now, const RunRecord *past);

// Whether the input is known to be another one now.
bool run_record_input_changed(InputChange *change, const RunRecord *past, const RunRecord *now, RunInputKind kind);

// DATA, with both hashes, if the inputs of the run are others now; a warning for other versions. name: of the
// run in the sentence.
Status run_record_same_inputs(const RunRecord *past, const RunRecord *now, const char *name, Error *err);

// Does this for a run that would continue, and warns of another device or another OpenBLAS, whose results differ in the
// last bits. Other parts of a program that the user has named again are no error, but a warning. options: with the
// commands of the programs, and whether they are named.
Status run_record_check(const RunRecord *past, const RunRecord *now, const Options *options, const char *folder,
                        Error *err);

// Does this for the trainer's witness turn (fedavg/trainer/witness.h). A start that makes none keeps that of the past.
Status run_record_check_witness(RunRecord *now, const RunRecord *past, const Options *options, const RunMemory *memory,
                                Error *err);

// names: of the clients, which the line lists.
Status run_record_write(Metrics *metrics, const RunRecord *record, const Options *options, const ClientNames *names,
                        int argc, char *const *argv, Error *err);

Status run_config_write(const RunFolder *folder, const Options *options, Error *err);

#endif
