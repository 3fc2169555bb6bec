// The contract of a partitioner: the task that it is given, and the owners that it assigns. A new partitioner is a file
// with its functions and its row, `const Partitioner NAME_partitioner`, and its name in PARTITIONERS.
//
// A partitioner assigns each sample to the client that owns it. Samples without an owner are left out, if its source
// says so; a client's samples are then shuffled, unless the source keeps the file's order.
#ifndef SOUNDER_DATASETS_PARTITION_PARTITIONER_H
#define SOUNDER_DATASETS_PARTITION_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "base/rng.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"

enum { NOBODY = UINT32_MAX };

// The streams of RNG_PARTITION: the first index of a key. dirichlet.c uses 0, too.
enum {
    STREAM_IID = 1,
    STREAM_SHARDS,
    STREAM_CLIENT_ORDER,
    STREAM_PRIORS,  // class proportions of one client
    STREAM_PICKS,   // picks of one sample after another
    STREAM_CLASSES, // the choice of a client's classes
    STREAM_CLASS_ORDER,
    STREAM_SIZES,
    STREAM_NOISE,
    STREAM_HELD_OUT,
    STREAM_VALIDATION,
};

typedef struct PartitionTask {
    const PartitionSpec *spec; // clients, seed and the form's numbers in the order of the row's keys
    const uint16_t *labels;    // (samples), each below classes; NULL only for partitioners that do not use them
    uint32_t samples, classes, clients;
    uint32_t *owner;  // (samples) out: a client; NOBODY at first
    bool keeps_order; // out: a client's samples stay in the file's order
} PartitionTask;

// The samples by label, in the file's order within a label: class c has sorted[first[c]] to sorted[first[c + 1] - 1].
typedef struct ByClass {
    uint32_t *sorted; // owned (samples)
    uint32_t first[DATASET_MAX_CLASSES + 1];
} ByClass;

// Fails with OS. Nothing to free on failure.
Status by_class_init(ByClass *classes, const PartitionTask *task, Error *err);
void by_class_free(ByClass *classes);

static inline uint32_t class_size(const ByClass *classes, uint32_t label) {
    return classes->first[label + 1] - classes->first[label];
}

// First sample of part `part` of `parts` if `samples` are cut so that the first parts are longer by one.
static inline uint32_t part_start(uint32_t part, uint32_t parts, uint32_t samples) {
    uint32_t remainder = samples % parts;
    return samples / parts * part + (part < remainder ? part : remainder);
}

// How many times a partition that needs `numbers` random numbers is drawn until it fits: at most 100,000 times, and
// about ten million numbers, which takes seconds; at least 11 times.
static inline uint32_t partition_tries(uint64_t numbers) {
    enum { MOST_TRIES = 100000, LEAST_TRIES = 11, MOST_NUMBERS = 10000000 };
    const uint64_t tries = MOST_NUMBERS / (numbers > 0 ? numbers : 1);
    return tries > MOST_TRIES ? MOST_TRIES : tries < LEAST_TRIES ? LEAST_TRIES : (uint32_t)tries;
}

// Reads a REALS part: one number for all clients, or one for each; the caller frees *values (clients). Fails with USAGE
// for any other count, and leaves nothing to free.
Status partition_reals(double **values, const PartitionTask *task, int key, Error *err);

// As partition_reals, for how many samples each client gets; a warning tells of samples that no client gets. Fails with
// USAGE, too, for numbers that are not whole and for more samples than there are.
Status partition_sizes(uint32_t **sizes, const PartitionTask *task, int key, Error *err);

// Fills indices (count) with 0, 1, 2, ...
void fill_identity(uint32_t *indices, uint32_t count);

// Draws a random order of 0 to count - 1; the caller frees *order (count). Fails with OS.
Status random_order(uint32_t **order, uint32_t count, RngKey key, Error *err);

// A partitioner has either `assign` or `build`. Its row is in the file of its functions.
typedef struct Partitioner {
    FormRow text;
    bool by_class;  // uses labels
    bool by_user;   // all assigned samples of a user belong to one client (with `assign`)
    bool of_a_user; // and that client has no others: a client is a user
    bool by_number; // names samples of the whole training set

    Status (*assign)(PartitionTask *task, Error *err); // names owners
    Status (*build)(uint32_t *offsets, uint32_t *indices, const PartitionTask *task,
                    Error *err); // writes the lists: offsets (clients + 1), indices (samples)
} Partitioner;

// The partitioners, in the order of the help.
#define PARTITIONERS(EACH)                                                                                             \
    EACH(contiguous)                                                                                                   \
    EACH(iid)                                                                                                          \
    EACH(dirichlet)                                                                                                    \
    EACH(shards)                                                                                                       \
    EACH(inner_dirichlet)                                                                                              \
    EACH(pathological)                                                                                                 \
    EACH(shard)                                                                                                        \
    EACH(linear)                                                                                                       \
    EACH(square)                                                                                                       \
    EACH(exponential)                                                                                                  \
    EACH(size)                                                                                                         \
    EACH(distribution)                                                                                                 \
    EACH(noniid_labeldir)                                                                                              \
    EACH(noniid_label)                                                                                                 \
    EACH(natural_id)                                                                                                   \
    EACH(file)                                                                                                         \
    EACH(grouped_natural_id)                                                                                           \
    EACH(continuous)                                                                                                   \
    EACH(iid_diff_quantity)                                                                                            \
    EACH(homo)                                                                                                         \
    EACH(similarity)                                                                                                   \
    EACH(leaf)                                                                                                         \
    EACH(leaf_iid)

#define DECLARE_PARTITIONER(name) extern const Partitioner name##_partitioner;
PARTITIONERS(DECLARE_PARTITIONER)

extern const Partitioner *const partitioners[]; // in that order

// Parts of rows.
#define FLOWER     "Flower Datasets"
#define MOST       1e9
#define NIID_BENCH "NIID-Bench (Li, Diao, Chen, He, ICDE 2022)"

#define ALPHA(preset_)                                                                                                 \
    {                                                                                                                  \
        .name = "alpha", .type = FORM_REALS, .minimum = 1e-9, .maximum = 1e9, .preset = preset_,                       \
        .help = "concentration: the smaller, the fewer classes a client has; one, or one for each client"              \
    }
#define COUNT(name_, preset_, help_)                                                                                   \
    { .name = name_, .type = FORM_WHOLE, .minimum = 1, .maximum = MOST, .preset = preset_, .help = help_ }
#define CLASSES_EACH(preset_)                                                                                          \
    {                                                                                                                  \
        .name = "classes", .type = FORM_WHOLE, .minimum = 1, .maximum = DATASET_MAX_CLASSES, .preset = preset_,        \
        .help = "of a client"                                                                                          \
    }

#endif
