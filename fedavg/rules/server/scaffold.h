// SCAFFOLD's server (Karimireddy et al., ICML 2020, Algorithm 1). The state is the exact sum of all clients' c_k; c is
// their mean.
//
//   w += lr D;  c += sum over the cohort of the changes of c_k / all clients
#ifndef SOUNDER_FEDAVG_RULES_SERVER_SCAFFOLD_H
#define SOUNDER_FEDAVG_RULES_SERVER_SCAFFOLD_H

#include "fedavg/rules/server/server_rule.h"

// The state is an integer in units of 2^-40, so that c is exactly the mean of what clients hold, whatever their order.
// It becomes a float only in the message.
BOTH double server_scaffold(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    state->whole += update.change;
    *common = (float)((double)state->whole * 0x1p-40 / turn->population);
    return weight + turn->number[0] * update.mean;
}

#ifndef __cplusplus
static const ServerRule scaffold_server_rule = {.text = {"scaffold",
                                                         "the half of the local rule of this name",
                                                         "Karimireddy et al., ICML 2020, Algorithm 1",
                                                         {{.name = "lr", .preset = 1, .minimum = 0, .maximum = 1000}}},
                                                .states = 1,
                                                .sums = true,
                                                .tells = true};
#endif

#endif
