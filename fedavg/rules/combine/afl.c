// Part of combine_rules.h: agnostic federated learning (Mohri, Sivek, Suresh, ICML 2019) minimises the loss of the
// worst-case mixture of clients. The server learns that mixture, lambda, together with the model:
//
//   lambda = 1/N at first;  shares of a round: lambda;  then lambda = P(lambda + gamma F)
//
// F_k is the loss of the round's initial weights on all training data of client k; P projects onto the simplex. All
// clients take part in every round. In the paper the model is the mean over all rounds: server rounds-mean.
#include <stdlib.h>
#include <string.h>

#include "base/sorting.h"
#include "fedavg/rules/combine/combine_rules.h"

// Euclidean projection onto the simplex (Duchi, Shalev-Shwartz, Singer, Chandra, ICML 2008): subtracts one number from
// all values and cuts at 0.
static void project(double *values, uint32_t count, double *sorted) {
    double sum = 0, loss = 0;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, descending_reals);
    for (uint32_t k = 0; k < count; k++) {
        sum += sorted[k];
        const double shared = (sum - 1) / (k + 1);
        if (sorted[k] - shared > 0) loss = shared;
    }
    for (uint32_t k = 0; k < count; k++)
        values[k] = values[k] > loss ? values[k] - loss : 0;
}

static void learn(double *weights, const double *losses, uint32_t count, const double *number, double *workspace) {
    const double gamma = number[0];
    if (gamma == 0) return;
    for (uint32_t k = 0; k < count; k++)
        weights[k] += gamma * losses[k];
    project(weights, count, workspace);
}

const CombineRule afl_combine_rule = {
    .text = {"afl",
             "learns the weights of clients: in each round clients with a higher loss get more",
             "Mohri, Sivek, Suresh, ICML 2019",
             {{.name = "gamma", .preset = 0.1, .minimum = 0, .maximum = 1000}}},
    .learn = learn};
