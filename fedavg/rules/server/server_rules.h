// The table of server rules, and the parent's loops over the weights on the CPU. The GPU's twins are in
// fedavg/gpu/cuda_rules.cu.
//
//   server_begin(state, index, chosen, count);                          // each state, before the first round
//   ServerTurn turn = server_turn(chosen, round, cohort, population);   // each round
//   server_apply(weights, &memory, &sums, &turn, chosen->row, count);
#ifndef SOUNDER_FEDAVG_RULES_SERVER_SERVER_RULES_H
#define SOUNDER_FEDAVG_RULES_SERVER_SERVER_RULES_H

#include <stddef.h>

#include "base/host_device.h"
#include "fedavg/rules/server/adagrad.h"
#include "fedavg/rules/server/adam.h"
#include "fedavg/rules/server/average.h"
#include "fedavg/rules/server/bmuf.h"
#include "fedavg/rules/server/dyn.h"
#include "fedavg/rules/server/elastic.h"
#include "fedavg/rules/server/momentum.h"
#include "fedavg/rules/server/nesterov.h"
#include "fedavg/rules/server/rounds_mean.h"
#include "fedavg/rules/server/scaffold.h"
#include "fedavg/rules/server/vote.h"

// The rows of the table, in this order. Recipes that name none have the first.
#define SERVER_RULES(X)                                                                                                \
    X(average)                                                                                                         \
    X(momentum) X(adagrad) X(adam) X(yogi) X(bmuf) X(scaffold) X(dyn) X(vote) X(rounds_mean) X(elastic) X(nesterov)

#define SERVER_ROW(name) SERVER_ROW_##name,
enum { SERVER_RULES(SERVER_ROW) SERVER_RULE_COUNT };

C_BEGIN

extern const ServerRule *const server_rules[SERVER_RULE_COUNT];

// The states of a rule, each (count).
typedef struct ServerMemory {
    ServerState *states[SERVER_STATES]; // as many as the rule has
    float *common;                      // NULL unless the rule sends the clients something
} ServerMemory;

// The sums of the workers, in units of 2^-40 (rules/sum/aggregate.h): one sum per worker, and a second one where
// clients keep vectors.
typedef struct ServerSums {
    const int64_t *const *updates, *const *changes; // (count) of each; changes: NULL without client state
    size_t count;
    double arrived;         // in (0, 1]: the sum of the shares that arrived, the divisor of the mean
    double factor;          // of the mean: exactly 1 unless the shares were cut (rules/combine/combine_rules.h)
    double *squared_length; // out: of the mean update; NULL if unused
} ServerSums;

// The states before the first round.
void server_begin(ServerState *state, int index, const Chosen *chosen, size_t count);

// cohort: clients whose updates arrived; population: all clients that can arrive. A round's turn is made once and read
// by all weights.
ServerTurn server_turn(const Chosen *chosen, uint32_t round, uint32_t cohort, uint32_t population);

// weights (count): one step of the rule in this row.
void server_apply(float *weights, const ServerMemory *memory, const ServerSums *sums, const ServerTurn *turn,
                  uint32_t row, size_t count);

// As server_apply, for the weights [first, end) of all. Returns the squared length of their mean update; 0 if it is
// unused.
double server_apply_part(float *weights, const ServerMemory *memory, const ServerSums *sums, const ServerTurn *turn,
                         uint32_t row, size_t first, size_t end);

C_END

#endif
