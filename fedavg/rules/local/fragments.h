// The fragments of a model, of which one travels in each round (schedule rounds fragments=P): Streaming DiLoCo
// (Douillard et al., arXiv 2501.18512, 2025), and what a replica does with one that the server has stepped.
//
//   TRY(fragments_plan(&config->fragments, count, &tensors, err));
//   if (fragments_has(&config->fragments, t, round)) ...           // tensor t is in the fragment of this round
//
// A fragment consists of whole modules: tensors whose names agree up to the last dot. Each module, in the net's order,
// joins the fragment that has the fewest weights so far, of equal ones the first: layers of equal size are dealt in
// turn, the paper's strided pattern, and fragments of other nets are as equal as this allows.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_FRAGMENTS_H
#define SOUNDER_FEDAVG_RULES_LOCAL_FRAGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/rules/local/personal_rules.h"
#include "nn/tensors.h"

enum { FRAGMENTS_MOST = 1000 };

// Plain data, in RunConfig.
typedef struct Fragments {
    uint32_t count;            // 0: the model travels whole, and clients keep no replicas
    uint16_t of[TENSORS_MOST]; // the fragment of each tensor
} Fragments;

// USAGE if the net has fewer modules that are trained than fragments. count 0: the model travels whole.
Status fragments_plan(Fragments *fragments, uint32_t count, const TensorList *list, Error *err);

// Whether a tensor is in the fragment that travels in this round (1, 2, ...); in each, if the model travels whole.
static inline bool fragments_has(const Fragments *fragments, int tensor, uint32_t round) {
    return fragments->count == 0 || fragments->of[tensor] == (round - 1) % fragments->count;
}

// Fills in the runs of parameters of this round's fragment, without frozen tensors; returns how many there are.
uint32_t fragments_runs(PersonalRun runs[TENSORS_MOST], const Fragments *fragments, const TensorList *list,
                        uint32_t round);

// weights (parameters) of a replica, in the fragment of `round`: `mix` parts of their own and 1 - mix of the global
// ones. mix 0: exactly the global ones.
void fragments_mix(float *weights, const float *global, double mix, const Fragments *fragments, const TensorList *list,
                   uint32_t round);

#endif
