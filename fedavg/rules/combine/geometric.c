// Part of combine_rules.h: the smoothed geometric median by Weiszfeld's iteration (RFA: Pillutla, Kakade, Harchaoui,
// IEEE TSP 2022), starting from z = sum a_k d_k:
//
//   b_k = a_k / max(nu, |z - d_k|);  z = sum b_k d_k / sum b_k
//
// It stops when the sum of a_k |z - d_k| falls by less than a millionth, or after `steps` iterations; with 0 steps it
// is FedAvg. All of it follows from the inner products of the updates; the results are new shares for the exact mean.
#include <math.h>
#include <string.h>

#include "fedavg/rules/combine/combine_rules.h"

static void choose(double *shares, const Choice *choice) {
    const double steps = choice->number[0], nu = choice->number[1];
    double *distances = choice->workspace, before = INFINITY;
    memcpy(shares, choice->weights, choice->count * sizeof *shares);
    for (uint32_t step = 0; step < steps; step++) {
        double mean = 0, sum = 0;
        choice_distances(distances, shares, choice);
        for (uint32_t k = 0; k < choice->count; k++)
            mean += choice->weights[k] * distances[k];
        if (before - mean <= 1e-6 * mean) return;
        before = mean;
        for (uint32_t k = 0; k < choice->count; k++)
            sum += shares[k] = choice->weights[k] / fmax(nu, distances[k]);
        for (uint32_t k = 0; k < choice->count; k++)
            shares[k] /= sum;
    }
}

const CombineRule geometric_combine_rule = {
    .text = {"geometric",
             "the geometric median of the updates, by `steps` of Weiszfeld's iteration",
             "Pillutla et al., IEEE Transactions on Signal Processing 2022",
             {{.name = "steps", .preset = 4, .minimum = 0, .maximum = 10000, .whole = true},
              {.name = "nu", .preset = 1e-5, .minimum = 1e-12, .maximum = 1000},
              COMBINE_WEIGHTS}},
    .rows = true,
    .choose = choose};
