// Combines updates that are stored side by side (rules/combine/rows.h), by the algorithm's rules for mixing and
// combining.
//
//   TRY(combine_init(&combine, &memory, nodes, err));
//   each round, when all jobs are done:
//       TRY(combine_rows(&combine, &enough, round, err));    // combine.total is the cohort's update
//       combine_conclude(&combine);                          // ... of a round that has succeeded
//   combine_free(&combine);
//
// The updates themselves are never changed. A rule that wants distances gets their products first. Mixed updates and
// choices among them are shares of the updates, which the exact mean then adds. A rule that looks at each weight on its
// own sees the columns of the chosen updates.
#ifndef SOUNDER_FEDAVG_PARENT_COMBINE_H
#define SOUNDER_FEDAVG_PARENT_COMBINE_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/parent/row_walk.h"
#include "fedavg/rules/combine/combine_rule.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "nn/blas.h"

typedef struct Combine {
    const RunMemory *memory; // borrowed
    Nodes *nodes;            // borrowed
    const CombineRule *rule;
    const MixRule *mix;
    RowWalk walk;
    Blas *blas; // owned; NULL: products are few, or not wanted
    bool wants_products;
    uint32_t asides;                   // rows after the clients': 1 where the rule remembers the last
                                       // result, or trusts the server's
    float *center;                     // borrowed (parameters): that update, of the slots; NULL without
    Job **jobs;                        // (rows): those of all nodes whose updates arrived, ascending by client
    uint32_t count, mixed_count;       // of jobs; of the updates that are made of theirs
    double *weights;                   // (rows): what each counts
    double *shares;                    // (rows): what of each the combined update has
    double *mixed_shares;              // (rows): the same of mixed updates
    double *parts;                     // (rows, rows): what of each update a mixed one has
    double *products, *mixed_products; // (rows, rows)
    double *workspace;
    float *columns, *mixed; // workspace
    const float **picked;   // (rows)
    uint32_t *order;        // (rows)
    int64_t *total;         // (parameters): the combined update in units of 2^-40
    int64_t *chosen;        // (rows): the clients that the rule has picked in this round, ascending
    uint32_t chosen_count;
    Owned owned; // all of these
} Combine;

// The OpenBLAS that will multiply updates in a run of such rounds ("OpenBLAS 0.3.21 SkylakeX"); empty if none will.
// UNAVAILABLE where it cannot be opened.
Status combine_blas_name(char name[BLAS_NAME_BYTES], const Algorithm *algorithm, const Chosen *attack, uint32_t cohort,
                         uint64_t parameters, Error *err);

// In a run without rows these functions do nothing. UNAVAILABLE if OpenBLAS is wanted and cannot be opened. Nothing to
// free on failure.
Status combine_init(Combine *combine, const RunMemory *memory, Nodes *nodes, Error *err);
void combine_free(Combine *combine);

// The queue holds all the round's jobs, of which at least one was not refused. Fills in combine->total, and the jobs'
// shares where the rule chooses; only jobs, count and weights for an external rule (external.h). enough: false when
// fewer updates arrived than the rules need; then nothing is filled in.
Status combine_rows(Combine *combine, bool *enough, uint32_t round, Error *err);

// Stores what the rule remembers until the next round.
void combine_conclude(Combine *combine);

// In combine_adapters.c, after the mean of all weights: combine->total has the mean update on all nodes. With how=exact
// the bases get what the mean factors leave out; with how=svd the factors' own totals are replaced. Nothing for another
// rule. DATA for a weight that would move too far.
Status combine_adapters(Combine *combine, Error *err);

#endif
