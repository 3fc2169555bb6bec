// The one- and two-dimensional transforms between coefficients and values at points that winograd.c explains.
#ifndef SOUNDER_NN_POINTS_H
#define SOUNDER_NN_POINTS_H

#include "nn/lanes.h"

enum { MOST_PAIRS = 3, MOST_POINTS = 2 * MOST_PAIRS + 2, MOST_POINTS_2D = MOST_POINTS * MOST_POINTS };

// The points 0, +at[0], -at[0], +at[1], ... and infinity, and polynomials in squares, lowest coefficient first. Every
// use is inlined, where all of this is constants.
typedef struct PointSet {
    int pairs;
    float at[MOST_PAIRS];
    float zeros[MOST_PAIRS + 1];              // with all squares of `at` as zeros: (y - at[0]^2) (y - at[1]^2) ...
    float others[MOST_PAIRS][MOST_PAIRS];     // with those of all pairs but this one
    float weight_of_zero, weight[MOST_PAIRS]; // one over what the point's Lagrange polynomial is there
} PointSet;

// Of the choices we tried these round least, for 3x3 and 5x5 kernels: outputs err by 2.3 and 5.5 times what a direct
// convolution in floats does. Lavin and Gray's 1 and 2 in place of 2/3 and 3/2: more than 4 times.
#define SQUARE_A (4.0f / 9)
#define SQUARE_B (9.0f / 4)
static const PointSet SIX_POINTS = {
    2,
    {2.0f / 3, 3.0f / 2},
    {1, -(SQUARE_A + SQUARE_B), 1},
    {{-SQUARE_B, 1}, {-SQUARE_A, 1}},
    1,
    {1 / (2 * SQUARE_A * (SQUARE_A - SQUARE_B)), 1 / (2 * SQUARE_B * (SQUARE_B - SQUARE_A))}};
static const PointSet EIGHT_POINTS = {3,
                                      {0.5f, 1, 2},
                                      {-1, 5.25f, -5.25f, 1},
                                      {{4, -5, 1}, {1, -4.25f, 1}, {0.25f, -1.25f, 1}},
                                      -1,
                                      {32.0f / 45, -2.0f / 9, 1.0f / 90}};
#undef SQUARE_A
#undef SQUARE_B

// For kernels of this side: K + 3 points give 4 outputs.
ALWAYS_INLINE const PointSet *points_for(int kernel) {
    return kernel == 5 ? &EIGHT_POINTS : &SIX_POINTS;
}

ALWAYS_INLINE int points_of(const PointSet *set) {
    return 2 * set->pairs + 2;
}

// Values of the polynomial with n <= 5 coefficients, lowest first, at the points.
ALWAYS_INLINE void evaluate(LooseLanes *values, size_t value_step, const LooseLanes *coefficients, size_t step,
                            const PointSet *set, int n) {
#pragma GCC unroll 4
    for (int p = 0; p < set->pairs; p++) {
        const float square = set->at[p] * set->at[p];
        Lanes even = coefficients[0], odd = coefficients[step];
        float power = 1;
#pragma GCC unroll 4
        for (int k = 2; k < n; k += 2) {
            power *= square;
            even += power * coefficients[(size_t)k * step];
            if (k + 1 < n) odd += power * coefficients[(size_t)(k + 1) * step];
        }
        values[(size_t)(2 * p + 1) * value_step] = even + set->at[p] * odd;
        values[(size_t)(2 * p + 2) * value_step] = even - set->at[p] * odd;
    }
    values[0] = coefficients[0];
    values[(size_t)(2 * set->pairs + 1) * value_step] = coefficients[(size_t)(n - 1) * step];
}

ALWAYS_INLINE void evaluate_transposed(LooseLanes *sums, size_t sum_step, const LooseLanes *values, size_t step,
                                       const PointSet *set, int n) {
    Lanes even[MOST_PAIRS], odd[MOST_PAIRS];
    float power[MOST_PAIRS] = {1, 1, 1};
#pragma GCC unroll 4
    for (int p = 0; p < set->pairs; p++) {
        const Lanes plus = values[(size_t)(2 * p + 1) * step], minus = values[(size_t)(2 * p + 2) * step];
        even[p] = plus + minus;
        odd[p] = plus - minus;
    }
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        Lanes sum = power[0] * (k % 2 == 0 ? even[0] : odd[0]);
#pragma GCC unroll 4
        for (int p = 1; p < set->pairs; p++)
            sum += power[p] * (k % 2 == 0 ? even[p] : odd[p]);
        if (k == 0) sum += values[0];
        if (k == n - 1) sum += values[(size_t)(2 * set->pairs + 1) * step];
        sums[(size_t)k * sum_step] = sum;
#pragma GCC unroll 4
        for (int p = 0; p < set->pairs; p++)
            power[p] *= set->at[p];
    }
}

