// SCAFFOLD (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, ICML 2020, Algorithm 1): the client's drift, c_k, is taken
// out of every step and that of all clients, c, put in. Both start at zero.
//
//   step: g + c - c_k        after it, option II:  c_k = c_k - c + (w - w_k) / A_k
//                                      option I:   c_k = gradient of the client's loss at w, a pass over its data more
//
// A_k is K lr with plain SGD; in general it is how far the local optimizer takes a weight along a constant gradient of
// 1, so that c_k stays an average of gradients whatever the momentum and however many steps. The server's half is in
// server/scaffold.h.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_SCAFFOLD_H
#define SOUNDER_FEDAVG_RULES_LOCAL_SCAFFOLD_H

#include "fedavg/rules/local/local_rule.h"

BOTH float local_scaffold_shift(const Parameter *p, const LocalTurn *turn) {
    (void)turn;
    return p->common - p->kept;
}

// With a learning rate that has fallen to 0 the way says nothing of the gradients: c_k stays.
BOTH float local_scaffold_keep(const Parameter *p, const LocalTurn *turn) {
    if (turn->number[0] != 0) return local_on_grid(p->full_gradient);
    if (turn->displacement == 0) return p->kept;
    const float gradient = (float)(((double)p->global - (double)p->own) / turn->displacement);
    return local_on_grid(p->kept - p->common + gradient);
}

#ifndef __cplusplus
static inline bool scaffold_looks(const double *number) {
    return number[0] != 0;
}

static const LocalRule scaffold_local_rule = {
    .text = {"scaffold",
             "the client's drift is taken out of every step, that of all put in",
             "Karimireddy et al., ICML 2020, Algorithm 1",
             {{.name = "option", .words = {"II", "I"}}}},
    .shifts = true,
    .keeps = true,
    .asks = true,
    .looks = scaffold_looks};
#endif

#endif
