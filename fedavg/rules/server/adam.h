// FedAdam and FedYogi (Reddi et al., ICLR 2021, Algorithm 2): a moment of the mean update and a moment of its square.
// Adam forgets the second moment at a constant rate; Yogi changes it by steps in proportion to the square.
//
//   m = beta1 m + (1 - beta1) D
//   V = beta2 V + (1 - beta2) D^2                   Adam
//   V = V - (1 - beta2) D^2 sign(V - D^2)           Yogi
//   w += lr m / (sqrt V + tau)
//
// As in the paper, V starts at tau^2 and the moments' start is not corrected. With bias-correction=yes both moments are
// divided by 1 - beta^round and V starts at zero, as in Adam (Kingma, Ba 2015, Algorithm 1, and torch.optim.Adam).
// bias-correction=folded puts both divisions into the learning rate, as section 2 of that paper does: then tau weighs
// more in the first rounds, by a factor of 1 / sqrt(1 - beta2^round). bias-correction=flower is folded with the
// exponent round + 1, as in Flower's FedAdam. start= sets the initial V in all cases.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_ADAM_H
#define SOUNDER_FEDAVG_RULES_SERVER_ADAM_H

#include "fedavg/rules/server/server_rule.h"

enum { ADAM_TAU = 3, ADAM_CORRECTION, ADAM_BEGINNING }; // after lr, beta1 and beta2
enum { CORRECTION_NO, CORRECTION_YES, CORRECTION_FOLDED, CORRECTION_FLOWER };

// derived: the factors of m and V.
BOTH double adam_step(double weight, const ServerState *state, const ServerTurn *turn) {
    const double lr = turn->number[0], tau = turn->number[ADAM_TAU];
    return weight + server_quotient(lr * (state[0].real * turn->derived[0]), state[1].real * turn->derived[1], tau);
}

BOTH double server_adam(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    const double beta1 = turn->number[1], beta2 = turn->number[2];
    state[0].real = beta1 * state[0].real + (1 - beta1) * update.mean;
    state[1].real = beta2 * state[1].real + (1 - beta2) * (update.mean * update.mean);
    return adam_step(weight, state, turn);
}

BOTH double server_yogi(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    const double beta1 = turn->number[1], beta2 = turn->number[2], square = update.mean * update.mean;
    const double toward = (1 - beta2) * square, held = state[1].real;
    state[0].real = beta1 * state[0].real + (1 - beta1) * update.mean;
    state[1].real = held > square ? held - toward : held < square ? held + toward : held;
    return adam_step(weight, state, turn);
}

#ifndef __cplusplus
// Folded, the learning rate has both corrections: 1 / (1 - beta1^t) times the root of 1 - beta2^t, which is derived[0]
// / sqrt(derived[1]) here.
static inline void adam_prepare(ServerTurn *turn) {
    const int correction = (int)turn->number[ADAM_CORRECTION];
    const double exponent = turn->round + (correction == CORRECTION_FLOWER ? 1.0 : 0);
    for (int moment = 0; moment < 2; moment++)
        turn->derived[moment] = correction == CORRECTION_NO ? 1 : 1 / (1 - pow(turn->number[1 + moment], exponent));
    if (correction >= CORRECTION_FOLDED) turn->derived[0] /= sqrt(turn->derived[1]), turn->derived[1] = 1;
}

static inline double adam_start(const ServerTurn *turn, int state) {
    const double tau = turn->number[ADAM_TAU], start = turn->number[ADAM_BEGINNING];
    if (state == 0) return 0;
    if (!isnan(start)) return start;
    return turn->number[ADAM_CORRECTION] == CORRECTION_NO ? tau * tau : 0;
}

#define ADAM_NUMBERS(rate)                                                                                             \
    {                                                                                                                  \
        {.name = "lr", .preset = rate, .minimum = 0, .maximum = 1000},                                                 \
            {.name = "beta1", .preset = 0.9, .minimum = 0, .maximum = 0.999999},                                       \
            {.name = "beta2", .preset = 0.99, .minimum = 0, .maximum = 0.999999},                                      \
            {.name = "tau", .preset = 1e-3, .minimum = 1e-12, .maximum = 1},                                           \
            {.name = "bias-correction", .words = {"no", "yes", "folded", "flower"}}, {                                 \
            .name = "start", .preset = NAN, .minimum = 0, .maximum = 1000, .derived = "tau^2, 0 with bias-correction"  \
        }                                                                                                              \
    }

static const ServerRule adam_server_rule = {
    .text = {"adam", "Adam on the mean update; bias-correction counts rounds, also those without a step",
             "Reddi et al., ICLR 2021, Algorithm 2", ADAM_NUMBERS(0.1)},
    .states = 2,
    .prepare = adam_prepare,
    .start = adam_start};

static const ServerRule yogi_server_rule = {.text = {"yogi", "Yogi on the mean update; its rounds count as adam's do",
                                                     "Reddi et al., ICLR 2021, Algorithm 2", ADAM_NUMBERS(0.01)},
                                            .states = 2,
                                            .prepare = adam_prepare,
                                            .start = adam_start};
#endif

#endif
