// EASGD and EAMSGD, synchronous (Zhang, Choromanska, LeCun, NIPS 2015, equations 3 and 4, Algorithm 2): every client
// has its own replica x_k of the model in all rounds, tied to the centre c by a spring.
//
//   e_k = alpha (x_k - c);  x_k += -lr g(x_k) - e_k, then further steps without a spring;  c += sum of all e_k
//
// The gradient of the first step is taken at the old x_k, as in the authors' code. With optimizer sgd nesterov=yes this
// is EAMSGD: the trained weights are then x_k + momentum v, where EAMSGD takes its gradients. A replica starts as the
// centre of its client's first turn.
//
// In the asynchronous version (Algorithm 1, schedule buffered K=1) e_k uses the centre at the moment when the client
// has finished its steps. The centre receives e_k then; the replica loses it in the first step of its next turn, unless
// that turn is refused. The centre gains exactly what the replica loses, a multiple of 2^-40, so the sum of all x_k and
// c does not change in an exchange. The server's half is in server/elastic.h.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_ELASTIC_H
#define SOUNDER_FEDAVG_RULES_LOCAL_ELASTIC_H

#include "fedavg/rules/local/local_rule.h"

#define local_elastic_shift local_no_shift

// Without a spring nothing is exchanged, and the replica need not be on the grid of the exact sums.
BOTH float local_elastic_keep(const Parameter *p, const LocalTurn *turn) {
    return turn->number[0] != 0 ? local_on_grid(p->own) : p->own;
}

// e_k of a replica x: its distance from where the spring leaves it. Both ends are multiples of 2^-40 that a float
// holds.
BOTH double elastic_gift(float x, float centre, const LocalTurn *turn) {
    const float on_grid = local_on_grid(x);
    return (double)on_grid - (double)local_on_grid((float)(on_grid - turn->number[0] * ((double)on_grid - centre)));
}

#ifndef __cplusplus
static const LocalRule elastic_local_rule = {
    .text = {"elastic",
             "every client trains a replica of its own, which a spring ties to the global weights",
             "Zhang, Choromanska, LeCun, NIPS 2015",
             {{.name = "alpha", .preset = NAN, .minimum = 0, .maximum = 1, .derived = "0.9/clients that can arrive"}}},
    .keeps = true,
    .replicas = true};
#endif

#endif
