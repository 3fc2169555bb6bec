// EASGD and EAMSGD, synchronous (Zhang, Choromanska, LeCun, NIPS 2015, equations 3 and 4, Algorithm 2): every client
// has a replica x_k of the model for good, tied to the centre c by a spring.
//
//   e_k = alpha (x_k - c);  x_k += -lr g(x_k) - e_k, then more steps without a spring;  c += sum of all e_k
//
// The gradient of the first step is that at the old x_k, as in the authors' code. With the optimizer sgd nesterov=yes
// this is EAMSGD: what is trained is then x_k + momentum v, where its gradients are taken. A replica begins as the
// centre of its first turn. Asynchronously (Algorithm 1, schedule buffered K=1) e_k is that of the centre of the moment
// in which the client has made its steps: the centre gets it then, the replica loses it in the first step of its next
// turn, unless that turn is refused. What it gives is what it loses, a multiple of 2^-40: the sum of all x_k and c is
// the same after the exchange, exactly. The server's half is in server/elastic.h.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_ELASTIC_H
#define SOUNDER_FEDAVG_RULES_LOCAL_ELASTIC_H

#include "fedavg/rules/local/local_rule.h"

BOTH float local_elastic_shift(const Parameter *p, const LocalTurn *turn) {
    (void)p, (void)turn;
    return 0;
}

BOTH float local_elastic_keep(const Parameter *p, const LocalTurn *turn) {
    return turn->number[0] != 0 ? local_on_grid(p->own) : p->own;
}

// e_k of a replica x: how far it is from where the spring leaves it, which a float holds. Both lie on the grid.
BOTH double elastic_gift(float x, float centre, const LocalTurn *turn) {
    const float on_grid = local_on_grid(x);
    return (double)on_grid - (double)local_on_grid((float)(on_grid - turn->number[0] * ((double)on_grid - centre)));
}

#ifndef __cplusplus
static const LocalRule elastic_local_rule = {
    .text = {"elastic",
             "every client trains a replica of its own, which a spring ties to the global weights",
             "Zhang, Choromanska, LeCun, NIPS 2015",
             {{.name = "alpha", .preset = NAN, .minimum = 0, .maximum = 1, .derived = "0.9/clients"}}},
    .keeps = true,
    .replicas = true};
#endif

#endif
