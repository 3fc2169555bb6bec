// --clock real: nobody waits, and updates are part of the version after which they really come. The parent gives every
// worker a client, takes the updates in the order in which it finds them, and makes a version of every K, while the
// workers train on. What came when is recorded as a schedule, from which the simulated clock comes to the same bits.
//
// A client whose worker died before it landed is begun anew, from the newest version; an update that has landed counts
// once, whoever dies.
#ifndef SOUNDER_FEDAVG_PARENT_REAL_CLOCK_H
#define SOUNDER_FEDAVG_PARENT_REAL_CLOCK_H

#include "base/err.h"
#include "fedavg/rules/world/schedule.h"

typedef struct Rounds Rounds;

typedef struct RealClock {
    Schedule log;                    // owned: the jobs that were applied, in the order of their arrival
    uint32_t capacity;               // of these
    uint32_t *picks, *visits, *lost; // owned (clients): the order of a version's draw; begun so often; to begin anew
    uint32_t *samples;               // owned (clients)
    uint64_t *scratch;               // owned (clients + 1)
    uint8_t *busy;                   // owned (clients)
    uint32_t picked, next, lost_count;
    uint32_t collected, refused; // updates of the version in the making; those refused since the last
    uint32_t untold;             // refused or late ones for which its record has no place
    uint64_t start_nanoseconds, round_nanoseconds;
    bool flies; // the workers train
} RealClock;

#endif
