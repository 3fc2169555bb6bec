// FedProx (Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, MLSys 2020, Algorithm 2): every step is pulled back to the
// global weights. The pull is part of the gradient, before momentum.
//
//   step: g + mu (x - w)
//
// The paper solves the proximal problem inexactly by any method; here it is SGD with the number of steps of FedAvg.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_PROX_H
#define SOUNDER_FEDAVG_RULES_LOCAL_PROX_H

#include "fedavg/rules/local/local_rule.h"

#define local_prox_shift local_no_shift
#define local_prox_keep  local_same_state

#ifndef __cplusplus
// mu (x - w) is a pull: the engine adds mu to the weight decay and -mu w to the shift, and each step stays as it is.
static inline double prox_pull(const LocalTurn *turn) {
    return turn->number[0];
}

static const LocalRule prox_local_rule = {.text = {"prox",
                                                   "every step is pulled back to the global weights",
                                                   "Li et al., MLSys 2020, Algorithm 2",
                                                   {{.name = "mu", .preset = 0.01, .minimum = 0, .maximum = 1000}}},
                                          .pull = prox_pull};
#endif

#endif
