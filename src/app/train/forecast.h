// The memory, files and time that a run will take, for `sounder train --plan` and the line before a sweep.
//
//   forecast.segments = run_memory_sizes(&memory, &plan);     // sizes that run_memory_create will ask for
//   TRY(rounds_rehearse(&rounds, 1, &forecast.turn, err));    // one turn, thrown away
//   forecast_settle(&forecast, &memory, &plan, &options, NULL);
//   forecast_print(stdout, &forecast);
//   TRY(forecast_check(&forecast, &options, err));
#ifndef SOUNDER_APP_TRAIN_FORECAST_H
#define SOUNDER_APP_TRAIN_FORECAST_H

#include <stdio.h>

#include "app/train/run_device.h"
#include "app/train/run_folder.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/parent/rounds.h"

// Plain data. Bytes, seconds. Zeroed means unknown.
typedef struct Forecast {
    uint32_t workers, most_workers; // asked for; as many as fit, at most MAX_WORKERS
    RunMemorySizes segments;
    uint64_t data, partition;                // segments
    bool data_is_cached;                     // the data set is a file, which runs share
    uint64_t parent, worker, trainer;        // private memory of a process; trainer: 0, there is none
    uint64_t program;                        // of the program that trainers are forks of; 0: they are none
    uint64_t aggregator;                     // of --aggregator; 0: there is none
    uint64_t memory, available;              // of all; that there is for it
    GpuNeed gpu;                             // zeros: the CPU trains
    uint64_t gpu_free;                       // of that GPU
    char device[512];                        // it, or why it is not used; "": the CPU
    uint64_t model, checkpoint, client_rows; // files; client_rows: of the clients' state, at most
    uint64_t metrics, tensorboard;           // about
    uint64_t files, disk_free;               // all of them; of the file system
    char folder[RUN_PATH_BYTES];
    Rehearsal turn;
    uint32_t rounds, tests;
    double start_seconds, round_seconds, test_seconds, seconds; // of the start, a round, a test; of the run
} Forecast;

// Fills in the rest from segments, private memory and turn. plan: the run's, with the workers that were asked for.
void forecast_settle(Forecast *forecast, const RunMemory *memory, const RunPlan *plan, const Options *options,
                     const Device *gpu);

void forecast_print(FILE *file, const Forecast *forecast);

// OS or IO with what does not fit and how many workers would. USAGE never.
Status forecast_check(const Forecast *forecast, const Options *options, Error *err);

#endif
