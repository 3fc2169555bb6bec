// The run's aggregator, a program of the user's that makes one update of those of a cohort, and its desk, memory that
// both processes have mapped. `sounder help aggregator` documents the lines.
//
//   TRY(aggregator_open(&aggregator, memory, output, &wait, err));
//   aggregator.clients[k] = ..., aggregator.shares[k] = ...;              // of each update, in the order of the rows
//   TRY(aggregator_ask(&aggregator, "combine", round, count, err));       // answer is the cohort's update
//   TRY(aggregator_ask(&aggregator, "server", round, count, err));        // if has_server: answer is the new weights
//   aggregator_close(&aggregator);
//
// The program reads the rows of the cohort and the global weights in the run's own memory, where it may not write. It
// writes the answer and the state on the desk, which is the parent's: what the run keeps of them is copied.
#ifndef SOUNDER_FEDAVG_TRAINER_AGGREGATOR_H
#define SOUNDER_FEDAVG_TRAINER_AGGREGATOR_H

#include <stdbool.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/trainer/process.h"

typedef struct Aggregator {
    const RunMemory *memory; // borrowed
    TrainerWait wait;        // how the parent waits for an answer
    TrainerProcess process;
    int output;           // borrowed: takes what the program prints
    double start_seconds; // that a later start may take; 0: this is the first one
    TrainerPlan plan;     // of the run, with the program as its first start told it; no command: it has not started
    bool has_server;      // the program steps the weights, too
    int desk_fd, rows_fd; // owned; rows: only for reading
    uint8_t *desk;
    size_t desk_bytes;
    // In the desk:
    double *answer;            // (parameters)
    float *state;              // (keeps, parameters): what the program remembers
    uint32_t *clients;         // (cohort)
    double *shares, *losses;   // (cohort): a loss may be NAN
    double *metrics;           // (METRICS_MOST, cohort): of the trainer, NAN where a client has none; NULL: no trainer
    uint64_t *samples, *steps; // (cohort): how many samples each client has; local steps that it made
    MetricSums named;          // beside the desk: which metrics these are, in their order
    uint64_t turns;            // asked so far
} Aggregator;

// Starts the run's program and waits until it is ready; nothing is started in a run without one. Returns USAGE or
// NOINPUT for a command that cannot be run, UNAVAILABLE with what the program said or did. Nothing to close on failure.
Status aggregator_open(Aggregator *aggregator, const RunMemory *memory, int output, const TrainerWait *wait,
                       Error *err);

// task: "combine" or "server". count: updates, whose rows are the first ones. Returns UNAVAILABLE if the program failed
// in a way that another one may not, DATA if another one would fail, too, CANCELLED if the wait was.
Status aggregator_ask(Aggregator *aggregator, const char *task, uint32_t round, uint32_t count, Error *err);

// Kills the program and starts it again.
Status aggregator_restart(Aggregator *aggregator, Error *err);

void aggregator_close(Aggregator *aggregator);

#endif
