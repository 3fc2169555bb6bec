#include "datasets/partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/dataset.h"
#include "datasets/deal.h"

enum { PARTITION_MAGIC = 0x50444e53, PARTITION_VERSION = 1 }; // "SNDP"

// What lies in a block: this header, then offsets (clients + 1, not for whole), then indices (samples), then, with
// `tests`, how many of them each client holds out (clients).
typedef struct PartitionBlock {
    uint32_t magic, version;
    uint32_t whole; // 1: every client has all samples
    uint32_t clients, samples;
    uint32_t tests; // 1: clients hold samples out
    uint64_t block_bytes;
} PartitionBlock;

static size_t offset_count(const PartitionSpec *spec) {
    return spec->whole ? 0 : (size_t)spec->clients + 1;
}

size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples) {
    size_t tests = spec->client_test > 0 ? spec->clients : 0;
    return sizeof(PartitionBlock) + (offset_count(spec) + samples + tests) * sizeof(uint32_t);
}

static void fill_identity(uint32_t *indices, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        indices[i] = i;
}

// From owners to lists: each client's samples in the file's order, then shuffled if they may be.
static void list_owned(uint32_t *offsets, uint32_t *indices, const Deal *deal) {
    memset(offsets, 0, ((size_t)deal->clients + 1) * sizeof *offsets);
    for (uint32_t i = 0; i < deal->samples; i++)
        if (deal->owner[i] != NOBODY) offsets[deal->owner[i] + 1]++;
    for (uint32_t client = 0; client < deal->clients; client++)
        offsets[client + 1] += offsets[client];
    // offsets[client] walks to the client's end while it fills, then all are moved back by one client.
    for (uint32_t i = 0; i < deal->samples; i++)
        if (deal->owner[i] != NOBODY) indices[offsets[deal->owner[i]]++] = i;
    memmove(offsets + 1, offsets, deal->clients * sizeof *offsets);
    offsets[0] = 0;
    for (uint32_t client = 0; client < deal->clients && !deal->keeps_order; client++)
        rng_shuffle(indices + offsets[client], offsets[client + 1] - offsets[client],
                    rng_key(deal->spec->seed, RNG_PARTITION, STREAM_CLIENT_ORDER, client, 0));
}

static Status build_by_owners(uint32_t *offsets, uint32_t *indices, Deal *deal, const Partitioner *partitioner,
                              Error *err) {
    deal->owner = malloc(deal->samples * sizeof *deal->owner);
    if (!deal->owner) return fail(err, STATUS_OS, "no memory for the owners of %u samples", deal->samples);
    for (uint32_t i = 0; i < deal->samples; i++)
        deal->owner[i] = NOBODY;
    Status status = partitioner->deal(deal, err);
    if (status == STATUS_OK) list_owned(offsets, indices, deal);
    free(deal->owner);
    return status;
}

static Status check_spec(const PartitionSpec *spec, const uint16_t *labels, uint32_t samples, int classes, Error *err) {
    if (spec->clients == 0 || samples == 0)
        return fail(err, STATUS_USAGE, "%u samples cannot be divided among %u clients; both must be at least 1",
                    samples, spec->clients);
    if (!(spec->client_test >= 0 && spec->client_test < 1) || (spec->whole && spec->client_test > 0))
        return fail(err, STATUS_USAGE,
                    "%g of a client's samples cannot be held out; give a share from 0 to below 1, and "
                    "clients with samples of their own",
                    spec->client_test);
    if (!spec->whole && spec->clients > samples)
        return fail(err, STATUS_USAGE, "%u samples cannot be divided among %u clients; give at most %u clients",
                    samples, spec->clients, samples);
    const FormRow *row = &partition_table.rows[spec->form.row];
    if (!labels && !spec->whole && partitioners[spec->form.row].by_class)
        return fail(err, STATUS_USAGE, "%s: deals by class, and the data set has targets instead of classes; take %s",
                    row->name, spec->users ? "natural-id" : "iid");
    for (uint32_t i = 0; i < samples && labels; i++)
        if (labels[i] >= classes)
            return fail(err, STATUS_DATA, "label %d of sample %u in a data set of %d classes", labels[i], i, classes);
    return STATUS_OK;
}

