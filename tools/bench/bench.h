// The micro-benchmarks of sounder_bench: each measures one part of Sounder in this process (or its children) and prints
// one JSON object a line on stdout. No figure is judged here; tools/bench/run interleaves, compares and reports.
#ifndef SOUNDER_TOOLS_BENCH_H
#define SOUNDER_TOOLS_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// What the command line may set. Each benchmark reads the fields it needs.
typedef struct BenchOptions {
    const char *data;    // as sounder train --data
    const char *model;   // as sounder train --model
    const char *rule;    // of the server
    uint32_t batch;      // samples in a step
    uint32_t samples;    // to train or to evaluate
    uint32_t slots;      // N of averaging
    uint32_t parameters; // P of averaging, floats
    uint32_t ranks;      // of the barrier, of the group
    uint32_t waits;      // of the barrier, each rank; calls and messages of the group
    uint32_t bytes;      // of the group's large all_reduce
    uint32_t inputs;     // of a linear layer
    uint32_t outputs;    // of a linear layer
    double seconds;      // for how long averaging and linear repeat their kernels
} BenchOptions;

// One epoch of `samples` shuffled training samples on one core: gradient and SGD step, batch after batch.
Status bench_train(const BenchOptions *options, Error *err);

// A batch of the training samples for each line on stdin, answered with its seconds and its loss: for builds that live
// side by side and are compared batch by batch (tools/bench/turns).
Status bench_train_asked(const BenchOptions *options, Error *err);

// `samples` test images through the net in evaluation mode on one core.
Status bench_evaluate(const BenchOptions *options, Error *err);

// Rates of a linear layer's three products, by our own ops and through OpenBLAS.
Status bench_linear(const BenchOptions *options, Error *err);

// server_apply of `slots` sums of `parameters` floats, beside plain kernels that read and copy the same memory.
Status bench_averaging(const BenchOptions *options, Error *err);

// The step of a server rule beside the plain average's, with `slots` sums of `parameters` floats.
Status bench_server_rules(const BenchOptions *options, Error *err);

// Robust rules on `slots` updates of `parameters` floats side by side: values a second of the median and the trimmed
// mean, and Krum beside the products alone.
Status bench_rows(const BenchOptions *options, Error *err);

// Mean time of one wait of `ranks` processes, at our barrier and at a process-shared pthread_barrier_t.
Status bench_barrier(const BenchOptions *options, Error *err);

// all_reduce and messages of a process group on shared memory.
Status bench_group(const BenchOptions *options, Error *err);

// Median of values (count >= 1), which are sorted in place.
double bench_median(double *values, size_t count);

#endif
