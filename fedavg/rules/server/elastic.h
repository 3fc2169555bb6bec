// EASGD's centre (Zhang, Choromanska, LeCun, NIPS 2015, equation 4): it gets what the replicas give, exactly. The state
// is what a float has no place for.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_ELASTIC_H
#define SOUNDER_FEDAVG_RULES_SERVER_ELASTIC_H

#include "fedavg/rules/server/server_rule.h"

BOTH double server_elastic(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)common, (void)turn;
    if (update.change == 0) return weight;
    if (!(fabs(weight) < 0x1p22)) return NAN; // replicas stay below that: a round that comes here is refused by name
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
