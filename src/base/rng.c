#include "rng.h"

#include <math.h>

void rng_shuffle(uint32_t *items, size_t count, RngKey key) {
    RngBlock block = {{0}};
    uint32_t drawn = 0;
    for (size_t last = count; last-- > 1; drawn++) {
        if (drawn % 4 == 0) block = rng_block(key, drawn / 4, 0, 0, 0);
        uint32_t pick = rng_below(block.word[drawn % 4], (uint32_t)last + 1);
        uint32_t held = items[last];
        items[last] = items[pick];
        items[pick] = held;
    }
}

// Marsaglia and Tsang's method needs shape >= 1. For a smaller shape this draws gamma(shape + 1) and also returns a
// uniform number `unit`: gamma(shape) = gamma(shape + 1) unit^(1/shape), which the callers compute, one as a logarithm.
// Each attempt uses counters of its own, so that the number depends on key and index alone.
static double draw_gamma(double *unit, RngKey key, uint32_t index, double shape) {
    double boosted = shape < 1.0 ? shape + 1.0 : shape;
    double d = boosted - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (uint32_t attempt = 0;; attempt++) {
        double x = rng_normal_of(rng_block(key, index, 2, attempt, 0));
        double root = 1.0 + c * x;
        if (root <= 0.0) continue;
        double v = root * root * root;
        RngBlock uniform = rng_block(key, index, 2, attempt, 1);
        if (log(rng_open_unit(uniform.word[0], uniform.word[1])) >= 0.5 * x * x + d - d * v + d * log(v)) continue;
        *unit = rng_open_unit(uniform.word[2], uniform.word[3]);
        return d * v;
    }
}

double rng_gamma(RngKey key, uint32_t index, double shape) {
    double unit, number = draw_gamma(&unit, key, index, shape);
    return shape < 1.0 ? number * pow(unit, 1.0 / shape) : number;
}

double rng_log_gamma(RngKey key, uint32_t index, double shape) {
    double unit, number = draw_gamma(&unit, key, index, shape);
    return shape < 1.0 ? log(number) + log(unit) / shape : log(number);
}
