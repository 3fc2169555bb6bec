// The model is the mean of the weights after each round (as AFL returns; Polyak, Juditsky 1992), while every round
// continues from the last round's weights.
//
//   w_t+1 = w_t + lr D;  model = mean(w_1, ..., w_t+1)
//
// State 0 is the mean, state 1 is w. The shared weights are w while clients train, and the mean between rounds.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_ROUNDS_MEAN_H
#define SOUNDER_FEDAVG_RULES_SERVER_ROUNDS_MEAN_H

#include "fedavg/rules/server/server_rule.h"

// In the first round state 1 holds no weights yet: the model itself is w. The mean is updated by differences, which
// needs no sum that grows with the rounds.
BOTH double server_rounds_mean(double weight, Update update, ServerState *state, float *common,
                               const ServerTurn *turn) {
    (void)common;
    const double next = (turn->round == 1 ? weight : state[1].real) + turn->number[0] * update.mean;
    state[0].real += (next - state[0].real) / turn->round;
    state[1].real = next;
    return state[0].real;
}

#ifndef __cplusplus
static const ServerRule rounds_mean_server_rule = {
    .text = {"rounds-mean",
             "the model is the mean over all rounds; each round continues from the last one's weights",
             "Mohri, Sivek, Suresh, ICML 2019",
             {{.name = "lr", .preset = 1, .minimum = 0, .maximum = 1000}}},
    .states = 2,
    .trains_state = 1};
#endif

#endif
