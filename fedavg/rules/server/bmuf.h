// Blockwise model-update filtering (Chen, Huo, ICASSP 2016): D is the gradient of a block (a round), filtered over
// blocks.
//
//   Delta = momentum Delta + lr D;  W += Delta
//
// The clients of the next block start from W (classical block momentum) or from W + momentum Delta (Nesterov's). The
// shared weights are that starting point, and they are what is evaluated; W itself is the shared weights minus the
// look-ahead.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_BMUF_H
#define SOUNDER_FEDAVG_RULES_SERVER_BMUF_H

#include "fedavg/rules/server/server_rule.h"

// derived: the momentum. Nesterov's weights are stored with the look-ahead of their own momentum: the old one is
// subtracted, Delta is added, and the new look-ahead after it.
BOTH double server_bmuf(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    const double momentum = turn->derived[0], lr = turn->number[1];
    const double before = state->real;
    state->real = momentum * before + lr * update.mean;
    if (turn->number[2] == 0) return weight + state->real;
    return weight - momentum * before + state->real + momentum * state->real;
}

#ifndef __cplusplus
// 1 - 1/cohort is the paper's choice: then a block moves the weights in the long run by the sum of the cohort's
// updates.
static inline void bmuf_prepare(ServerTurn *turn) {
    turn->derived[0] = isnan(turn->number[0]) ? 1 - 1.0 / turn->cohort : turn->number[0];
}

static const ServerRule bmuf_server_rule = {
    .text = {"bmuf",
             "block momentum; with nesterov clients and model are a momentum ahead",
             "Chen, Huo, ICASSP 2016",
             {{.name = "momentum", .preset = NAN, .minimum = 0, .maximum = 1, .derived = "1 - 1/cohort"},
              {.name = "lr", .preset = 1, .minimum = 0, .maximum = 1000},
              {.name = "kind", .words = {"classical", "nesterov"}}}},
    .states = 1,
    .prepare = bmuf_prepare};
#endif

#endif
