// Which batches of its samples a client trains in a round: so many epochs, or so many steps, which go on where those of
// the round before have ended (schedule rounds steps=H: local SGD, Stich, ICLR 2019; with warmup: post-local SGD, Lin,
// Stich, Patel, Jaggi, ICLR 2020, where the first rounds have one step).
//
//   const Walk walk = walk_of(&recipe->schedule, round, epochs);
//   for (uint32_t index = 0; walk_stretch(&stretch, &walk, index, batches); index++)
//       ... batches stretch.first to stretch.first + stretch.count - 1 of one order of the client's samples
//
// Steps are counted by rounds, not by turns: where a client is follows from the round alone. A pass over its samples
// has the order and the dropout of the round of its number, as with one epoch a round.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_WALK_H
#define SOUNDER_FEDAVG_RULES_WORLD_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "fedavg/rules/rule.h"

// The numbers of the schedule `rounds`; `buffered` has steps of its own. steps: NaN where a round is counted in epochs.
enum { ROUNDS_STEPS, ROUNDS_WARMUP };

typedef struct Walk {
    uint32_t round, epochs;
    uint64_t start, steps; // steps before the round and in it; steps 0: it is counted in epochs
} Walk;

// Batches that follow each other in one order of a client's samples.
typedef struct Stretch {
    uint32_t round, epoch; // of the order and the dropout (datasets/order.h, nn/net.h)
    uint32_t first, count; // batches
    uint32_t step;         // the number of the first in its dropout
} Stretch;

// A training that belongs to no round (personal models, fine-tuning: round >= 2^30) is counted in
// epochs.
Walk walk_of(const Chosen *schedule, uint32_t round, uint32_t epochs);

// Whether rounds are counted in steps.
bool walk_by_steps(const Chosen *schedule);

// The stretch of this index (0, 1, ...), of a client with so many batches. False behind the last.
bool walk_stretch(Stretch *stretch, const Walk *walk, uint32_t index, uint32_t batches);

uint64_t walk_steps(const Walk *walk, uint32_t batches);

// What a client with `samples` has of them in its batches of the stretch, in those of the whole walk.
uint32_t stretch_samples(const Stretch *stretch, uint32_t samples, uint32_t batch_size);
uint64_t walk_samples(const Walk *walk, uint32_t samples, uint32_t batch_size);

// The same as far as 32 bits go: for the simulated clock, whose durations grow no further.
uint32_t walk_work(const Walk *walk, uint32_t samples, uint32_t batch_size);

#endif
