// SCAFFOLD (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, ICML 2020, Algorithm 1): every step subtracts the client's
// control variate, c_k, and adds the server's, c. Both start at zero.
//
//   step: g + c - c_k        after training, option II:  c_k = c_k - c + (w - w_k) / A_k
//                                            option I:   c_k = gradient of the client's loss at w, one more data pass
//
// A_k is K lr with plain SGD; in general it is the distance that the local optimizer moves a weight along a constant
// gradient of 1, so that c_k remains an average of gradients with any momentum and any number of steps. The server's
// half is in server/scaffold.h.
//
// A trainer may step by any optimizer. After other steps than SGD's it tells the mean of its gradients, which becomes
// c_k as with option I.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_SCAFFOLD_H
#define SOUNDER_FEDAVG_RULES_LOCAL_SCAFFOLD_H

#include "fedavg/rules/local/local_rule.h"

BOTH float local_scaffold_shift(const Parameter *p, const LocalTurn *turn) {
    (void)turn;
    return p->common - p->state;
}

// With a learning rate of 0 the displacement carries no information about gradients: c_k stays.
BOTH float local_scaffold_keep(const Parameter *p, const LocalTurn *turn) {
    if (turn->looks) return local_on_grid(p->full_gradient);
    if (turn->displacement == 0) return p->state;
    const float gradient = (float)(((double)p->global - (double)p->own) / turn->displacement);
    return local_on_grid(p->state - p->common + gradient);
}

#ifndef __cplusplus
static inline bool scaffold_looks(const double *number) {
    return number[0] != 0;
}

static const LocalRule scaffold_local_rule = {
    .text = {"scaffold",
             "every step subtracts the client's control variate and adds the server's",
             "Karimireddy et al., ICML 2020, Algorithm 1",
             {{.name = "option", .words = {"II", "I"}}}},
    .shifts = true,
    .keeps = true,
    .measures = true,
    .asks = true,
    .looks = scaffold_looks};
#endif

#endif
