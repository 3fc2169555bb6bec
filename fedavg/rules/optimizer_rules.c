#include "optimizer_rules.h"

const OptimizerRule optimizer_rules[OPTIMIZER_COUNT] = {
    [OPTIMIZER_SGD] =
        {.text = {"sgd", "stochastic gradient descent with --momentum and --weight-decay", "as torch.optim.SGD", {{0}}},
         .states = 1},
};
