#include "training.h"

#include <math.h>

// turn: 0, 1, ... from the end of the warm-up.
static double scheduled(const LrSchedule *schedule, double lr, uint32_t turn) {
    const double pi = 3.141592653589793, length = schedule->rounds - schedule->warm_up;
    switch ((LrKind)schedule->kind) {
    case LR_STEP:
        return lr * pow(schedule->gamma, turn / schedule->step);
    case LR_EXPONENTIAL:
        return lr * pow(schedule->gamma, turn);
    case LR_COSINE:
        return schedule->minimum + (lr - schedule->minimum) * (1 + cos(pi * turn / length)) / 2;
    case LR_CONSTANT:
        break;
    }
    return lr;
}

// Warm-up rises linearly and reaches the full rate in its last round; the schedule's own turn 0 is the round after it.
// The computation is in doubles and rounded once, so that the rate has the bits of the formula.
float lr_at(const LrSchedule *schedule, float lr, uint32_t round) {
    if (round <= schedule->warm_up) return (float)((double)lr * round / schedule->warm_up);
    return (float)scheduled(schedule, (double)lr, round - 1 - schedule->warm_up);
}
