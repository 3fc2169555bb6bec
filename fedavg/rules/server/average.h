// FedAvg (McMahan et al., AISTATS 2017): the weights move by the mean update, times a learning rate that is 1 in the
// paper.
//
//   w += lr D
#ifndef SOUNDER_FEDAVG_RULES_SERVER_AVERAGE_H
#define SOUNDER_FEDAVG_RULES_SERVER_AVERAGE_H

#include "fedavg/rules/server/server_rule.h"

BOTH double server_average(double weight, Update update, ServerState *state, float *common, const ServerTurn *turn) {
    (void)state, (void)common;
    return weight + turn->number[0] * update.mean; // exact for lr = 1
}

#ifndef __cplusplus
static const ServerRule average_server_rule = {.text = {"average",
                                                        "the weights move by LR times the mean update",
                                                        "McMahan et al., AISTATS 2017",
                                                        {{.name = "lr", .preset = 1, .minimum = 0, .maximum = 1000}}}};
#endif

#endif
