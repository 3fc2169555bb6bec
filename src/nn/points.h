// The one- and two-dimensional transforms between coefficients and values at six points that winograd.c explains.
#ifndef SOUNDER_NN_POINTS_H
#define SOUNDER_NN_POINTS_H

#include "nn/lanes.h"

enum { POINTS = 6, POINTS_2D = POINTS * POINTS };

// The finite points are 0, +-POINT_A, +-POINT_B, with POINT_A * POINT_B = 1. Of the choices we tried, 2/3 and 3/2 round
// least: outputs err by 1.9 times (K = 5) and 2.6 times (K = 3) what a direct convolution in floats does; with Lavin
// and Gray's 1 and 2 it is more than 4 times.
#define POINT_A  (2.0f / 3.0f)
#define POINT_B  (3.0f / 2.0f)
#define SQUARE_A (POINT_A * POINT_A)
#define SQUARE_B (POINT_B * POINT_B)

// Values of the polynomial with n <= 5 coefficients, lowest first, at the six points.
ALWAYS_INLINE void evaluate(LooseLanes *values, size_t value_step, const LooseLanes *coefficients, size_t step, int n) {
    Lanes even_a = coefficients[0], even_b = even_a, odd_a = coefficients[step], odd_b = odd_a;
    float square_a = 1, square_b = 1;
#pragma GCC unroll 4
    for (int k = 2; k < n; k += 2) {
        square_a *= SQUARE_A;
        square_b *= SQUARE_B;
        even_a += square_a * coefficients[(size_t)k * step];
        even_b += square_b * coefficients[(size_t)k * step];
        if (k + 1 == n) continue;
        odd_a += square_a * coefficients[(size_t)(k + 1) * step];
        odd_b += square_b * coefficients[(size_t)(k + 1) * step];
    }
    values[0] = coefficients[0];
    values[value_step] = even_a + POINT_A * odd_a;
    values[2 * value_step] = even_a - POINT_A * odd_a;
    values[3 * value_step] = even_b + POINT_B * odd_b;
    values[4 * value_step] = even_b - POINT_B * odd_b;
    values[5 * value_step] = coefficients[(size_t)(n - 1) * step];
}

ALWAYS_INLINE void evaluate_transposed(LooseLanes *sums, size_t sum_step, const LooseLanes *values, size_t step,
                                       int n) {
    Lanes even_a = values[step] + values[2 * step], odd_a = values[step] - values[2 * step];
    Lanes even_b = values[3 * step] + values[4 * step], odd_b = values[3 * step] - values[4 * step];
    float power_a = 1, power_b = 1;
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        Lanes sum = k % 2 == 0 ? power_a * even_a + power_b * even_b : power_a * odd_a + power_b * odd_b;
        if (k == 0) sum += values[0];
        if (k == n - 1) sum += values[5 * step];
        sums[(size_t)k * sum_step] = sum;
        power_a *= POINT_A;
        power_b *= POINT_B;
    }
}

// Lagrange's and Newton's polynomials without their denominators, which POINT_WEIGHT puts on the kernel instead:
// x^4 - (a^2 + b^2) x^2 + 1 (as a b = 1), then x (x + a) (x^2 - b^2), x (x - a) (x^2 - b^2), the same with a and b
// exchanged, and x (x^2 - a^2) (x^2 - b^2) for infinity. n is always POINTS.
ALWAYS_INLINE void interpolate(LooseLanes *coefficients, size_t coefficient_step, const LooseLanes *values, size_t step,
                               int n) {
    (void)n;
    Lanes even_a = values[step] + values[2 * step], odd_a = POINT_A * (values[step] - values[2 * step]);
    Lanes even_b = values[3 * step] + values[4 * step], odd_b = POINT_B * (values[3 * step] - values[4 * step]);
    Lanes zero = values[0], infinity = values[5 * step];
    coefficients[0] = zero;
    coefficients[coefficient_step] = infinity - SQUARE_B * odd_a - SQUARE_A * odd_b;
    coefficients[2 * coefficient_step] = -(SQUARE_A + SQUARE_B) * zero - SQUARE_B * even_a - SQUARE_A * even_b;
    coefficients[3 * coefficient_step] = odd_a + odd_b - (SQUARE_A + SQUARE_B) * infinity;
    coefficients[4 * coefficient_step] = zero + even_a + even_b;
    coefficients[5 * coefficient_step] = infinity;
}

ALWAYS_INLINE void interpolate_transposed(LooseLanes *values, size_t value_step, const LooseLanes *inputs, size_t step,
                                          int n) {
    (void)n;
    Lanes x1 = inputs[step], x2 = inputs[2 * step], x3 = inputs[3 * step], x4 = inputs[4 * step];
    Lanes even_a = x4 - SQUARE_B * x2, odd_a = POINT_A * (x3 - SQUARE_B * x1);
    Lanes even_b = x4 - SQUARE_A * x2, odd_b = POINT_B * (x3 - SQUARE_A * x1);
    values[0] = inputs[0] - (SQUARE_A + SQUARE_B) * x2 + x4;
    values[value_step] = even_a + odd_a;
    values[2 * value_step] = even_a - odd_a;
    values[3 * value_step] = even_b + odd_b;
    values[4 * value_step] = even_b - odd_b;
    values[5 * value_step] = inputs[5 * step] - (SQUARE_A + SQUARE_B) * x3 + x1;
}

// One over the denominator of the point's Lagrange polynomial.
ALWAYS_INLINE float point_weight(int point) {
    const float of_a = 1 / (2 * SQUARE_A * (SQUARE_A - SQUARE_B)), of_b = 1 / (2 * SQUARE_B * (SQUARE_B - SQUARE_A));
    const float weights[POINTS] = {1, of_a, of_a, of_b, of_b, 1};
    return weights[point];
}

typedef void Transform(LooseLanes *out, size_t out_step, const LooseLanes *in, size_t in_step, int n);

// A square of Lanes in memory: element (row, column) is at[row * row_step + column * column_step].
typedef struct Square {
    LooseLanes *at;
    size_t row_step, column_step;
} Square;

// out (outs,outs) = the transform of the columns and then of the rows of in (ins,ins).
ALWAYS_INLINE void transform_2d(Transform *transform, Square out, int outs, Square in, int ins, int n) {
    Lanes half[POINTS_2D]; // (outs, ins)
    for (int column = 0; column < ins; column++)
        transform(half + column, (size_t)ins, in.at + (size_t)column * in.column_step, in.row_step, n);
    for (int row = 0; row < outs; row++)
        transform(out.at + (size_t)row * out.row_step, out.column_step, half + row * ins, 1, n);
}

#endif
