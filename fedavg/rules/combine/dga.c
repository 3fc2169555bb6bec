// Part of combine_rules.h: dynamic gradient aggregation of FLUTE (Dimitriadis, Hipolito Garcia, Diaz, Manoel, Sim 2022)
// gives less weight to clients whose training had a high loss.
//
//   w += sum exp(-beta L_k) d_k / sum exp(-beta L_k)
//
// L_k is the mean loss of the client's steps. It is known only after all clients have trained, so the updates are kept
// side by side.
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

static double by_training(double loss, const double *number) {
    return exp(-number[0] * loss);
}

const CombineRule dga_combine_rule = {.text = {"dga",
                                               "weights clients by the loss of their training: the lower, the more",
                                               "Dimitriadis et al., FLUTE 2022",
                                               {{.name = "beta", .preset = 1, .minimum = 0, .maximum = 1000}}},
                                      .rows = true,
                                      .by_training = by_training};
