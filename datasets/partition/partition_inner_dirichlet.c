// Part of partitioner.h: Flower's InnerDirichletPartitioner (Hsu, Qi, Brown 2019): every client has its own mixture of
// the classes, drawn from Dirichlet(alpha), and a given number of samples. The other Dirichlet partitions are in
// dirichlet.c.
#include <math.h>
#include <stdlib.h>

#include "base/keyed_text.h"
#include "base/owned.h"
#include "datasets/partition/partitioner.h"

enum { BLOCK = 256 }; // classes with a common sum: a pick searches the blocks, then one block

typedef struct Inner {
    double *alpha;  // (clients)
    double *priors; // (clients, classes): a client's weight of each class, relative to its greatest weight
    double *sums;   // (clients, blocks): sum over the block's classes that have samples left
    uint32_t *left; // (clients) samples that a client still needs
    uint32_t *open; // (clients) the clients that need any
    uint32_t left_of[DATASET_MAX_CLASSES]; // unused samples
    uint32_t open_count, classes, blocks;
} Inner;

static void sum_block(Inner *inner, uint32_t client, uint32_t block) {
    const double *prior = inner->priors + (size_t)client * inner->classes;
    const uint32_t end = (block + 1) * BLOCK < inner->classes ? (block + 1) * BLOCK : inner->classes;
    double sum = 0;
    for (uint32_t label = block * BLOCK; label < end; label++)
        if (inner->left_of[label] > 0) sum += prior[label];
    inner->sums[(size_t)client * inner->blocks + block] = sum;
}

static double sum_all(const Inner *inner, uint32_t client) {
    double sum = 0;
    for (uint32_t block = 0; block < inner->blocks; block++)
        sum += inner->sums[(size_t)client * inner->blocks + block];
    return sum;
}

// Draws a client's weights, relative to the greatest among the classes that have samples left. It uses logarithms,
// because with a small alpha all numbers themselves may underflow although one class still has a far greater weight
// than the others.
static void draw_prior(Inner *inner, const PartitionTask *task, uint32_t client) {
    const RngKey key = rng_key(task->spec->seed, RNG_PARTITION, STREAM_PRIORS, client, 0);
    double *prior = inner->priors + (size_t)client * task->classes, best = -INFINITY;
    for (uint32_t label = 0; label < task->classes; label++) {
        prior[label] = rng_log_gamma(key, label, inner->alpha[client]);
        if (inner->left_of[label] > 0) best = fmax(best, prior[label]);
    }
    for (uint32_t label = 0; label < task->classes; label++)
        prior[label] = exp(prior[label] - best);
    for (uint32_t block = 0; block < inner->blocks; block++)
        sum_block(inner, client, block);
}

static Status read_sizes(Inner *inner, const PartitionTask *task, Error *err) {
    uint32_t *sizes = NULL;
    if (*form_text(&task->spec->form, 1)) TRY(partition_sizes(&sizes, task, 1, err));
    for (uint32_t client = 0; client < task->clients; client++) {
        inner->left[client] = sizes ? sizes[client] : task->samples / task->clients;
        if (inner->left[client] > 0) inner->open[inner->open_count++] = client;
    }
    free(sizes);
    return STATUS_OK;
}

// u: uniform in [0, 1). The part of used-up classes goes to the others.
static uint32_t pick_class(Inner *inner, const PartitionTask *task, uint32_t client, double u) {
    const double *prior = inner->priors + (size_t)client * inner->classes;
    const double *sums = inner->sums + (size_t)client * inner->blocks;
    if (!(sum_all(inner, client) > 1e-200)) draw_prior(inner, task, client); // its classes are used up
    const double place = u * sum_all(inner, client);
    double running = 0;
    uint32_t block = 0, last = 0;
    while (block + 1 < inner->blocks && !(place < running + sums[block]))
        running += sums[block++];
    while (block > 0 && sums[block] == 0) // rounding has led past the last class
        block--;
    for (uint32_t label = block * BLOCK; label < inner->classes && label < (block + 1) * BLOCK; label++) {
        if (inner->left_of[label] == 0 || prior[label] == 0) continue;
        running += prior[label];
        last = label;
        if (place < running) break;
    }
    return last;
}

// Assigns one sample after another: draws a client that needs samples and a class by its weights, and takes that
// class's last unused sample. Block sums are updated when a class is used up, so that a pick costs blocks +
// BLOCK steps instead of one per class.
static void pick_all(Inner *inner, PartitionTask *task, const ByClass *classes) {
    RngKey key = rng_key(task->spec->seed, RNG_PARTITION, STREAM_PICKS, 0, 0);
    for (uint32_t pick = 0; inner->open_count > 0; pick++) {
        uint32_t place = rng_below(rng_block(key, pick, 0, 1, 0).word[0], inner->open_count);
        uint32_t client = inner->open[place];
        uint32_t label = pick_class(inner, task, client, rng_double(key, pick));
        task->owner[classes->sorted[classes->first[label] + --inner->left_of[label]]] = client;
        for (uint32_t other = 0; other < task->clients && inner->left_of[label] == 0; other++)
            sum_block(inner, other, label / BLOCK);
        if (--inner->left[client] == 0) inner->open[place] = inner->open[--inner->open_count];
    }
}

static Status partition_inner_dirichlet(PartitionTask *task, Error *err) {
    ByClass classes;
    TRY(by_class_init(&classes, task, err));
    const uint32_t blocks = (task->classes + BLOCK - 1) / BLOCK;
    Owned owned = {0};
    Inner inner = {.classes = task->classes,
                   .blocks = blocks,
                   .priors = own(&owned, (size_t)task->clients * task->classes, sizeof(double)),
                   .sums = own(&owned, (size_t)task->clients * blocks, sizeof(double)),
                   .left = own(&owned, task->clients, sizeof(uint32_t)),
                   .open = own(&owned, task->clients, sizeof(uint32_t))};
    for (uint32_t label = 0; label < task->classes; label++)
        inner.left_of[label] = class_size(&classes, label);
    Status status = STATUS_OK;
    if (owned.lacks_memory) status = fail(err, STATUS_OS, "no memory for the proportions of %u clients", task->clients);
    if (status == STATUS_OK) status = read_sizes(&inner, task, err);
    if (status == STATUS_OK) status = partition_reals(&inner.alpha, task, 0, err);
    for (uint32_t client = 0; client < task->clients && status == STATUS_OK; client++)
        draw_prior(&inner, task, client);
    if (status == STATUS_OK) pick_all(&inner, task, &classes);
    owned_free(&owned);
    free(inner.alpha);
    by_class_free(&classes);
    return status;
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner inner_dirichlet_partitioner = {
    .text = {.name = "inner-dirichlet", .source = FLOWER ": InnerDirichletPartitioner (Hsu, Qi, Brown 2019)",
        .help = "each client has its own mixture of classes, from Dirichlet(alpha), and a size of its own",
        .keys = {ALPHA("0.5"),
                 {.name = "sizes", .type = FORM_REALS, .minimum = 0, .maximum = MOST, .preset = "",
                  .help = "samples of a client: one for all, or one for each; equal ones if it is left out"}}},
    .by_class = true, .assign = partition_inner_dirichlet};
// clang-format on
