// Part of combine_rules.h: centred clipping (Karimireddy, He, Jaggi, ICML 2021, Algorithm 2). It starts from the result
// of the last round, v, zero in round 1:
//
//   v += (1/n) sum (d_k - v) min(1, radius / |d_k - v|)        repeated `steps` times
//
// v is always a linear combination of the updates and of its own initial value, which is one more row after the
// updates. So the inner products of the rows are all that has to be computed. Without clipping the result is the mean
// of the updates.
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

// shares (count) are the coefficients of v; one step scales the old v and adds the clipped updates.
static void choose(double *shares, const Choice *choice) {
    const double radius = choice->number[0], steps = choice->number[1];
    const uint32_t clients = choice->count - 1, center = clients;
    double *distances = choice->workspace;
    for (uint32_t k = 0; k < choice->count; k++)
        shares[k] = k == center;
    for (uint32_t step = 0; step < steps; step++) {
        double sum = 0;
        choice_distances(distances, shares, choice);
        for (uint32_t k = 0; k < clients; k++)
            sum += distances[k] = distances[k] > radius ? radius / distances[k] : 1;
        for (uint32_t k = 0; k < choice->count; k++)
            shares[k] = shares[k] * (1 - sum / clients) + (k < clients ? distances[k] / clients : 0);
    }
}

const CombineRule centered_combine_rule = {
    .text = {"centered",
             "clips updates around the result of the last round, and averages them",
             "Karimireddy, He, Jaggi, ICML 2021, Algorithm 2",
             {{.name = "radius", .preset = 10, .minimum = 0, .maximum = 1e30},
              {.name = "steps", .preset = 1, .minimum = 1, .maximum = 10000, .whole = true}}},
    .rows = true,
    .remembers = true,
    .choose = choose};
