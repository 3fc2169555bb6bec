// The one- and two-dimensional transforms between coefficients and values at points that winograd.c explains.
#ifndef SOUNDER_NN_KERNELS_POINTS_H
#define SOUNDER_NN_KERNELS_POINTS_H

#include <stdbool.h>

#include "nn/kernels/lanes.h"

enum { MOST_PAIRS = 3, MOST_POINTS = 2 * MOST_PAIRS + 2, MOST_POINTS_2D = MOST_POINTS * MOST_POINTS };

// The points 0, +at[0], -at[0], +at[1], ... and infinity, and polynomials in squares, lowest coefficient first. Every
// function that uses a set is inlined, so that all of its numbers become constants.
typedef struct PointSet {
    int pairs;
    float at[MOST_PAIRS];
    float zeros[MOST_PAIRS + 1];              // (y - at[0]^2) (y - at[1]^2) ...: its zeros are all squares of `at`
    float others[MOST_PAIRS][MOST_PAIRS];     // the same product without the factor of this pair
    float weight_of_zero, weight[MOST_PAIRS]; // 1 / the value of the point's Lagrange polynomial at the point
} PointSet;

// These point sets round least of those that we tried, for 3x3 and 5x5 kernels: the errors of the outputs are 2.3 and
// 5.5 times those of a direct convolution in floats. Lavin and Gray's 1 and 2 instead of 2/3 and 3/2 give more than 4
// times.
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

// The points for kernels of this side: K + 3 points give 4 outputs.
ALWAYS_INLINE const PointSet *points_for(int kernel) {
    return kernel == 5 ? &EIGHT_POINTS : &SIX_POINTS;
}

ALWAYS_INLINE int points_of(const PointSet *set) {
    return 2 * set->pairs + 2;
}

// A transform computes its results group by group, where a group's results share terms: a few rows of a square fit the
// registers, a whole square does not. For values at the points, 0 and infinity are the first group, and each pair is
// one; for coefficients, the even ones are the first group and the odd ones the second.
enum { MOST_IN_GROUP = MOST_POINTS / 2 };

// Values at the points of the polynomial with n <= 5 coefficients, lowest first.
// A polynomial is split into its even and its odd part, p(x) = e(x^2) + x o(x^2): then p(a) = e + a o and p(-a) = e -
// a o share both, and a pair of points costs little more than one. At 0 the value is the lowest coefficient, at
// infinity the highest.
ALWAYS_INLINE void evaluate(Lanes *values, int group, const LooseLanes *coefficients, ptrdiff_t step,
                            const PointSet *set, int n) {
    if (group == 0) {
        values[0] = coefficients[0];
        values[1] = coefficients[(n - 1) * step];
        return;
    }
    const float at = set->at[group - 1], square = at * at;
    Lanes even = coefficients[0], odd = coefficients[step];
    float power = 1;
#pragma GCC unroll 4
    for (int k = 2; k < n; k += 2) {
        power *= square;
        even += power * coefficients[k * step];
        if (k + 1 < n) odd += power * coefficients[(k + 1) * step];
    }
    values[0] = even + at * odd;
    values[1] = even - at * odd;
}

// The transpose of evaluate, with n <= 5 sums. Sums of two products use lanes_fma: a compiler would contract either of
// the two products, and not the same one everywhere.
ALWAYS_INLINE void evaluate_transposed(Lanes *sums, int group, const LooseLanes *values, ptrdiff_t step,
                                       const PointSet *set, int n) {
    Lanes shares[MOST_PAIRS];
    float power[MOST_PAIRS] = {1, 1, 1};
#pragma GCC unroll 4
    for (int p = 0; p < set->pairs; p++) {
        const Lanes plus = values[(2 * p + 1) * step], minus = values[(2 * p + 2) * step];
        shares[p] = group == 0 ? plus + minus : plus - minus;
    }
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        if (k % 2 == group) {
            Lanes sum = power[0] * shares[0];
#pragma GCC unroll 4
            for (int p = 1; p < set->pairs; p++)
                if (k == 0)
                    sum += shares[p];
                else
                    sum = lanes_fma(lanes_of(power[p]), shares[p], sum);
            if (k == 0) sum += values[0];
            if (k == n - 1) sum += values[(2 * set->pairs + 1) * step];
            sums[k / 2] = sum;
        }
#pragma GCC unroll 4
        for (int p = 0; p < set->pairs; p++)
            power[p] *= set->at[p];
    }
}

