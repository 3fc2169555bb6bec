// Failures in time (--failures, rules/world/failures.h) of the members of a cohort, on the simulated clock.
//
//   TRY(cohort_failures_begin(&failures, config, now, nodes, err));                        // in each round
//   count = cohort_failures_leave_out(&failures, members, count, &config->world, now);
//   cohort_failures_meet(&failures, &members[i], now);                                     // once its end is known
//   cohort_failures_conclude(&failures, &microseconds, members, count, &arrivals, &config->world);
//
// Without --failures lives is NULL, and all but cohort_failures_lost do nothing.
#ifndef SOUNDER_FEDAVG_PARENT_COHORT_FAILURES_H
#define SOUNDER_FEDAVG_PARENT_COHORT_FAILURES_H

#include "base/err.h"
#include "fedavg/memory/layout.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/rules/world/world.h"

typedef struct CohortFailures {
    Life *lives;           // (clients); owned by the cohort
    uint32_t failed, down; // members that failed in the round; clients drawn that were down as it began
    uint64_t first_back;   // the first of them works again then, in microseconds of all rounds
    uint64_t useful_microseconds, replica_microseconds; // of training that counts, and of all clients drawn
} CohortFailures;

// Advances each life to `now`, in microseconds of all rounds. All nodes take node 0's times, because they depend on the
// C library's log1p.
Status cohort_failures_begin(CohortFailures *failures, const RunConfig *config, uint64_t now, Nodes *nodes, Error *err);

// Clients that are down as the round begins are neither asked nor waited for. Returns how many members are left, in
// their order.
uint32_t cohort_failures_leave_out(CohortFailures *failures, Member *members, uint32_t count, const World *world,
                                   uint64_t now);

// A member that fails before its end is lost for the round: its work does not count.
void cohort_failures_meet(const CohortFailures *failures, Member *member, uint64_t now);

// Counts failures and useful time. A round in which all arrivals count ends when each client has handed in or failed;
// one without an arrival, too: *microseconds may grow.
void cohort_failures_conclude(CohortFailures *failures, uint64_t *microseconds, const Member *members, uint32_t count,
                              const Arrivals *arrivals, const World *world);

// Fills in lost (clients) by clients that have failed from `begin`, the clock before the round, to `now`.
Status cohort_failures_lost(const CohortFailures *failures, uint8_t *lost, const RunConfig *config, uint64_t begin,
                            uint64_t now, Nodes *nodes, Error *err);

#endif
