#include "datasets/partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/dataset.h"
#include "datasets/dirichlet.h"
#include "datasets/order.h"

enum { PARTITION_MAGIC = 0x50444e53, PARTITION_VERSION = 1 }; // "SNDP"

// The streams of RNG_PARTITION: the first number of a key. 0 is dirichlet_draw's.
enum { STREAM_IID = 1, STREAM_SHARDS, STREAM_CLIENT_ORDER };

// What lies in a block: this header, then offsets (clients + 1, not for whole), then indices (samples).
typedef struct PartitionBlock {
    uint32_t magic, version;
    uint32_t whole; // 1: every client has all samples
    uint32_t clients, samples;
    uint32_t padding;
    uint64_t block_bytes;
} PartitionBlock;

static size_t offset_count(const PartitionSpec *spec) {
    return spec->kind == PARTITION_WHOLE ? 0 : (size_t)spec->clients + 1;
}

size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples) {
    return sizeof(PartitionBlock) + (offset_count(spec) + samples) * sizeof(uint32_t);
}

// The order that sorts samples by label, equal labels in the file's order; class_sizes (256) as a by-product.
static void sort_by_label(uint32_t *indices, uint32_t class_sizes[DATASET_MAX_CLASSES], const uint8_t *labels,
                          uint32_t samples) {
    uint32_t next[DATASET_MAX_CLASSES], first = 0;
    memset(class_sizes, 0, DATASET_MAX_CLASSES * sizeof *class_sizes);
    for (uint32_t i = 0; i < samples; i++)
        class_sizes[labels[i]]++;
    for (int label = 0; label < DATASET_MAX_CLASSES; label++) {
        next[label] = first;
        first += class_sizes[label];
    }
    for (uint32_t i = 0; i < samples; i++)
        indices[next[labels[i]]++] = i;
}

static void fill_identity(uint32_t *indices, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        indices[i] = i;
}

// Where run `run` of `runs` starts when `samples` are cut so that the first ones are longer by one.
static uint32_t run_start(uint32_t run, uint32_t runs, uint32_t samples) {
    uint32_t remainder = samples % runs;
    return samples / runs * run + (run < remainder ? run : remainder);
}

static void build_contiguous(uint32_t *offsets, uint32_t *indices, const PartitionSpec *spec, uint32_t samples) {
    fill_identity(indices, samples);
    for (uint32_t client = 0; client < spec->clients; client++) {
        uint32_t count;
        contiguous_split(&offsets[client], &count, samples, spec->clients, client);
        offsets[client + 1] = offsets[client] + count;
    }
}

static void build_iid(uint32_t *offsets, uint32_t *indices, const PartitionSpec *spec, uint32_t samples) {
    fill_identity(indices, samples);
    rng_shuffle(indices, samples, rng_key(spec->seed, RNG_PARTITION, STREAM_IID, 0, 0));
    for (uint32_t client = 0; client <= spec->clients; client++)
        offsets[client] = run_start(client, spec->clients, samples);
}

static Status build_shards(uint32_t *offsets, uint32_t *indices, const PartitionSpec *spec, const uint8_t *labels,
                           uint32_t samples, Error *err) {
    uint32_t class_sizes[DATASET_MAX_CLASSES];
    const uint32_t shards = spec->clients * spec->shards_per_client; // at most `samples`: checked before
    uint32_t *sorted = malloc(((size_t)samples + shards) * sizeof *sorted);
    if (!sorted) return fail(err, STATUS_OS, "no memory for sorting %u samples into shards", samples);
    uint32_t *deal = sorted + samples;
    sort_by_label(sorted, class_sizes, labels, samples);
    fill_identity(deal, shards);
    rng_shuffle(deal, shards, rng_key(spec->seed, RNG_PARTITION, STREAM_SHARDS, 0, 0));
    uint32_t filled = 0;
    for (uint32_t i = 0; i < shards; i++) {
        if (i % spec->shards_per_client == 0) offsets[i / spec->shards_per_client] = filled;
        const uint32_t first = run_start(deal[i], shards, samples), end = run_start(deal[i] + 1, shards, samples);
        memcpy(indices + filled, sorted + first, (end - first) * sizeof *indices);
        filled += end - first;
    }
    offsets[spec->clients] = filled;
    free(sorted);
    return STATUS_OK;
}

// Deals the sorted samples by the table (classes, clients) of counts, then shuffles each client's own.
static void deal_by_table(uint32_t *offsets, uint32_t *indices, const uint32_t *table, const uint32_t *sorted,
                          uint32_t classes, const PartitionSpec *spec) {
    const uint32_t clients = spec->clients;
    offsets[0] = 0;
    for (uint32_t client = 0; client < clients; client++) {
        offsets[client + 1] = offsets[client];
        for (uint32_t label = 0; label < classes; label++)
            offsets[client + 1] += table[(size_t)label * clients + client];
    }
    // offsets[client] walks to the client's end while it fills, then all are moved back by one client.
    for (uint32_t label = 0; label < classes; label++)
        for (uint32_t client = 0; client < clients; client++) {
            uint32_t count = table[(size_t)label * clients + client];
            memcpy(indices + offsets[client], sorted, count * sizeof *indices);
            offsets[client] += count;
            sorted += count;
        }
    memmove(offsets + 1, offsets, clients * sizeof *offsets);
    offsets[0] = 0;
    for (uint32_t client = 0; client < clients; client++)
        rng_shuffle(indices + offsets[client], offsets[client + 1] - offsets[client],
                    rng_key(spec->seed, RNG_PARTITION, STREAM_CLIENT_ORDER, client, 0));
}

