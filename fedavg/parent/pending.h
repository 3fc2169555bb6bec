// Updates that wait for the step that they are part of (rules/world/schedule.h): the parent's side. Workers write the
// integer contributions (SlotPlan.pending), the schedule says which step each belongs to.
//
//   TRY(pending_init(&pending, &memory, rounds_done, err));
//   each round: TRY(pending_collect(&pending, cohort->members, round, nodes, err));  // all jobs are done
//               ... a step on the sums of the workers and pending.due, divided by pending.arrived ...
//               pending_conclude(&pending, round);
//   pending_free(&pending);
//
// Replicas (rules/local/elastic.h) wait in what their clients keep, and use no memory of this.
//
// Every node has all that waits, and adds to the sum of all nodes what is due on the first one alone.
#ifndef SOUNDER_FEDAVG_PARENT_PENDING_H
#define SOUNDER_FEDAVG_PARENT_PENDING_H

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"

#define PENDING_REFUSED                                                                                                \
    "client %u: update refused: compensated, it moves a weight by 2^20 or more; lower lambda or --lr"
#define PENDING_MOVED                                                                                                  \
    "client %u: update refused: since it began, the model has moved a weight by 2^22 or more; scale the data or "      \
    "lower --lr"

typedef struct Pending {
    RunMemory *memory;   // borrowed
    const int64_t **due; // owned (slots.pending): what has waited for this round's step, unless it was refused
    uint32_t due_count;

    // The updates in the step, those that were refused, and the sum of the weights of all others.
    uint32_t updates, refused;
    uint32_t client; // whose the last of them is
    double arrived;

    int64_t staleness[STALENESS_BUCKETS]; // how many were that stale; the last: that or more
    double staleness_mean;
    uint32_t staleness_most;
} Pending;

// Does nothing where updates never wait, as do the others. Nothing to free on failure.
Status pending_init(Pending *pending, RunMemory *memory, uint32_t rounds_done, Error *err);
void pending_free(Pending *pending);

// members: of the round's cohort, by place of the jobs in the queue, which holds those of all nodes. An update that is
// due is compensated here, or with mixes=models becomes a step to the client's weights, or is refused.
Status pending_collect(Pending *pending, const Member *members, uint32_t round, Nodes *nodes, Error *err);

void pending_conclude(Pending *pending, uint32_t round);

// Counts an update of the step by its staleness. staleness_mean is a sum until the round is over.
void pending_count(Pending *pending, uint32_t staleness);

#endif
