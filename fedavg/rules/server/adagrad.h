// FedAdagrad (Reddi et al., ICLR 2021, Algorithm 2): the step of a weight shrinks with the sum of its squared mean
// updates.
//
//   V += D^2;  w += lr D / (sqrt V + tau)
//
// V starts at tau^2, the least value that line 1 of the paper allows; start=0 is Flower's.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_ADAGRAD_H
#define SOUNDER_FEDAVG_RULES_SERVER_ADAGRAD_H

#include "fedavg/rules/server/server_rule.h"

BOTH double server_adagrad(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    const double lr = turn->number[0], tau = turn->number[1];
    state->real += update.mean * update.mean;
    return weight + server_quotient(lr * update.mean, state->real, tau);
}

#ifndef __cplusplus
static inline double adagrad_start(const ServerTurn *turn, int state) {
    (void)state;
    return isnan(turn->number[2]) ? turn->number[1] * turn->number[1] : turn->number[2];
}

static const ServerRule adagrad_server_rule = {
    .text = {"adagrad",
             "steps shrink by the squares of all updates so far",
             "Reddi et al., ICLR 2021, Algorithm 2",
             {{.name = "lr", .preset = 0.1, .minimum = 0, .maximum = 1000},
              {.name = "tau", .preset = 1e-3, .minimum = 1e-12, .maximum = 1},
              {.name = "start", .preset = NAN, .minimum = 0, .maximum = 1000, .derived = "tau^2"}}},
    .states = 1,
    .start = adagrad_start};
#endif

#endif
