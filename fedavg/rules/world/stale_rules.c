#include "stale_rules.h"

#include <math.h>

#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/world/schedule.h"

const RuleText stale_rules[STALE_COUNT] = {
    [STALE_CONSTANT] = {"constant", "a stale update has full weight", "Dean et al., NIPS 2012", {{0}}},
    [STALE_POLYNOMIAL] = {"poly",
                          "an update of staleness s, 0 if it is fresh, counts (1 + s)^-a (FedAsync's Algorithm 1 can "
                          "be read as s = 1 for a fresh one)",
                          "Nguyen et al., AISTATS 2022; Xie, Koyejo, Gupta 2019",
                          {{.name = "a", .preset = 0.5, .minimum = 0, .maximum = 100}}},
    [STALE_HINGE] = {"hinge",
                     "up to staleness b an update counts whole, then 1 / (a (s - b) + 1)",
                     "Xie, Koyejo, Gupta 2019",
                     {{.name = "a", .preset = 10, .minimum = 0, .maximum = 1e6},
                      {.name = "b", .preset = 4, .minimum = 0, .maximum = 1e6}}},
    [STALE_INVERSE] = {"inverse", "an update of staleness s >= 1 counts 1 / s", "Zhang et al., IJCAI 2016", {{0}}},
    [STALE_COMPENSATED] =
        {"compensate",
         "a late gradient g is corrected for the movement of the weights since: + lambda g g (now - then)",
         "Zheng et al., ICML 2017 (DC-ASGD)",
         {{.name = "lambda", .preset = 0.04, .minimum = 0, .maximum = 1e6}}},
};

// By every rule a fresh update has the factor 1.
double stale_weight(const Chosen *rule, uint32_t staleness) {
    const double s = staleness, a = rule->number[0], b = rule->number[1];
    switch (rule->row) {
    case STALE_POLYNOMIAL:
        return pow(1 + s, -a);
    case STALE_HINGE:
        return s <= b ? 1 : 1 / (a * (s - b) + 1);
    case STALE_INVERSE:
        return s <= 1 ? 1 : 1 / s;
    default:
        return 1;
    }
}

bool stale_compensates(const Chosen *rule) {
    return rule->row == STALE_COMPENSATED && rule->number[0] != 0;
}

bool stale_wants_begun(const Chosen *rule, const Chosen *schedule) {
    return stale_compensates(rule) || schedule->number[BUFFERED_MIXES] == MIXES_MODELS;
}

AGGREGATE_VECTORS static size_t count_far(const float *begun, const float *now, double share, size_t count) {
    size_t far = 0;
    for (size_t i = 0; i < count; i++)
        far += fabs(((double)begun[i] - (double)now[i]) * share) < 0x1p22 ? 0 : 1u; // counts NaN as unfit, too
    return far;
}

bool stale_mix(int64_t *update, const float *begun, const float *now, double share, size_t count) {
    if (count_far(begun, now, share, count) > 0) return false;
    aggregate_add(update, begun, now, share, count);
    return true;
}

// In terms of updates: with g = -u / lr, the compensated update is u - (lambda / lr) u u (now - begun). An element that
// no longer fits becomes 0: converting a number that is too large to an integer is undefined in C, and the caller
// refuses the whole update anyway.
AGGREGATE_VECTORS static size_t compensate(int64_t *restrict update, const float *restrict begun,
                                           const float *restrict now, double factor, size_t count) {
    size_t unfit = 0;
    for (size_t i = 0; i < count; i++) {
        const double change = (double)update[i] / AGGREGATE_UNIT, moved = (double)now[i] - (double)begun[i];
        const double turned = change - factor * change * change * moved;
        const bool fits = fabs(turned) < 0x1p20;
        unfit += fits ? 0 : 1u;
        update[i] = fits ? llrint(turned * AGGREGATE_UNIT) : 0;
    }
    return unfit;
}

bool stale_compensate(int64_t *update, const float *begun, const float *now, const Chosen *rule, double lr,
                      size_t count) {
    return lr == 0 || compensate(update, begun, now, rule->number[0] / lr, count) == 0;
}
