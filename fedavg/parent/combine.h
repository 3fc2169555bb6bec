// What the parent makes of updates that lie side by side (rules/rows.h), as the combine rule of the recipe says.
//
//   TRY(combine_init(&combine, &memory, nodes, err));
//   each round, when all jobs are done: TRY(combine_rows(&combine, err));      // combine.total is the cohort's update
//   combine_free(&combine);
#ifndef SOUNDER_FEDAVG_PARENT_COMBINE_H
#define SOUNDER_FEDAVG_PARENT_COMBINE_H

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/parent/row_walk.h"
#include "fedavg/rules/combine_rules.h"

typedef struct Combine {
    const RunMemory *memory; // borrowed
    Nodes *nodes;            // borrowed
    RowWalk walk;
    const Job **jobs; // owned (rows): those of all nodes whose updates arrived, ascending by client
    uint32_t count;   // of them
    float *columns;   // owned (rows, ROW_LANES): workspace
    int64_t *total;   // owned (parameters): the combined update in units of 2^-40
} Combine;

// Where updates are summed as they come this and the rest do nothing. Nothing to free on failure.
Status combine_init(Combine *combine, const RunMemory *memory, Nodes *nodes, Error *err);
void combine_free(Combine *combine);

// The queue holds all the round's jobs, of which at least one was not refused. Fills in combine->total.
Status combine_rows(Combine *combine, Error *err);

#endif
