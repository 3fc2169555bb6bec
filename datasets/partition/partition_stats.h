// How far a partition is from one in which all clients are alike: sizes and label shares.
//
//   uint32_t *counts = ...clients * classes of the caller's...
//   partition_count(counts, &partition, labels, classes);
//   PartitionStats stats;
//   TRY(partition_statistics(&stats, counts, clients, classes, err));
//
// With p the label shares of a client and q those of all assigned samples: entropy -sum p log p / log classes;
// Hellinger distance sqrt(sum (sqrt p - sqrt q)^2 / 2); EMD sum |p - q| (Zhao et al. 2018: twice the total variation);
// Jensen-Shannon divergence in bits; and the number of classes that the client has. A client without samples counts
// only in the sizes.
#ifndef SOUNDER_DATASETS_PARTITION_PARTITION_STATS_H
#define SOUNDER_DATASETS_PARTITION_PARTITION_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/partition.h"

// Over the clients: the mean, the mean weighted by samples, and the client that differs most from the others.
typedef struct ClientMean {
    double mean, weighted, worst;
} ClientMean;

enum { MEASURE_ENTROPY, MEASURE_HELLINGER, MEASURE_EMD, MEASURE_JENSEN_SHANNON, MEASURE_CLASSES, PARTITION_MEASURES };

typedef struct PartitionStats {
    uint32_t samples;               // assigned to clients
    uint32_t smallest, largest;     // clients' sizes
    double median, variation, gini; // of the sizes; variation: standard deviation / mean
    ClientMean measures[PARTITION_MEASURES];
} PartitionStats;

// Names of the measures, as they are printed and written.
extern const char *const partition_measures[PARTITION_MEASURES];

// counts (clients, classes): number of samples of each class. labels NULL: all are of class 0.
void partition_count(uint32_t *counts, const Partition *partition, const uint16_t *labels, uint32_t classes);

// Fails with OS.
Status partition_statistics(PartitionStats *stats, const uint32_t *counts, uint32_t clients, uint32_t classes,
                            Error *err);

// Says whether clients have clearly fewer classes, on average, than clients of their size would have of mixed samples:
// less than 0.6 times as many. Sets the fewest and the most classes of a client that has samples, and the classes that
// occur. labels: of the training samples, each below classes. False also without the memory for it.
bool partition_has_few_classes(uint32_t *fewest, uint32_t *most, uint32_t *occurring, const Partition *partition,
                               const uint16_t *labels, uint32_t classes);

#endif