static Status build_dirichlet(uint32_t *offsets, uint32_t *indices, const PartitionSpec *spec, const uint8_t *labels,
                              uint32_t samples, uint32_t classes, Error *err) {
    uint32_t class_sizes[DATASET_MAX_CLASSES];
    size_t cells = (size_t)classes * spec->clients;
    uint32_t *table = malloc((cells + samples) * sizeof *table);
    if (!table) return fail(err, STATUS_OS, "no memory for dealing %u samples to %u clients", samples, spec->clients);
    uint32_t *sorted = table + cells;
    sort_by_label(sorted, class_sizes, labels, samples);
    Status status;
    TRY_GOTO(fail, dirichlet_draw(table, class_sizes, classes, spec->clients, spec->alpha, spec->seed, err));
    deal_by_table(offsets, indices, table, sorted, classes, spec);
fail:
    free(table);
    return status;
}

static Status check_spec(const PartitionSpec *spec, const uint8_t *labels, uint32_t samples, int classes, Error *err) {
    if (spec->clients == 0 || samples == 0)
        return fail(err, STATUS_USAGE, "%u samples cannot be divided among %u clients; both must be at least 1",
                    samples, spec->clients);
    if (spec->kind != PARTITION_WHOLE && spec->clients > samples)
        return fail(err, STATUS_USAGE, "%u samples cannot be divided among %u clients; give at most %u clients",
                    samples, spec->clients, samples);
    if (spec->kind == PARTITION_DIRICHLET && !(spec->alpha > 0 && spec->alpha <= 1e9))
        return fail(err, STATUS_USAGE, "an alpha of %g; Dirichlet proportions need one above 0, at most 1e9",
                    spec->alpha);
    uint64_t shards = (uint64_t)spec->clients * spec->shards_per_client;
    if (spec->kind == PARTITION_SHARDS && (shards == 0 || shards > samples))
        return fail(err, STATUS_USAGE,
                    "%u samples cannot be cut into %u clients * %u shards per client; give 1 to %u shards per client",
                    samples, spec->clients, spec->shards_per_client, samples / spec->clients);
    for (uint32_t i = 0; i < samples; i++)
        if (labels[i] >= classes)
            return fail(err, STATUS_DATA, "label %d of sample %u in a data set of %d classes", labels[i], i, classes);
    return STATUS_OK;
}

Status partition_build(void *memory, const PartitionSpec *spec, const uint8_t *labels, uint32_t samples, int classes,
                       Error *err) {
    TRY(check_spec(spec, labels, samples, classes, err));
    PartitionBlock *block = memory;
    *block = (PartitionBlock){.magic = PARTITION_MAGIC,
                              .version = PARTITION_VERSION,
                              .whole = spec->kind == PARTITION_WHOLE,
                              .clients = spec->clients,
                              .samples = samples,
                              .block_bytes = partition_block_bytes(spec, samples)};
    uint32_t *offsets = (uint32_t *)(block + 1), *indices = offsets + offset_count(spec);
    switch (spec->kind) {
    case PARTITION_CONTIGUOUS:
        build_contiguous(offsets, indices, spec, samples);
        return STATUS_OK;
    case PARTITION_IID:
        build_iid(offsets, indices, spec, samples);
        return STATUS_OK;
    case PARTITION_DIRICHLET:
        return build_dirichlet(offsets, indices, spec, labels, samples, (uint32_t)classes, err);
    case PARTITION_SHARDS:
        return build_shards(offsets, indices, spec, labels, samples, err);
    case PARTITION_WHOLE:
        fill_identity(indices, samples);
        return STATUS_OK;
    }
    return fail(err, STATUS_USAGE, "a partition of unknown kind %d", (int)spec->kind);
}

Status partition_view(Partition *partition, const void *memory, size_t bytes, Error *err) {
    const PartitionBlock *block = memory;
    if (bytes < sizeof *block || block->magic != PARTITION_MAGIC || block->version != PARTITION_VERSION)
        return fail(err, STATUS_DATA, "the partition's block: no header of version %d at byte 0", PARTITION_VERSION);
    const size_t offset_items = block->whole ? 0 : (size_t)block->clients + 1;
    const size_t needed = sizeof *block + (offset_items + block->samples) * sizeof(uint32_t);
    if (block->block_bytes != needed || needed > bytes)
        return fail(err, STATUS_DATA, "the partition's block: %zu bytes, but %u clients and %u samples need %zu", bytes,
                    block->clients, block->samples, needed);
    const uint32_t *offsets = (const uint32_t *)(block + 1);
    for (uint32_t client = 0; client < block->clients && !block->whole; client++)
        if (offsets[client] > offsets[client + 1] || offsets[client + 1] > block->samples)
            return fail(err, STATUS_DATA, "the partition's block: the samples of client %u end at %u of %u", client,
                        offsets[client + 1], block->samples);
    *partition = (Partition){.clients = block->clients,
                             .indices = offsets + offset_items,
                             .offsets = block->whole ? NULL : offsets,
                             .samples = block->samples};
    return STATUS_OK;
}

const uint32_t *partition_client(const Partition *partition, uint32_t client, uint32_t *count) {
    if (!partition->offsets) {
        *count = partition->samples;
        return partition->indices;
    }
    *count = partition->offsets[client + 1] - partition->offsets[client];
    return partition->indices + partition->offsets[client];
}
