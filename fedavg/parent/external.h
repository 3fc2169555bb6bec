// Combines the updates of a round in a program of the user's (--aggregator), which may step the weights, too.
//
//   TRY(external_open(&external, &combine, parent, host, &wait, err));
//   each round, after combine_rows: TRY(external_combine(&external, noise, round, err));    // combine.total
//                                   external_conclude(&external);                            // ... that has succeeded
//   external_close(&external);
//
// A fault of the program costs an attempt: another process does it again, from the same updates and the same state, so
// that the bits are the same. A second fault in one round ends the run, and so does an error that it calls fatal.
#ifndef SOUNDER_FEDAVG_PARENT_EXTERNAL_H
#define SOUNDER_FEDAVG_PARENT_EXTERNAL_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/parent/combine.h"
#include "fedavg/parent/parent_backend.h"
#include "fedavg/trainer/aggregator.h"
#include "fedavg/trainer/host.h"

typedef struct External {
    Aggregator aggregator;
    Combine *combine;     // borrowed; NULL: the run has no aggregator
    const Parent *parent; // borrowed
    TrainerHost *host;    // borrowed: takes what the program prints; NULL: this process's stderr does
    Owned owned;
    float *block; // owned (cohort, EXTERNAL_BLOCK): differences on their way from row to row
} External;

enum { EXTERNAL_BLOCK = 1024 };

// In a run without --aggregator these functions do nothing. Nothing to close on failure.
Status external_open(External *external, Combine *combine, const Parent *parent, TrainerHost *host,
                     const TrainerWait *wait, Error *err);
void external_close(External *external);

// The rows become updates, in the order of the clients. noise: the standard deviation, in units of a weight, of the
// release's noise, which joins each weight of the program's update; 0: none. DATA for more metrics of the trainers than
// there may be, before the program is asked; UNAVAILABLE after a second fault or a fatal error, with the program's
// sentence; CANCELLED as the wait.
Status external_combine(External *external, double noise, uint32_t round, Error *err);

// Stores what the program remembers until the next round.
void external_conclude(External *external);

#endif
