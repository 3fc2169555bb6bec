// EASGD's centre (Zhang, Choromanska, LeCun, NIPS 2015, equation 4): it receives the sum of all e_k, exactly. The state
// holds the part of the centre that does not fit into a float.
//
//   c += sum of e_k over the cohort
#ifndef SOUNDER_FEDAVG_RULES_SERVER_ELASTIC_H
#define SOUNDER_FEDAVG_RULES_SERVER_ELASTIC_H

#include "fedavg/rules/server/server_rule.h"

BOTH double server_elastic(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common, (void)turn;
    if (update.change == 0) return weight;
    if (!(fabs(weight) < 0x1p22)) return NAN; // replicas stay below this; the NaN has the round refused with a message
    const int64_t centre = (int64_t)rint(weight * 0x1p40) + state->whole + update.change;
    const float rounded = (float)((double)centre * 0x1p-40);
    state->whole = centre - (int64_t)rint((double)rounded * 0x1p40);
    return (double)rounded;
}

#ifndef __cplusplus
static const ServerRule elastic_server_rule = {
    .text = {"elastic", "the half of the local rule of this name", "Zhang, Choromanska, LeCun, NIPS 2015", {{0}}},
    .states = 1,
    .sums = true};
#endif

#endif
