// Part of combine_rules.h: FLTrust (Cao, Fang, Liu, Gong, NDSS 2021). The server trains on `root` samples of its own,
// and its update g decides the trust in each client:
//
//   t_k = max(0, cos(d_k, g));    w += sum t_k (|g| / |d_k|) d_k / sum t_k
//
// An update that points away from g has weight 0, and each update is scaled to the length of g. If no client is
// trusted, the model does not move.
#include <math.h>

#include "fedavg/rules/combine/combine_rules.h"

static void choose(double *shares, const Choice *choice) {
    const size_t count = choice->count, root = count - 1; // g is the extra row
    const double of_root = choice->products[root * count + root];
    double sum = 0;
    for (size_t k = 0; k < count; k++) {
        const double inner = choice->products[k * count + root], squared = choice->products[k * count + k];
        const double trust = k != root && inner > 0 && squared > 0 && of_root > 0 ? inner / sqrt(squared * of_root) : 0;
        shares[k] = trust > 0 ? trust * sqrt(of_root / squared) : 0;
        sum += trust;
    }
    for (size_t k = 0; k < count && sum > 0; k++)
        shares[k] /= sum;
}

const CombineRule fltrust_combine_rule = {
    .text = {"fltrust",
             "clients count by how far their update points where that of the server points, which trains on `root` "
             "samples: "
             "every so many-th of all training samples",
             "Cao et al., NDSS 2021",
             {{.name = "root", .preset = 100, .minimum = 1, .maximum = COMBINE_MOST_ROOT_SAMPLES, .whole = true}}},
    .rows = true,
    .trusts = true,
    .choose = choose};
