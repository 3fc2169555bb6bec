// FedDyn (Acar, Zhao, Matas, Mattina, Whatmough, Saligrama, ICLR 2021, Algorithm 1), with the client's linear term
// divided by alpha: u_k is the sum of all its past displacements from the global weights.
//
//   step: g + alpha (x - w + u_k)        after training: u_k += w_k - w
//
// The server's half is in server/dyn.h. With scaled=yes alpha is larger for clients with fewer samples, as in the
// authors' code for unbalanced data: alpha mean(n) / n_k.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_DYN_H
#define SOUNDER_FEDAVG_RULES_LOCAL_DYN_H

#include "fedavg/rules/local/local_rule.h"

// number[0] is this client's alpha; prepare has scaled it.
BOTH float local_dyn_shift(const Parameter *p, const LocalTurn *turn) {
    return (float)turn->number[0] * p->state;
}

// The sum of displacements is stored and not the paper's gradient term, since it is exact on the grid and needs no
// alpha.
BOTH float local_dyn_keep(const Parameter *p, const LocalTurn *turn) {
    (void)turn;
    return local_on_grid(p->state + (p->own - p->global));
}

#ifndef __cplusplus
static inline double dyn_pull(const LocalTurn *turn) {
    return turn->number[0];
}

static inline void dyn_prepare(LocalTurn *turn) {
    if (turn->number[1] != 0) turn->number[0] *= turn->size_ratio;
}

static const LocalRule dyn_local_rule = {
    .text = {"dyn",
             "a dynamic regulariser: pulls back to the global weights, and by the client's past displacements",
             "Acar et al., ICLR 2021, Algorithm 1",
             {{.name = "alpha", .preset = 0.01, .minimum = 1e-9, .maximum = 1000},
              {.name = "scaled", .words = {"no", "yes"}}}},
    .shifts = true,
    .keeps = true,
    .pull = dyn_pull,
    .prepare = dyn_prepare};
#endif

#endif
