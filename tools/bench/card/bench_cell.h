// One cell of bench_card's table: a net with made-up data on the GPU, and the time its steps take.
#ifndef SOUNDER_TOOLS_BENCH_GPU_BENCH_CELL_H
#define SOUNDER_TOOLS_BENCH_GPU_BENCH_CELL_H

#include "base/err.h"
#include "cuda_costs.h"

// An evaluation's products are our own. A net that trains in batches of more than 64 samples has cuBLAS, which its
// evaluations then use, too: the two ways of an evaluation.
typedef enum CellWork { CELL_TRAINS, CELL_TESTS, CELL_TESTS_BY_CUBLAS } CellWork;

typedef struct CellPlan {
    CellWork work;
    const char *net;     // of the zoo, or layers
    const char *shape;   // of a sample: "1x28x28"
    uint32_t batch_size; // samples of a model in a step
    int models;
    bool tf32;
    float momentum;
    int steps, runs; // of a run; of which the median counts
    int rows;        // of the data set
    size_t copy_bytes;
} CellPlan;

typedef struct CellResult {
    double microseconds_a_step; // median of the runs, by events
    double bytes, operations;   // of a step of all models, counted (cuda_costs.h)
    size_t kernels;             // of a step; as bytes, operations and costs, only of CELL_TRAINS
    CudaCost costs[CUDA_MOST_COSTS];
    int cost_count;
} CellResult;

// OS with a sentence where the GPU has too little memory for it.
Status bench_cell(CellResult *result, const CellPlan *plan, Error *err);

// A single step, uncaptured and not timed.
Status bench_one_step(const CellPlan *plan, Error *err);

// Of values (count >= 1), which are sorted in place.
double median(double *values, int count);

#endif
