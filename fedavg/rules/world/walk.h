// Walks: which batches of its samples a client trains in a round. A walk is a number of epochs, or a number of steps
// that continue where the round before ended (schedule rounds steps=H: local SGD, Stich, ICLR 2019; with warmup:
// post-local SGD, Lin, Stich, Patel, Jaggi, ICLR 2020, where the first rounds have one step each; with fragments:
// Streaming DiLoCo, where a round has a P-th of the steps).
//
//   const Walk walk = walk_of(&recipe->schedule, round, epochs);
//   for (uint32_t index = 0; walk_stretch(&stretch, &walk, index, batches); index++)
//       ... batches stretch.first to stretch.first + stretch.count - 1 of one order of the client's samples
//
// Steps are counted by rounds, not by turns, so that a client's position follows from the round alone. A pass over the
// samples has the order and the dropout of its own number, as if each round had one epoch.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_WALK_H
#define SOUNDER_FEDAVG_RULES_WORLD_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "fedavg/rules/world/engine_facts.h"

typedef struct Walk {
    uint32_t round, epochs;
    uint64_t start, steps; // before the round; in the round, 0 if it is counted in epochs
} Walk;

// Consecutive batches in one order of a client's samples.
typedef struct Stretch {
    uint32_t round, epoch; // of the order and the dropout (datasets/order.h, nn/net.h)
    uint32_t first, count; // batches
    uint32_t step;         // the number of the first batch in its dropout
} Stretch;

// A training outside the rounds (personal models, fine-tuning: round >= 2^30) is counted in epochs.
Walk walk_of(const Chosen *schedule, uint32_t round, uint32_t epochs);

// The steps of a round, after any warm-up; NAN if rounds are counted in epochs.
double walk_round_steps(const Chosen *schedule);

// Whether rounds are counted in steps.
bool walk_by_steps(const Chosen *schedule);

// Fragments of which one travels in each round, so that `steps` steps are as many rounds (rules/local/fragments.h); 0:
// the model travels whole. How many steps of the next round are made until the server's values of a fragment are mixed
// in, and the part of a replica's own values in that mixture.
uint32_t walk_fragments(const Chosen *schedule);
uint64_t walk_delay(const Chosen *schedule);
double walk_mix(const Chosen *schedule);

// The part of a round's training during which a fragment travels, and costs no time of its own.
double walk_overlap(const Chosen *schedule, uint32_t round);

// How often the server has stepped the weights of this round with it: by rounds, or by those of the round's fragment.
uint32_t walk_server_round(const Chosen *schedule, uint32_t round);

// The first `steps` steps of a walk in steps, and those after them.
Walk walk_part(const Walk *walk, uint64_t first, uint64_t end);

// Stretch `index` (0, 1, ...) of a client with this many batches. False after the last one.
bool walk_stretch(Stretch *stretch, const Walk *walk, uint32_t index, uint32_t batches);

// Steps of the whole walk, for rules and clocks that need them before the training.
uint64_t walk_steps(const Walk *walk, uint32_t batches);

// The samples that a client with `samples` processes in this stretch; in the whole walk.
uint32_t stretch_samples(const Stretch *stretch, uint32_t samples, uint32_t batch_size);
uint64_t walk_samples(const Walk *walk, uint32_t samples, uint32_t batch_size);

// The samples by which the simulated clock multiplies the epochs: `samples`; for a walk in steps, which is one epoch,
// walk_samples, cut at 32 bits.
uint32_t walk_work(const Walk *walk, uint32_t samples, uint32_t batch_size);

#endif
