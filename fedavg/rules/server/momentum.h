// FedAvgM (Hsu, Qi, Brown 2019): heavy-ball momentum over rounds, with the mean update in place of the gradient.
//
//   v = beta v + D;  w += lr v               with Nesterov: w += lr (D + beta v)
#ifndef SOUNDER_FEDAVG_RULES_SERVER_MOMENTUM_H
#define SOUNDER_FEDAVG_RULES_SERVER_MOMENTUM_H

#include "fedavg/rules/server/server_rule.h"

BOTH double server_momentum(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    const double beta = turn->number[0], lr = turn->number[1];
    state->real = beta * state->real + update.mean;
    return weight + lr * (turn->number[2] != 0 ? update.mean + beta * state->real : state->real);
}

#ifndef __cplusplus
static const ServerRule momentum_server_rule = {.text = {"momentum",
                                                         "momentum over the rounds",
                                                         "Hsu, Qi, Brown 2019",
                                                         {{.name = "beta", .preset = 0.9, .minimum = 0, .maximum = 1},
                                                          {.name = "lr", .preset = 1, .minimum = 0, .maximum = 1000},
                                                          {.name = "nesterov", .words = {"no", "yes"}}}},
                                                .states = 1};
#endif

#endif
