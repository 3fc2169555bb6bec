// Majority vote over signs (signSGD with majority vote: Bernstein, Wang, Azizzadenesheli, Anandkumar, ICML 2018):
//
//   w += lr sign(sum over the cohort of sign(d_k))
//
// The clients' half is send/sign.c. With equal shares the sum is exact, and a tie moves nothing. The paper votes on
// gradients of every step; here the cohort votes on updates of a round.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_VOTE_H
#define SOUNDER_FEDAVG_RULES_SERVER_VOTE_H

#include "fedavg/rules/server/server_rule.h"

// Two comparisons instead of a quotient: a tie gives 0, and so does a mean that is not a number.
BOTH double server_vote(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)state, (void)common;
    const double sign = (update.mean > 0 ? 1.0 : 0.0) - (update.mean < 0 ? 1.0 : 0.0);
    return weight + turn->number[0] * sign;
}

#ifndef __cplusplus
static const ServerRule vote_server_rule = {.text = {"vote",
                                                     "the weights move by lr where the majority of the signs points",
                                                     "Bernstein et al., ICML 2018 (signSGD)",
                                                     {{.name = "lr", .preset = 0.001, .minimum = 0, .maximum = 1000}}}};
#endif

#endif
