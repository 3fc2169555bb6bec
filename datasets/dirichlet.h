// How many samples of each class each client gets under the Dirichlet partition; partition.h says by which rules.
#ifndef SOUNDER_DATASETS_DIRICHLET_H
#define SOUNDER_DATASETS_DIRICHLET_H

#include <stdint.h>

#include "base/err.h"

// Who gets no more samples of the classes to come, and what happens when a client ends up with fewer than the minimum.
// Three published ways bear one name; all draw, class after class, the clients' proportions from Dirichlet(alpha).
typedef enum DirichletForm {
    DIRICHLET_TOPPED,     // who has more than samples / clients; 10 draws, then the largest give to the smallest
    DIRICHLET_PLAIN,      // nobody; 11 draws, then an error (Flower, self_balancing=False)
    DIRICHLET_BALANCED,   // who has more than samples / clients; 11 draws, then an error (Flower, self_balancing=True)
    DIRICHLET_NIID_BENCH, // who has samples / clients or more; drawn again until it fits (NIID-Bench, noniid-labeldir)
} DirichletForm;

typedef struct DirichletRule {
    const double *alpha; // (clients), each > 0; borrowed
    DirichletForm form;
    uint32_t minimum; // of samples a client; topped: at most half the average
    uint64_t seed;
} DirichletRule;

// Fills table (classes, clients), of the caller's. class_sizes (classes): the samples there are, summing to at least
// `clients`. OS when there is no memory for one class's proportions, USAGE when no draw met the minimum.
Status dirichlet_draw(uint32_t *table, const uint32_t *class_sizes, uint32_t classes, uint32_t clients,
                      const DirichletRule *rule, Error *err);

#endif
