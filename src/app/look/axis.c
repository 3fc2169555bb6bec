#include "axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Widens an empty or undefined span, so that an axis can be drawn.
static void mend(double *low, double *high) {
    const double most = 1e300;
    *low = fmax(fmin(*low, most), -most);
    *high = fmax(fmin(*high, most), -most);
    if (*high - *low > 1e-12 * fmax(fabs(*low), fabs(*high))) return;
    const double room = *low != 0 ? fabs(*low) / 10 : 0.5;
    *low -= room;
    *high += room;
}

// Returns the smallest of 1, 2 and 5 times a power of ten that divides the span into at most `wanted` steps.
static double nice_step(double span, int wanted) {
    const double power = pow(10, floor(log10(span / wanted)));
    for (int i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};
        if (span / (steps[i] * power) <= wanted * (1 + 1e-9)) return steps[i] * power;
    }
    return 10 * power;
}

static void add_tick(Axis *axis, double value) {
    const double room = 1e-9 * (axis->high - axis->low);
    if (axis->count < AXIS_MOST_TICKS && value >= axis->low - room && value <= axis->high + room)
        axis->ticks[axis->count++] = value;
}

static void put_ticks(Axis *axis) {
    axis->count = 0;
    const double first = ceil(axis->low / axis->step - 1e-9);
    for (int i = 0; i < AXIS_MOST_TICKS; i++)
        add_tick(axis, (first + i) * axis->step + 0.0); // + 0.0 turns -0 into 0
}

void axis_between(Axis *axis, double low, double high, int wanted, bool whole) {
    mend(&low, &high);
    *axis = (Axis){.low = low, .high = high, .step = nice_step(high - low, wanted)};
    if (whole) axis->step = fmax(axis->step, 1);
    put_ticks(axis);
}

void axis_around(Axis *axis, double low, double high, double least, double most, int wanted) {
    low = fmax(low, least);
    high = fmin(high, most);
    mend(&low, &high);
    *axis = (Axis){.step = nice_step(high - low, wanted)};
    axis->low = fmax(floor(low / axis->step + 1e-9) * axis->step, least);
    axis->high = fmin(ceil(high / axis->step - 1e-9) * axis->step, most);
    put_ticks(axis);
}

void axis_logarithmic(Axis *axis, double low, double high, int wanted) {
    low = fmax(low, 1e-300);
    high = fmin(fmax(high, low * 1.02), 1e300);
    if (high / low < 4) {
        axis_between(axis, low, high, wanted, false);
        axis->logarithmic = true;
        return;
    }
    *axis = (Axis){.low = low, .high = high, .logarithmic = true};
    const int first = (int)floor(log10(low)), last = (int)ceil(log10(high)), powers = last - first;
    const int every = (powers + wanted - 1) / wanted;
    for (int power = first; power <= last; power += every) {
        add_tick(axis, pow(10, power));
        if (3 * powers > 2 * wanted) continue;
        add_tick(axis, 2 * pow(10, power));
        add_tick(axis, 5 * pow(10, power));
    }
}

double axis_share(const Axis *axis, double value) {
    const double far = 4;
    if (axis->logarithmic && value <= 0) return -far;
    const double share = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                           : (value - axis->low) / (axis->high - axis->low);
    return fmax(fmin(share, far), -far);
}

void axis_label(char text[AXIS_LABEL_BYTES], const Axis *axis, int i) {
    const double value = axis->ticks[i], size = fmax(fabs(axis->low), fabs(axis->high));
    if (axis->step == 0 || size >= 1e7 || axis->step < 1e-6) {
        snprintf(text, AXIS_LABEL_BYTES, "%.6g", value);
        return;
    }
    const int decimals = (int)fmax(0, -floor(log10(axis->step) + 1e-9));
    snprintf(text, AXIS_LABEL_BYTES, "%.*f", decimals, value);
    const size_t whole = strcspn(text, ".");
    if (size < 10000) return;
    for (size_t at = whole; at > 3 && text[at - 4] != '-'; at -= 3) {
        memmove(text + at - 2, text + at - 3, strlen(text + at - 3) + 1);
        text[at - 3] = ',';
    }
}
