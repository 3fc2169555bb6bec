// --clock real: nobody waits, and updates are part of the version after which they really come. The parent gives every
// worker a client, takes the updates in the order in which it finds them, and makes a version of every K, while the
// workers train on. What came when is recorded as a schedule, from which the simulated clock comes to the same bits.
//
//   each round: TRY(real_clock_run(rounds, round, err));     // K updates have come
//               TRY(real_clock_settle(rounds, round, err));  // the weights are the new model, and published
//   before workers do something else: TRY(real_clock_rest(rounds, err));
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

// Does nothing with another clock, as real_clock_rest does. Nothing to free on failure.
Status real_clock_init(Rounds *rounds, Error *err);
void real_clock_free(RealClock *clock);

Status real_clock_run(Rounds *rounds, uint32_t round, Error *err);
Status real_clock_settle(Rounds *rounds, uint32_t round, Error *err);
Status real_clock_rest(Rounds *rounds, Error *err);

// While the workers train: takes what has landed. Whether the version has all its updates.
Status real_clock_serve(Rounds *rounds, Error *err);
bool real_clock_is_enough(const Rounds *rounds);

#endif
