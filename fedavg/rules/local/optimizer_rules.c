#include "optimizer_rules.h"

#define ADAM_NUMBERS                                                                                                   \
    {                                                                                                                  \
        {.name = "beta1", .preset = 0.9, .minimum = 0, .maximum = 0.999999},                                           \
            {.name = "beta2", .preset = 0.999, .minimum = 0, .maximum = 0.999999}, {                                   \
            .name = "eps", .preset = 1e-8, .minimum = 1e-30, .maximum = 1                                              \
        }                                                                                                              \
    }

const OptimizerRule optimizer_rules[OPTIMIZER_COUNT] = {
    [OPTIMIZER_SGD] = {.text = {"sgd",
                                "stochastic gradient descent with --momentum and --weight-decay",
                                "as torch.optim.SGD",
                                {{.name = "nesterov", .words = {"no", "yes"}}}},
                       .states = 1},
    [OPTIMIZER_ADAM] = {.text = {"adam", "Adam; --weight-decay joins the gradient", "as torch.optim.Adam",
                                 ADAM_NUMBERS},
                        .states = 2},
    [OPTIMIZER_ADAMW] = {.text = {"adamw", "Adam; --weight-decay, 0.01 unless given, shrinks the weights",
                                  "as torch.optim.AdamW", ADAM_NUMBERS},
                         .states = 2},
};

Adam optimizer_adam(const Chosen *chosen) {
    const double *number = chosen->number;
    return (Adam){number[0], number[1], number[2], chosen->row == OPTIMIZER_ADAMW};
}
