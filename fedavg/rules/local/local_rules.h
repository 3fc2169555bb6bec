// All local rules, and what a worker does with them: the loops over a client's weights on the CPU. Their twins are in
// fedavg/gpu/cuda_rules.cu.
//
//   LocalTurn turn = local_turn(chosen, &training, steps, size_ratio);
//   local_shift(shift, &vectors, &turn, pull, row, count);           // before the client trains
//   local_conclude(after, &vectors, &turn, row, limit, count);       // when it has trained: what it keeps from now on
//   aggregate_add(changes, after, kept, 1, count);                   // and by how much that has grown
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULES_H
#define SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULES_H

#include <stddef.h>

#include "fedavg/rules/local/dyn.h"
#include "fedavg/rules/local/elastic.h"
#include "fedavg/rules/local/prox.h"
#include "fedavg/rules/local/scaffold.h"
#include "fedavg/rules/local/sgd.h"
#include "fedavg/rules/training.h"

// The rows of the table, in this order. The first is what a recipe has that names none.
#define LOCAL_RULES(X) X(sgd) X(prox) X(scaffold) X(dyn) X(elastic)

#define LOCAL_ROW(name) LOCAL_ROW_##name,
enum { LOCAL_RULES(LOCAL_ROW) LOCAL_RULE_COUNT };
#undef LOCAL_ROW

#ifdef __cplusplus
extern "C" {
#endif

extern const LocalRule *const local_rules[LOCAL_RULE_COUNT];

// LocalTurn.displacement divided by lr, which is FedNova's norm of a; where lr has fallen to 0, what it comes to as lr
// falls.
double local_reach(const Chosen *chosen, const Training *training, uint64_t steps);

LocalTurn local_turn(const Chosen *chosen, const Training *training, uint64_t steps, double size_ratio);

// LocalTurn.ahead of replicas.
double local_ahead(const Training *training);

// Whether the rule wants the gradient that the client begins with.
bool local_looks(const Chosen *chosen);

// What the rule adds to the client's gradients besides `shift`: pull on top of the weight decay.
double local_pull(const Chosen *chosen, const LocalTurn *turn);

// The vectors of one client, each (count).
typedef struct LocalVectors {
    const float *global, *own;  // as the round began, as the client trained them
    const float *kept;          // NULL: zeros
    const float *common;        // NULL: zeros
    const float *full_gradient; // NULL: zeros
    const float *velocity;      // that a replica begins with; NULL: zeros
} LocalVectors;

// shift (count) = the rule's shift - pull * global.
void local_shift(float *shift, const LocalVectors *at, const LocalTurn *turn, double pull, uint32_t row, size_t count);

// kept_after (count) = what the client keeps from now on. False when an element is not finite, or not below the limit
// in magnitude: its sum over all clients could overflow.
bool local_conclude(float *kept_after, const LocalVectors *at, const LocalTurn *turn, uint32_t row, double limit,
                    size_t count);

// Replicas: own (count), the first step taken, gives way to the spring. fits: whether all that they give is below the
// limit. changes (count) += what they give, in units of 2^-40. at->own is not read.
void local_exchange(float *own, const LocalVectors *at, const LocalTurn *turn, size_t count);
float local_replica(const LocalVectors *at, const LocalTurn *turn, size_t i); // the weight of which it gives
bool local_gifts_fit(const LocalVectors *at, const LocalTurn *turn, double limit, size_t count);
void local_add_gifts(int64_t *changes, const LocalVectors *at, const LocalTurn *turn, size_t count);

#ifdef __cplusplus
}
#endif

#endif