// Lagrange's and Newton's polynomials without their denominators, which the points' weights put on the kernel instead.
// With Z(y) the polynomial of `zeros` and R(y) that of the pair's `others`: Z(x^2) for 0, x (x + a) R(x^2) and
// x (x - a) R(x^2) for a and -a, and x Z(x^2) for infinity. n is that of the points.
ALWAYS_INLINE void interpolate(LooseLanes *coefficients, size_t coefficient_step, const LooseLanes *values, size_t step,
                               const PointSet *set, int n) {
    Lanes even[MOST_PAIRS], odd[MOST_PAIRS];
    const Lanes zero = values[0], infinity = values[(size_t)(n - 1) * step];
#pragma GCC unroll 4
    for (int p = 0; p < set->pairs; p++) {
        const Lanes plus = values[(size_t)(2 * p + 1) * step], minus = values[(size_t)(2 * p + 2) * step];
        even[p] = plus + minus;
        odd[p] = set->at[p] * (plus - minus);
    }
    coefficients[0] = set->zeros[0] * zero;
#pragma GCC unroll 4
    for (int k = 1; k <= set->pairs; k++) {
        Lanes of_odd = set->zeros[k - 1] * infinity, of_even = set->zeros[k] * zero;
#pragma GCC unroll 4
        for (int p = 0; p < set->pairs; p++) {
            of_odd += set->others[p][k - 1] * odd[p];
            of_even += set->others[p][k - 1] * even[p];
        }
        coefficients[(size_t)(2 * k - 1) * coefficient_step] = of_odd;
        coefficients[(size_t)(2 * k) * coefficient_step] = of_even;
    }
    coefficients[(size_t)(n - 1) * coefficient_step] = infinity;
}

ALWAYS_INLINE void interpolate_transposed(LooseLanes *values, size_t value_step, const LooseLanes *inputs, size_t step,
                                          const PointSet *set, int n) {
    Lanes zero = set->zeros[0] * inputs[0], infinity = inputs[(size_t)(n - 1) * step];
#pragma GCC unroll 4
    for (int k = 1; k <= set->pairs; k++) {
        zero += set->zeros[k] * inputs[(size_t)(2 * k) * step];
        infinity += set->zeros[k - 1] * inputs[(size_t)(2 * k - 1) * step];
    }
    values[0] = zero;
    values[(size_t)(n - 1) * value_step] = infinity;
#pragma GCC unroll 4
    for (int p = 0; p < set->pairs; p++) {
        Lanes even = set->others[p][0] * inputs[2 * step], odd = set->others[p][0] * inputs[step];
#pragma GCC unroll 4
        for (int k = 2; k <= set->pairs; k++) {
            even += set->others[p][k - 1] * inputs[(size_t)(2 * k) * step];
            odd += set->others[p][k - 1] * inputs[(size_t)(2 * k - 1) * step];
        }
        values[(size_t)(2 * p + 1) * value_step] = even + set->at[p] * odd;
        values[(size_t)(2 * p + 2) * value_step] = even - set->at[p] * odd;
    }
}

// What the kernel's value at the point is multiplied by.
ALWAYS_INLINE float point_weight(const PointSet *set, int point) {
    if (point == 0) return set->weight_of_zero;
    return point > 2 * set->pairs ? 1 : set->weight[(point - 1) / 2];
}

typedef void Transform(LooseLanes *out, size_t out_step, const LooseLanes *in, size_t in_step, const PointSet *set,
                       int n);

// A square of Lanes in memory: element (row, column) is at[row * row_step + column * column_step].
typedef struct Square {
    LooseLanes *at;
    size_t row_step, column_step;
} Square;

// out (outs,outs) = the transform of the columns and then of the rows of in (ins,ins). The loops stay loops: unrolled,
// each place of `out` would get a pointer of its own.
ALWAYS_INLINE void transform_2d(Transform *transform, Square out, int outs, Square in, int ins, const PointSet *set,
                                int n) {
    Lanes half[MOST_POINTS_2D]; // (outs, ins)
#pragma GCC unroll 1
    for (int column = 0; column < ins; column++)
        transform(half + column, (size_t)ins, in.at + (size_t)column * in.column_step, in.row_step, set, n);
#pragma GCC unroll 1
    for (int row = 0; row < outs; row++)
        transform(out.at + (size_t)row * out.row_step, out.column_step, half + row * ins, 1, set, n);
}

#endif
