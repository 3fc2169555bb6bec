// The table of local rules, and a worker's loops over the weights of a client on the CPU. The GPU's twins are in
// fedavg/gpu/cuda_rules.cu.
//
//   LocalTurn turn = local_turn(chosen, &training, steps, size_ratio);
//   local_shift(shift, &vectors, &turn, pull, row, count);           // before the client trains
//   local_conclude(after, &vectors, &turn, row, limit, count);       // after training: the client's next state
//   aggregate_add(changes, after, state, 1, count);                   // and its change
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULES_H
#define SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULES_H

#include <stddef.h>

#include "base/host_device.h"
#include "fedavg/rules/local/dyn.h"
#include "fedavg/rules/local/elastic.h"
#include "fedavg/rules/local/moon.h"
#include "fedavg/rules/local/prox.h"
#include "fedavg/rules/local/scaffold.h"
#include "fedavg/rules/local/sgd.h"
#include "fedavg/rules/training.h"

// The rows of the table, in this order. Recipes that name none have the first.
#define LOCAL_RULES(X) X(sgd) X(prox) X(scaffold) X(dyn) X(elastic) X(moon)

#define LOCAL_ROW(name) LOCAL_ROW_##name,
enum { LOCAL_RULES(LOCAL_ROW) LOCAL_RULE_COUNT };

C_BEGIN

extern const LocalRule *const local_rules[LOCAL_RULE_COUNT];

// LocalTurn.displacement divided by lr: FedNova's norm of a. If lr has fallen to 0, the limit for lr -> 0.
double local_reach(const Chosen *chosen, const Training *training, uint64_t steps);

// size_ratio: the mean number of samples per client divided by this client's (LocalTurn.size_ratio).
LocalTurn local_turn(const Chosen *chosen, const Training *training, uint64_t steps, double size_ratio);

// LocalTurn.ahead of replicas.
double local_ahead(const Training *training);

// Whether the rule needs the full gradient at the client's initial weights.
bool local_looks(const Chosen *chosen);

// The rule's pull, which is added to the weight decay.
double local_pull(const Chosen *chosen, const LocalTurn *turn);

// The vectors of one client, each (count).
typedef struct LocalVectors {
    const float *global, *own;  // at the start of the round; as trained by the client
    const float *state;         // NULL: zeros
    const float *common;        // NULL: zeros
    const float *full_gradient; // NULL: zeros
    const float *velocity;      // that a replica begins with; NULL: zeros
} LocalVectors;

// shift (count) = the rule's shift - pull * global.
void local_shift(float *shift, const LocalVectors *at, const LocalTurn *turn, double pull, uint32_t row, size_t count);

// state_after (count) = the client's next state. False if an element is not finite, or not below the limit in
// magnitude: the sum over all clients could overflow.
bool local_conclude(float *state_after, const LocalVectors *at, const LocalTurn *turn, uint32_t row, double limit,
                    size_t count);

// Replicas: local_exchange subtracts the spring's force from own (count), whose first step is taken. local_gifts_fit
// says whether all elements of e_k are below the limit. local_add_gifts adds e_k to changes (count), in units of 2^-40.
// at->own is not used.
void local_exchange(float *own, const LocalVectors *at, const LocalTurn *turn, size_t count);
float local_replica(const LocalVectors *at, const LocalTurn *turn, size_t i); // the weight whose e_k is exchanged
bool local_gifts_fit(const LocalVectors *at, const LocalTurn *turn, double limit, size_t count);
void local_add_gifts(int64_t *changes, const LocalVectors *at, const LocalTurn *turn, size_t count);

C_END

#endif
