// MOON (Li, He, Song, CVPR 2021): a contrastive term draws the representation of each sample, which is what enters the
// net's last layer, to that of the global model, and away from that of the client's model of its last turn.
//
//   loss += mu mean of -log(e^(cos(z, z_global)/tau) / (e^(cos(z, z_global)/tau) + e^(cos(z, z_previous)/tau)))
//
// As in FL-bench the previous model of a client's first turn is the global one, where the term has no gradient; as in
// PFLlib and FL-bench the last layer follows the representation, without the paper's projection head. The two models
// are evaluated as in a test, without dropout. mu and tau are the paper's. The net adds the term (nn/contrast.h), so
// that nothing is added weight by weight; the client keeps the weights that it has trained.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_MOON_H
#define SOUNDER_FEDAVG_RULES_LOCAL_MOON_H

#include "fedavg/rules/local/local_rule.h"

#define local_moon_shift local_no_shift
#define local_moon_keep  local_same_state

#ifndef __cplusplus
static const LocalRule moon_local_rule = {
    .text = {"moon",
             "what enters the last layer is drawn to what the global model makes of a sample, and away from what the "
             "client's model of its last turn does",
             "Li, He, Song, CVPR 2021",
             {{.name = "mu", .preset = 1, .minimum = 0, .maximum = 1000},
              {.name = "tau", .preset = 0.5, .minimum = 1e-3, .maximum = 1000}}},
    .contrasts = true};
#endif

#endif
