// Delayed Nesterov momentum (Liu et al., arXiv 2401.09135, Algorithm 3, with the activation c = 0): every update moves
// the weights by its own part at once, and the momentum joins once in N updates, as the mean of those N.
//
//   B += D
//   w += lr D / N                                   in N - 1 rounds of N
//   m = beta m + B / N;  B = 0;  w += lr (D / N + beta m)         in every Nth round
//
// N = 1 is Nesterov's momentum, to the bit that of momentum.h. State 0 is m, state 1 is B.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_NESTEROV_H
#define SOUNDER_FEDAVG_RULES_SERVER_NESTEROV_H

#include "fedavg/rules/server/server_rule.h"

enum { NESTEROV_BETA, NESTEROV_LR, NESTEROV_EVERY };

// derived: N, and 1 in the rounds in which the momentum joins.
BOTH double server_nesterov(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    const double beta = turn->number[NESTEROV_BETA], lr = turn->number[NESTEROV_LR], every = turn->derived[0];
    const double own = update.mean / every;
    state[1].real += update.mean;
    if (turn->derived[1] == 0) return weight + lr * own;
    state[0].real = beta * state[0].real + state[1].real / every;
    state[1].real = 0;
    return weight + lr * (own + beta * state[0].real);
}

#ifndef __cplusplus
static inline void nesterov_prepare(ServerTurn *turn) {
    const double every = isnan(turn->number[NESTEROV_EVERY]) ? 1 : turn->number[NESTEROV_EVERY];
    turn->derived[0] = every;
    turn->derived[1] = turn->round % (uint32_t)every == 0;
}

static const ServerRule nesterov_server_rule = {
    .text = {"nesterov",
             "Nesterov's momentum over the rounds, which joins once in every= of them; every counts rounds, also those "
             "without a step",
             "Liu et al., arXiv 2401.09135, 2024, Algorithm 3",
             {[NESTEROV_BETA] = {.name = "beta", .preset = 0.9, .minimum = 0, .maximum = 1},
              [NESTEROV_LR] = {.name = "lr", .preset = 1, .minimum = 0, .maximum = 1000},
              [NESTEROV_EVERY] = {.name = "every",
                                  .preset = NAN,
                                  .minimum = 1,
                                  .maximum = 1e6,
                                  .derived = "1, M in schedule buffered",
                                  .whole = true}}},
    .states = 2,
    .prepare = nesterov_prepare};
#endif

#endif
