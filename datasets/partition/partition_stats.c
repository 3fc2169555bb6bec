#include "datasets/partition/partition_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorting.h"
#include "datasets/dataset.h"

const char *const partition_measures[PARTITION_MEASURES] = {"entropy", "hellinger", "emd", "jensen_shannon", "classes"};

void partition_count(uint32_t *counts, const Partition *partition, const uint16_t *labels, uint32_t classes) {
    memset(counts, 0, (size_t)partition->clients * classes * sizeof *counts);
    for (uint32_t client = 0; client < partition->clients; client++) {
        uint32_t count;
        const uint32_t *indices = partition_client(partition, client, &count);
        for (uint32_t i = 0; i < count; i++)
            counts[(size_t)client * classes + (labels ? labels[indices[i]] : 0)]++;
    }
}

static double surprise(double p, double q) {
    return p > 0 ? p * log(p / q) : 0;
}

// The measures of one client; p: its label shares, q: those of all samples.
static void measure(double values[PARTITION_MEASURES], const double *p, const double *q, uint32_t classes) {
    memset(values, 0, PARTITION_MEASURES * sizeof *values);
    for (uint32_t c = 0; c < classes; c++) {
        const double root = sqrt(p[c]) - sqrt(q[c]), middle = (p[c] + q[c]) / 2;
        values[MEASURE_ENTROPY] -= surprise(p[c], 1);
        values[MEASURE_HELLINGER] += root * root / 2;
        values[MEASURE_EMD] += fabs(p[c] - q[c]);
        values[MEASURE_JENSEN_SHANNON] += (surprise(p[c], middle) + surprise(q[c], middle)) / 2 / log(2);
        values[MEASURE_CLASSES] += p[c] > 0;
    }
    values[MEASURE_ENTROPY] = classes > 1 ? values[MEASURE_ENTROPY] / log(classes) : 0;
    values[MEASURE_HELLINGER] = sqrt(values[MEASURE_HELLINGER]);
}

// Says which value differs more from the other clients: the lower one for entropy and classes, otherwise the greater.
static bool is_worse(int kind, double value, double worst) {
    return kind == MEASURE_ENTROPY || kind == MEASURE_CLASSES ? value < worst : value > worst;
}

// Sorts sizes (clients) in place.
static void describe_sizes(PartitionStats *stats, uint32_t *sizes, uint32_t clients) {
    double squares = 0, ranked = 0;
    const double mean = (double)stats->samples / clients;
    qsort(sizes, clients, sizeof *sizes, ascending_wholes);
    for (uint32_t i = 0; i < clients; i++) {
        squares += (sizes[i] - mean) * (sizes[i] - mean);
        ranked += (2.0 * i + 1 - clients) * sizes[i];
    }
    stats->smallest = sizes[0];
    stats->largest = sizes[clients - 1];
    stats->median = (sizes[(clients - 1) / 2] + (double)sizes[clients / 2]) / 2;
    stats->variation = mean > 0 ? sqrt(squares / clients) / mean : 0;
    stats->gini = mean > 0 ? ranked / (clients * (double)stats->samples) : 0;
}

static void add_client(PartitionStats *stats, const uint32_t *counts, uint32_t size, const double *q, uint32_t classes,
                       uint32_t clients) {
    double p[DATASET_MAX_CLASSES], values[PARTITION_MEASURES];
    for (uint32_t c = 0; c < classes; c++)
        p[c] = (double)counts[c] / size;
    measure(values, p, q, classes);
    for (int kind = 0; kind < PARTITION_MEASURES; kind++) {
        ClientMean *mean = &stats->measures[kind];
        mean->mean += values[kind] / clients;
        mean->weighted += values[kind] * size / stats->samples;
        if (isnan(mean->worst) || is_worse(kind, values[kind], mean->worst)) mean->worst = values[kind];
    }
}

// The first loop sums the labels of all clients; the second one compares each client with the sum.
Status partition_statistics(PartitionStats *stats, const uint32_t *counts, uint32_t clients, uint32_t classes,
                            Error *err) {
    double q[DATASET_MAX_CLASSES] = {0};
    uint32_t *sizes = calloc(clients, sizeof *sizes), filled = 0;
    *stats = (PartitionStats){0};
    if (!sizes) return fail(err, STATUS_OS, "no memory for the sizes of %u clients", clients);
    for (uint32_t client = 0; client < clients; client++) {
        for (uint32_t c = 0; c < classes; c++) {
            sizes[client] += counts[(size_t)client * classes + c];
            q[c] += counts[(size_t)client * classes + c];
        }
        stats->samples += sizes[client];
        filled += sizes[client] > 0;
    }
    for (uint32_t c = 0; c < classes && stats->samples > 0; c++)
        q[c] /= stats->samples;
    for (int kind = 0; kind < PARTITION_MEASURES; kind++)
        stats->measures[kind].worst = NAN;
    for (uint32_t client = 0; client < clients; client++)
        if (sizes[client] > 0) add_client(stats, counts + (size_t)client * classes, sizes[client], q, classes, filled);
    describe_sizes(stats, sizes, clients);
    free(sizes);
    return STATUS_OK;
}

bool partition_has_few_classes(uint32_t *fewest, uint32_t *most, uint32_t *occurring, const Partition *partition,
                               const uint16_t *labels, uint32_t classes) {
    uint32_t *seen = calloc(2 * (size_t)classes, sizeof *seen), *counts = seen + classes; // seen: by client number + 1
    uint64_t all = 0, found = 0;
    uint32_t clients = 0;
    *fewest = classes, *most = *occurring = 0;
    for (uint32_t client = 0, count; client < partition->clients && seen; client++) {
        const uint32_t *indices = partition_client(partition, client, &count);
        uint32_t own = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint16_t label = labels[indices[i]];
            own += seen[label] != client + 1;
            seen[label] = client + 1;
            counts[label]++;
        }
        if (count == 0) continue;
        clients++;
        all += count;
        found += own;
        *fewest = own < *fewest ? own : *fewest;
        *most = own > *most ? own : *most;
    }
    double mixed = 0; // classes among as many samples as a client has, drawn from all
    for (uint32_t c = 0; c < classes && clients > 0; c++) {
        mixed += 1 - pow(1 - counts[c] / (double)all, (double)all / clients);
        *occurring += counts[c] > 0;
    }
    free(seen);
    return clients > 1 && (double)found / clients < 0.6 * mixed;
}
