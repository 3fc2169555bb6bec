#include "optimizer_rules.h"

#include <math.h>

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

static double cosine(const LrSchedule *schedule, double lr, uint32_t turn) {
    const double pi = 3.141592653589793, length = schedule->rounds - schedule->warm_up;
    return schedule->minimum + (lr - schedule->minimum) * (1 + cos(pi * turn / length)) / 2;
}

// turn: 0, 1, ... from the end of the warm-up.
static double scheduled(const LrSchedule *schedule, double lr, uint32_t turn) {
    switch ((LrKind)schedule->kind) {
    case LR_STEP:
        return lr * pow(schedule->gamma, turn / schedule->step);
    case LR_EXPONENTIAL:
        return lr * pow(schedule->gamma, turn);
    case LR_COSINE:
        return cosine(schedule, lr, turn);
    case LR_CONSTANT:
        break;
    }
    return lr;
}

float lr_at(const LrSchedule *schedule, float lr, uint32_t round) {
    if (round <= schedule->warm_up) return (float)((double)lr * round / schedule->warm_up);
    return (float)scheduled(schedule, (double)lr, round - 1 - schedule->warm_up);
}