// The last samples of each client, in an order of their own, are not trained on; somebody trains on at least one.
static void hold_out(uint32_t *tests, const uint32_t *offsets, uint32_t *indices, const PartitionSpec *spec) {
    for (uint32_t client = 0; client < spec->clients; client++) {
        const uint32_t count = offsets[client + 1] - offsets[client];
        rng_shuffle(indices + offsets[client], count, rng_key(spec->seed, RNG_PARTITION, STREAM_HELD_OUT, client, 0));
        // 1e-9: (1 - 0.1) * 10 shall be 9, however the two are rounded.
        uint32_t trains = (uint32_t)((1 - spec->client_test) * count + 1e-9);
        if (trains == 0 && count > 0) trains = 1;
        tests[client] = count - trains;
    }
}

Status partition_build(void *memory, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples, int classes,
                       Error *err) {
    TRY(check_spec(spec, labels, samples, classes, err));
    PartitionBlock *block = memory;
    *block = (PartitionBlock){.magic = PARTITION_MAGIC,
                              .version = PARTITION_VERSION,
                              .whole = spec->whole,
                              .clients = spec->clients,
                              .samples = samples,
                              .tests = spec->client_test > 0,
                              .block_bytes = partition_block_bytes(spec, samples)};
    uint32_t *offsets = (uint32_t *)(block + 1), *indices = offsets + offset_count(spec);
    if (spec->whole) {
        fill_identity(indices, samples);
        return STATUS_OK;
    }
    Deal deal = {
        .spec = spec, .labels = labels, .samples = samples, .classes = (uint32_t)classes, .clients = spec->clients};
    const Partitioner *partitioner = &partitioners[spec->form.row];
    TRY(partitioner->build ? partitioner->build(offsets, indices, &deal, err)
                           : build_by_owners(offsets, indices, &deal, partitioner, err));
    block->samples = offsets[spec->clients];
    block->block_bytes -= (samples - block->samples) * sizeof(uint32_t);
    if (block->tests) hold_out(indices + block->samples, offsets, indices, spec);
    return STATUS_OK;
}

Status partition_view(Partition *partition, const void *memory, size_t bytes, Error *err) {
    const PartitionBlock *block = memory;
    if (bytes < sizeof *block || block->magic != PARTITION_MAGIC || block->version != PARTITION_VERSION)
        return fail(err, STATUS_DATA, "the partition's block: no header of version %d at byte 0", PARTITION_VERSION);
    const size_t offset_items = block->whole ? 0 : (size_t)block->clients + 1;
    const size_t tests = block->tests ? block->clients : 0;
    const size_t needed = sizeof *block + (offset_items + block->samples + tests) * sizeof(uint32_t);
    if (block->block_bytes != needed || needed > bytes || (block->tests && block->whole))
        return fail(err, STATUS_DATA, "the partition's block: %zu bytes, but %u clients and %u samples need %zu", bytes,
                    block->clients, block->samples, needed);
    const uint32_t *offsets = (const uint32_t *)(block + 1);
    for (uint32_t client = 0; client < block->clients && !block->whole; client++)
        if (offsets[client] > offsets[client + 1] || offsets[client + 1] > block->samples)
            return fail(err, STATUS_DATA, "the partition's block: the samples of client %u end at %u of %u", client,
                        offsets[client + 1], block->samples);
    const uint32_t *held_out = offsets + offset_items + block->samples;
    for (uint32_t client = 0; client < block->clients && block->tests; client++)
        if (held_out[client] > offsets[client + 1] - offsets[client])
            return fail(err, STATUS_DATA, "the partition's block: client %u holds out %u of %u samples", client,
                        held_out[client], offsets[client + 1] - offsets[client]);
    *partition = (Partition){.clients = block->clients,
                             .indices = offsets + offset_items,
                             .tests = block->tests ? held_out : NULL,
                             .offsets = block->whole ? NULL : offsets,
                             .samples = block->samples};
    return STATUS_OK;
}

const uint32_t *partition_client(const Partition *partition, uint32_t client, uint32_t *count) {
    if (!partition->offsets) {
        *count = partition->samples;
        return partition->indices;
    }
    const uint32_t tests = partition->tests ? partition->tests[client] : 0;
    *count = partition->offsets[client + 1] - partition->offsets[client] - tests;
    return partition->indices + partition->offsets[client];
}

const uint32_t *partition_client_test(const Partition *partition, uint32_t client, uint32_t *count) {
    *count = partition->tests ? partition->tests[client] : 0;
    return *count ? partition->indices + partition->offsets[client + 1] - *count : partition->indices;
}
