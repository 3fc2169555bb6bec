// How many samples of each class each client gets under the Dirichlet partition; partition.h says by which rules.
#ifndef SOUNDER_DATASETS_DIRICHLET_H
#define SOUNDER_DATASETS_DIRICHLET_H

#include <stdint.h>

#include "base/err.h"

// Fills table (classes, clients), of the caller's. class_sizes (classes): the samples there are, summing to at least
// `clients`. alpha > 0. OS when there is no memory for one class's proportions.
Status dirichlet_draw(uint32_t *table, const uint32_t *class_sizes, uint32_t classes, uint32_t clients, double alpha,
                      uint64_t seed, Error *err);

#endif
