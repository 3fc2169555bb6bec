// The exact mean of client updates: integer sums, so that neither order nor grouping changes a bit.
//
//   every worker:  aggregate_add(sum, trained, global, share, count);   // for each of its clients
//   parent:        aggregate_apply(global, sums, sum_count, arrived, count);
//
// A client's update, trained - global, times its share p_k = n_k / n (known when the cohort is drawn) is rounded to
// 64-bit fixed point with 40 fractional bits and added. Integer addition is associative: the mean is bitwise identical
// for any number of workers, any order of arrival, any grouping. Rounding error: at most 2^-41 a client and weight,
// below a float's own for weights above 2^-17.
//
// Range: an update with an element that is not finite, or at least 2^20 in magnitude, must be refused whole before it
// is added. As the shares of a cohort sum to 1, the sum then stays below 2^20 * 2^40 = 2^60 and cannot overflow.
#ifndef SOUNDER_FEDAVG_RULES_AGGREGATE_H
#define SOUNDER_FEDAVG_RULES_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

// The first element for which the update trained - global (count) must be refused; count when there is none.
size_t aggregate_first_unfit(const float *trained, const float *global, size_t count);

// sum (count) += fixed point of share * (trained - global), for an update that fits. 0 < share <= 1.
void aggregate_add(int64_t *sum, const float *trained, const float *global, double share, size_t count);

// total (count) = the sum over sum_count >= 0 slots: what one node of several contributes.
void aggregate_total(int64_t *total, const int64_t *const *sums, size_t sum_count, size_t count);

// weights (count) += (sum over sum_count >= 1 slots) / arrived, where arrived in (0, 1] is the sum of the shares that
// arrived: when updates were refused, the mean is over those that were not.
void aggregate_apply(float *weights, const int64_t *const *sums, size_t sum_count, double arrived, size_t count);

#endif
