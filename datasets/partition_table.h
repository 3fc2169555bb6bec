// What is behind the rows of partition_table, in the same order.
#ifndef SOUNDER_DATASETS_PARTITION_TABLE_H
#define SOUNDER_DATASETS_PARTITION_TABLE_H

#include "base/err.h"
#include "datasets/deal.h"

// One of the two functions.
typedef struct Partitioner {
    bool by_class; // looks at labels

    Status (*deal)(Deal *deal, Error *err); // names owners
    Status (*build)(uint32_t *offsets, uint32_t *indices, const Deal *deal,
                    Error *err); // writes the lists
} Partitioner;

extern const Partitioner partitioners[];

#endif
