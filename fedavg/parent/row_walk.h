// The rows of a cohort (rules/combine/rows.h) piece by piece, wherever they are: alone in this node's memory, or on
// several nodes, each of which has those of its own clients.
//
//   TRY(row_walk_init(&walk, &memory, nodes, ROW_TRAVELLING_FLOATS, product_rows, err));
//   TRY(row_walk(&walk, jobs, count, aside, visit, context, err));   // by all nodes, with the jobs of all of them
//   TRY(row_walk_products(&walk, products, jobs, count, aside, err));
//   row_walk_free(&walk);
//
// The weights are cut into ROW_SECTIONS sections of whole blocks, of which each node has a run: it sees all rows of
// these, and sends the others what they see. So what is computed from a section is computed once, from equal numbers
// in one order, for any number of nodes.
#ifndef SOUNDER_FEDAVG_PARENT_ROW_WALK_H
#define SOUNDER_FEDAVG_PARENT_ROW_WALK_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/rules/combine/rows.h"

enum { ROW_SECTIONS = 8, ROW_TRAVELLING_FLOATS = 1 << 24 };

typedef struct RowWalk {
    const RunMemory *memory; // borrowed
    Nodes *nodes;            // borrowed
    Owned owned;
    const float **values, **from; // owned (rows): of the piece at hand
    float *sent, *received;       // owned (rows of this node, nodes, piece), (rows, piece); NULL: one node has them all
    size_t *sent_bytes, *received_bytes; // owned (nodes)
    size_t piece;                        // weights that travel at once: a multiple of ROW_BLOCK
    uint32_t pieces;                     // in the largest section
    const Blas *blas;                    // borrowed, set by the caller; NULL: products are computed without OpenBLAS
    double *sections, *wide;             // owned (ROW_SECTIONS, rows, rows), (rows, ROW_PRODUCT_BLOCK): for products
} RowWalk;

// travelling: floats of all rows that travel at once. product_rows: rows whose products are asked for, at most. Where
// the run has no rows it does nothing. Nothing to free on failure.
Status row_walk_init(RowWalk *walk, const RunMemory *memory, Nodes *nodes, size_t travelling, uint32_t product_rows,
                     Error *err);
void row_walk_free(RowWalk *walk);

// A piece: rows.values point at its first weight. Pieces of one section follow each other. A section's pieces are
// visited one after the other on the node that owns it: a visitor may keep a sum per section.
typedef void (*RowVisit)(void *context, const Rows *rows, uint32_t section, size_t first, size_t count);

// jobs (count): done, on all nodes; their rows come in this order. aside (parameters), the same on all nodes: one more
// row, of an update; NULL: none.
Status row_walk(RowWalk *walk, const Job *const *jobs, uint32_t count, const float *aside, RowVisit visit,
                void *context, Error *err);

// sections (ROW_SECTIONS) of `bytes` each. Every node has filled in those that it has seen; afterwards each node has
// all.
Status row_walk_gather(RowWalk *walk, void *sections, size_t bytes, Error *err);

// products (rows, rows) = the inner products of the updates, `aside` among them, on all nodes.
Status row_walk_products(RowWalk *walk, double *products, const Job *const *jobs, uint32_t count, const float *aside,
                         Error *err);

// For qsort: an array of jobs, ascending by client, so that nothing depends on the order in which the work was done.
int row_walk_by_client(const void *a, const void *b);

#endif
