// Part of combine_rules.h: FLUTE's dynamic gradient aggregation (Dimitriadis, Hipolito Garcia, Diaz, Manoel, Sim 2022):
// clients whose training went badly count less.
//
//   w += sum exp(-beta L_k) d_k / sum exp(-beta L_k)
//
// L_k is the mean loss of the client's steps. Since it is known only when all have trained, the updates are kept side
// by side.
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

static double by_training(double loss, const double *number) {
    return exp(-number[0] * loss);
}

const CombineRule dga_combine_rule = {.text = {"dga",
                                               "clients count by how low the loss of their training was",
                                               "Dimitriadis et al., FLUTE 2022",
                                               {{.name = "beta", .preset = 1, .minimum = 0, .maximum = 1000}}},
                                      .rows = true,
                                      .by_training = by_training};