// Lagrange's and Newton's polynomials without their denominators: the kernel's values are multiplied by point_weight
// instead, once per batch. With Z(y) the polynomial of `zeros` and R(y) that of the pair's `others`, the polynomials
// are Z(x^2) for 0, x (x + a) R(x^2) and x (x - a) R(x^2) for a and -a, and x Z(x^2) for infinity. n: number of points.
ALWAYS_INLINE void interpolate(Lanes *coefficients, int group, const LooseLanes *values, ptrdiff_t step,
                               const PointSet *set, int n) {
    const Lanes end = values[group == 0 ? 0 : (n - 1) * step];
    Lanes shares[MOST_PAIRS];
#pragma GCC unroll 4
    for (int p = 0; p < set->pairs; p++) {
        const Lanes plus = values[(2 * p + 1) * step], minus = values[(2 * p + 2) * step];
        shares[p] = group == 0 ? plus + minus : set->at[p] * (plus - minus);
    }
    if (group == 0) coefficients[0] = set->zeros[0] * end;
#pragma GCC unroll 4
    for (int k = 1; k <= set->pairs; k++) {
        Lanes sum = set->zeros[group == 0 ? k : k - 1] * end;
#pragma GCC unroll 4
        for (int p = 0; p < set->pairs; p++)
            sum += set->others[p][k - 1] * shares[p];
        coefficients[group == 0 ? k : k - 1] = sum;
    }
    if (group == 1) coefficients[set->pairs] = end;
}

// The transpose of interpolate: values at the points from n inputs.
ALWAYS_INLINE void interpolate_transposed(Lanes *values, int group, const LooseLanes *inputs, ptrdiff_t step,
                                          const PointSet *set, int n) {
    if (group == 0) {
        Lanes zero = set->zeros[0] * inputs[0], infinity = inputs[(n - 1) * step];
#pragma GCC unroll 4
        for (int k = 1; k <= set->pairs; k++) {
            zero += set->zeros[k] * inputs[(2 * k) * step];
            infinity += set->zeros[k - 1] * inputs[(2 * k - 1) * step];
        }
        values[0] = zero;
        values[1] = infinity;
        return;
    }
    const float *others = set->others[group - 1], at = set->at[group - 1];
    Lanes even = others[0] * inputs[2 * step], odd = others[0] * inputs[step];
#pragma GCC unroll 4
    for (int k = 2; k <= set->pairs; k++) {
        even += others[k - 1] * inputs[(2 * k) * step];
        odd += others[k - 1] * inputs[(2 * k - 1) * step];
    }
    values[0] = even + at * odd;
    values[1] = even - at * odd;
}

// The factor of the kernel's value at the point.
ALWAYS_INLINE float point_weight(const PointSet *set, int point) {
    if (point == 0) return set->weight_of_zero;
    return point > 2 * set->pairs ? 1 : set->weight[(point - 1) / 2];
}

// Writes the group's results to out. Elements of `in` are in_step apart. n: number of coefficients, or of points if it
// interpolates.
typedef void Transform(Lanes *out, int group, const LooseLanes *in, ptrdiff_t in_step, const PointSet *set, int n);

// Whether the results are values at points, which come in pairs, or coefficients.
ALWAYS_INLINE bool gives_values(Transform *transform) {
    return transform == evaluate || transform == interpolate_transposed;
}

// Number of groups of a transform with `outs` results.
ALWAYS_INLINE int groups_of(Transform *transform, int outs) {
    return gives_values(transform) ? outs / 2 : 2;
}

ALWAYS_INLINE int group_size(Transform *transform, int group, int outs) {
    return gives_values(transform) ? 2 : (outs + 1 - group) / 2;
}

// The index of the group's result i among all results.
ALWAYS_INLINE int place_of(Transform *transform, int group, int i, int outs) {
    if (!gives_values(transform)) return 2 * i + group;
    if (group == 0) return i == 0 ? 0 : outs - 1;
    return 2 * group - 1 + i;
}

