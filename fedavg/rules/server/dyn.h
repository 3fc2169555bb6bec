// FedDyn's server (Acar et al., ICLR 2021, Algorithm 1). The state is the exact sum of all clients' u_k; the paper's h
// is -alpha times its mean.
//
//   w += D + mean of u_k over all clients
#ifndef SOUNDER_FEDAVG_RULES_SERVER_DYN_H
#define SOUNDER_FEDAVG_RULES_SERVER_DYN_H

#include "fedavg/rules/server/server_rule.h"

// The clients' state is divided by alpha (local/dyn.h), which is why alpha is no factor of the second term.
BOTH double server_dyn(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common;
    state->whole += update.change;
    return weight + update.mean + (double)state->whole * 0x1p-40 / turn->population;
}

#ifndef __cplusplus
static const ServerRule dyn_server_rule = {
    .text = {"dyn", "the half of the local rule of this name", "Acar et al., ICLR 2021, Algorithm 1", {{0}}},
    .states = 1,
    .sums = true};
#endif

#endif
