// Low-rank adapters: two tensors of a net, NAME.lora_A (rank, in) and NAME.lora_B (out, rank), whose product B A (out,
// in) joins a weight that does not learn. The mean of the products is not the product of the means.
//
//   TRY(adapter_pairs(&pairs, &recipe->combine, &tensors, travels, err));   // before a run
//   adapter_residual(...), adapter_svd(...);                                // per pair, from all clients' factors
//
// Factors of a kernel of more than two dimensions count as matrices: the first side by the product of the others.
#ifndef SOUNDER_FEDAVG_RULES_COMBINE_ADAPTERS_H
#define SOUNDER_FEDAVG_RULES_COMBINE_ADAPTERS_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/rules/rule.h"
#include "nn/tensors.h"

enum { ADAPTERS_MEAN, ADAPTERS_EXACT, ADAPTERS_SVD };

typedef struct AdapterPair {
    const ParameterTensor *a, *b, *base; // base: how=exact alone, else NULL
    size_t rank, in, out;
    bool transposed; // the base is (in, out)
} AdapterPair;

typedef struct AdapterPairs {
    AdapterPair pairs[TENSORS_MOST / 2];
    int count;
} AdapterPairs;

// Finds the pairs by the names of their tensors. travels (list->count): whether clients send the tensor
// (personal_travelling). USAGE where there is no pair, a half is missing or of another shape, or a factor does not
// travel; for how=exact also where its base does not.
Status adapter_pairs(AdapterPairs *pairs, const Chosen *chosen, const TensorList *list, const bool *travels,
                     Error *err);

// The numbers of the rule.
int adapters_how(const Chosen *chosen);
double adapters_scale(const Chosen *chosen);

// The factors of all clients side by side: the mean product is left (out, count) times right (count, in). left has the
// clients' weights.
typedef struct AdapterFactors {
    const double *left, *right;
    size_t count, in, out;
} AdapterFactors;

// residual (out, in) = the mean product - b (out, rank) a (rank, in).
void adapter_residual(double *residual, const AdapterFactors *factors, const double *b, const double *a, size_t rank);

// The best approximation of the mean product by factors of this rank: b (out, rank) has the left singular vectors times
// the singular values, a (rank, in) the right singular vectors, of which the largest component is positive. OS without
// memory.
Status adapter_svd(double *b, double *a, const AdapterFactors *factors, size_t rank, Error *err);

#endif
