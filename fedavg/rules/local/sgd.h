// FedAvg's clients (McMahan et al., AISTATS 2017): no additional term, no client state.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_SGD_H
#define SOUNDER_FEDAVG_RULES_LOCAL_SGD_H

#include "fedavg/rules/local/local_rule.h"

#define local_sgd_shift local_no_shift
#define local_sgd_keep  local_same_state

#ifndef __cplusplus
static const LocalRule sgd_local_rule = {
    .text = {"sgd", "plain local training", "McMahan et al., AISTATS 2017", {{0}}}};
#endif

#endif
