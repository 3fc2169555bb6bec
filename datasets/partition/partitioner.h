// Dealing samples to clients: what every partitioner fills in. The rows of partition_table.c name these functions; who
// adds one adds its form there.
//
// A partitioner says for each sample which client owns it. Samples that nobody owns are lost, as its source has it;
// a client's samples are then put in a random order, unless the source keeps the file's.
#ifndef SOUNDER_DATASETS_PARTITION_PARTITIONER_H
#define SOUNDER_DATASETS_PARTITION_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"

enum { NOBODY = UINT32_MAX };

// The streams of RNG_PARTITION: the first number of a key. 0 is dirichlet_draw's.
enum {
    STREAM_IID = 1,
    STREAM_SHARDS,
    STREAM_CLIENT_ORDER,
    STREAM_PRIORS,  // class proportions of one client
    STREAM_PICKS,   // one sample after the other
    STREAM_CLASSES, // which classes a client gets
    STREAM_CLASS_ORDER,
    STREAM_SIZES,
    STREAM_NOISE,
    STREAM_HELD_OUT,
};

typedef struct PartitionTask {
    const PartitionSpec *spec; // clients, seed and the form's numbers, in the order of the row's keys
    const uint16_t *labels;    // (samples), each below classes; NULL only for those that do not look at them
    uint32_t samples, classes, clients;
    uint32_t *owner;  // (samples) out: a client or NOBODY, which is what it begins with
    bool keeps_order; // out: a client's samples stay in the file's order
} PartitionTask;

// The samples by label, in the file's order within a label: class c has sorted[first[c]] to sorted[first[c + 1] - 1].
typedef struct ByClass {
    uint32_t *sorted; // owned (samples)
    uint32_t first[DATASET_MAX_CLASSES + 1];
} ByClass;

// OS. Nothing to free on failure.
Status by_class_init(ByClass *classes, const PartitionTask *task, Error *err);
void by_class_free(ByClass *classes);

static inline uint32_t class_size(const ByClass *classes, uint32_t label) {
    return classes->first[label + 1] - classes->first[label];
}

// Where part `part` of `parts` starts when `samples` are cut so that the first ones are longer by one.
static inline uint32_t part_start(uint32_t part, uint32_t parts, uint32_t samples) {
    uint32_t remainder = samples % parts;
    return samples / parts * part + (part < remainder ? part : remainder);
}

// A double in [0, 1) as number `index` of a stream.
static inline double partition_uniform(RngKey key, uint32_t index) {
    RngBlock block = rng_block(key, index, 0, 0, 0);
    return ((double)(((uint64_t)block.word[0] << 21) | (block.word[1] >> 11))) * 0x1p-53;
}

// How often a partition of so many random numbers is drawn until it fits: at most 100,000 times, and no more than some
// ten million numbers, which take seconds.
static inline uint32_t partition_tries(uint64_t numbers) {
    enum { MOST_TRIES = 100000, LEAST_TRIES = 11, MOST_NUMBERS = 10000000 };
    const uint64_t tries = MOST_NUMBERS / (numbers > 0 ? numbers : 1);
    return tries > MOST_TRIES ? MOST_TRIES : tries < LEAST_TRIES ? LEAST_TRIES : (uint32_t)tries;
}

// The numbers of a REALS part: one for all clients or one each; malloc'ed into *values (clients). USAGE when there are
// more or fewer; then nothing is to be freed.
Status partition_reals(double **values, const PartitionTask *task, int key, const char *name, Error *err);

// Those that write the lists themselves: offsets (clients + 1), indices (samples).
Status build_contiguous(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err);
Status build_iid(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err);
Status build_shards(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err);
Status build_dirichlet(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err);
Status build_noniid_labeldir(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err);
Status build_file(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err);

// Those that name owners.
Status partition_inner_dirichlet(PartitionTask *task, Error *err);
Status partition_pathological(PartitionTask *task, Error *err);
Status partition_noniid_label(PartitionTask *task, Error *err);
Status partition_shard(PartitionTask *task, Error *err);
Status partition_distribution(PartitionTask *task, Error *err);
Status partition_linear(PartitionTask *task, Error *err);
Status partition_square(PartitionTask *task, Error *err);
Status partition_exponential(PartitionTask *task, Error *err);
Status partition_size(PartitionTask *task, Error *err);
Status partition_natural_id(PartitionTask *task, Error *err);
Status partition_grouped_natural_id(PartitionTask *task, Error *err);
Status partition_leaf(PartitionTask *task, Error *err);
Status partition_leaf_iid(PartitionTask *task, Error *err);
Status partition_similarity(PartitionTask *task, Error *err);
Status partition_continuous(PartitionTask *task, Error *err);
Status partition_quantity(PartitionTask *task, Error *err);

// What is behind the rows of partition_table, in the same order.

// One of the two functions.
typedef struct Partitioner {
    bool by_class; // looks at labels
    bool by_user;  // all samples that it deals of a user go to one client (with `deal`)

    Status (*assign)(PartitionTask *task, Error *err); // names owners
    Status (*build)(uint32_t *offsets, uint32_t *indices, const PartitionTask *task,
                    Error *err); // writes the lists
} Partitioner;

extern const Partitioner partitioners[];

// How many samples of each class each client gets under the Dirichlet partition; partition.h says by which rules.

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