// A square of Lanes in memory: element (row, column) is at[row * row_step + column * column_step].
typedef struct Square {
    LooseLanes *at;
    ptrdiff_t row_step, column_step;
} Square;

// The square of `side` rows and columns in reverse order.
ALWAYS_INLINE Square turned(Square square, int side) {
    return (Square){square.at + (side - 1) * (square.row_step + square.column_step), -square.row_step,
                    -square.column_step};
}

// How the results of a transform are stored.
typedef struct Ending {
    const float *bias; // added to them; NULL: nothing
    bool rectifies;    // negative results become zero
    bool adds;         // they are added to the values already stored
    bool stops;        // they become zero wherever the output of a relu is not positive
    uintptr_t outs;    // bytes from a result's place to that relu output
} Ending;

ALWAYS_INLINE const float *out_beside(const void *place, const Ending *ending) {
    return (const float *)((uintptr_t)place + ending->outs);
}

// The backward pass of a relu whose output is `out`.
ALWAYS_INLINE Lanes let_through(Lanes gradient, Lanes out) {
    return lanes_select(out <= lanes_of(0), lanes_of(0), gradient);
}

// Stores one result. There is one function per combination of an Ending's flags, so that the inner loops have no
// branches.
typedef void Put(LooseLanes *place, Lanes result, const Ending *ending);

ALWAYS_INLINE void put(LooseLanes *place, Lanes result, const Ending *ending) {
    if (ending->bias) result += lanes_of(*ending->bias);
    *place = result;
}

ALWAYS_INLINE void put_rectified(LooseLanes *place, Lanes result, const Ending *ending) {
    if (ending->bias) result += lanes_of(*ending->bias);
    *place = lanes_rectified(result);
}

ALWAYS_INLINE void put_added(LooseLanes *place, Lanes result, const Ending *ending) {
    (void)ending;
    *place += result;
}

ALWAYS_INLINE void put_stopped(LooseLanes *place, Lanes result, const Ending *ending) {
    *place = let_through(result, *(const LooseLanes *)out_beside(place, ending));
}

ALWAYS_INLINE void put_added_stopped(LooseLanes *place, Lanes result, const Ending *ending) {
    put_stopped(place, *place + result, ending);
}

// out (outs,outs) = the transform of the columns and then of the rows of in (ins,ins), stored by put. out and in must
// not overlap. The transform of one group of rows after the other: its rows of the transformed columns fit the
// registers, while all rows of the square would spill to memory. So columns are read once per group. All loops unroll,
// since every size and the transform itself are constants here.
ALWAYS_INLINE void transform_2d_onto(Put *put_result, const Ending *ending, Transform *transform, Square out, int outs,
                                     Square in, int ins, const PointSet *set, int n) {
    const int groups = groups_of(transform, outs);
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        const int rows = group_size(transform, g, outs);
        Lanes half[MOST_IN_GROUP][MOST_POINTS]; // the group's rows of the transformed columns
        const LooseLanes *from = in.at;
#pragma GCC unroll 8
        for (int column = 0; column < ins; column++) {
            Lanes results[MOST_IN_GROUP];
            transform(results, g, from, in.row_step, set, n);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                half[i][column] = results[i];
            from += in.column_step;
            FORGET_ORIGIN(from);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            LooseLanes *to = out.at + place_of(transform, g, i, outs) * out.row_step;
            FORGET_ORIGIN(to);
#pragma GCC unroll 4
            for (int h = 0; h < groups; h++) {
                Lanes results[MOST_IN_GROUP];
                transform(results, h, (const LooseLanes *)half[i], 1, set, n);
#pragma GCC unroll 4
                for (int k = 0; k < group_size(transform, h, outs); k++)
                    put_result(to + place_of(transform, h, k, outs) * out.column_step, results[k], ending);
            }
        }
    }
}

// out = the transform of in.
ALWAYS_INLINE void transform_2d(Transform *transform, Square out, int outs, Square in, int ins, const PointSet *set,
                                int n) {
    transform_2d_onto(put, &(Ending){.bias = NULL}, transform, out, outs, in, ins, set, n);
}

#endif
