// --clock real: no worker waits for another, and an update is part of the version after which it really arrives. The
// parent gives every worker a client, takes the updates in the order in which it finds them, and makes a version of
// every K updates, while the workers train on. Each arrival is recorded as a job of a schedule, from which the
// simulated clock makes the run again, bit by bit.
//
// A client whose worker died before it landed begins again, from the newest version. An update that has landed counts
// once, whichever process dies.
#ifndef SOUNDER_FEDAVG_PARENT_REAL_CLOCK_H
#define SOUNDER_FEDAVG_PARENT_REAL_CLOCK_H

#include "base/owned.h"
#include "fedavg/rules/world/schedule.h"

typedef struct Rounds Rounds;

// In the parent. The workers' side is one Flight per rank, in the control segment (memory/layout.h).
typedef struct RealClock {
    Schedule log; // owned: the jobs that were applied, in the order of their arrival
    Owned owned;
    uint32_t *visits, *lost; // owned (clients): how often each has begun; those that have to begin again (lost_count)
    uint8_t *busy;           // owned (clients)
    uint32_t picked, next;   // of the draw of the version (Cohort.drawn); its next client
    uint32_t lost_count;
    uint32_t collected, refused; // updates of the version in the making; those refused since the last
    uint32_t untold;             // refused or late ones for which its record has no place
    uint64_t start_nanoseconds, round_nanoseconds;
    bool flies; // the workers train
} RealClock;

#endif
