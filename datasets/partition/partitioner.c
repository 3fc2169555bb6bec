// Functions that partitioners share, and the partitioners that write the clients' lists themselves, in their own order.
#include "datasets/partition/partitioner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_text.h"
#include "base/log.h"
#include "datasets/order.h"

Status by_class_init(ByClass *classes, const PartitionTask *task, Error *err) {
    uint32_t next[DATASET_MAX_CLASSES];
    classes->sorted = malloc(task->samples * sizeof *classes->sorted);
    if (!classes->sorted) return fail(err, STATUS_OS, "no memory for sorting %u samples by label", task->samples);
    memset(classes->first, 0, sizeof classes->first);
    for (uint32_t i = 0; i < task->samples; i++)
        classes->first[task->labels[i] + 1]++;
    for (int label = 0; label < DATASET_MAX_CLASSES; label++)
        classes->first[label + 1] += next[label] = classes->first[label];
    for (uint32_t i = 0; i < task->samples; i++)
        classes->sorted[next[task->labels[i]]++] = i;
    return STATUS_OK;
}

void by_class_free(ByClass *classes) {
    free(classes->sorted);
}

Status partition_reals(double **values, const PartitionTask *task, int key, Error *err) {
    *values = malloc(task->clients * sizeof **values);
    if (!*values) return fail(err, STATUS_OS, "no memory for the numbers of %u clients", task->clients);
    uint32_t count = form_reals(*values, task->clients, &task->spec->form, key);
    for (uint32_t client = 1; client < task->clients && count == 1; client++)
        (*values)[client] = (*values)[0];
    if (count == 1 || count == task->clients) return STATUS_OK;
    free(*values);
    return fail(err, STATUS_USAGE, "%s gives %u numbers for %u clients; give one for all, or one for each",
                form_row(&partition_table, task->spec->form.row)->keys[key].name, count, task->clients);
}

Status partition_sizes(uint32_t **sizes, const PartitionTask *task, int key, Error *err) {
    const char *name = form_row(&partition_table, task->spec->form.row)->name;
    double *wanted, sum = 0;
    TRY(partition_reals(&wanted, task, key, err));
    *sizes = malloc(task->clients * sizeof **sizes);
    Status status = *sizes ? STATUS_OK : fail(err, STATUS_OS, "no memory for the sizes of %u clients", task->clients);
    for (uint32_t client = 0; client < task->clients && status == STATUS_OK; client++) {
        if (wanted[client] != floor(wanted[client]))
            status = fail(err, STATUS_USAGE, "%s: %g samples for client %u; give whole numbers", name, wanted[client],
                          client);
        sum += wanted[client];
        (*sizes)[client] = (uint32_t)wanted[client];
    }
    if (status == STATUS_OK && sum > task->samples)
        status = fail(err, STATUS_USAGE, "%s: the sizes make %.0f samples, and there are %u; give smaller ones", name,
                      sum, task->samples);
    if (status == STATUS_OK && sum < task->samples)
        log_warning("--partition %s: the sizes make %.0f samples, and %u are left over that no client trains on", name,
                    sum, task->samples - (uint32_t)sum);
    if (status != STATUS_OK) free(*sizes);
    free(wanted);
    return status;
}

void fill_identity(uint32_t *indices, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        indices[i] = i;
}

Status random_order(uint32_t **order, uint32_t count, RngKey key, Error *err) {
    *order = malloc(count * sizeof **order);
    if (!*order) return fail(err, STATUS_OS, "no memory for a random order of %u", count);
    fill_identity(*order, count);
    rng_shuffle(*order, count, key);
    return STATUS_OK;
}

static Status build_contiguous(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    (void)err;
    fill_identity(indices, task->samples);
    for (uint32_t client = 0; client < task->clients; client++) {
        uint32_t count;
        contiguous_split(&offsets[client], &count, task->samples, task->clients, client);
        offsets[client + 1] = offsets[client] + count;
    }
    return STATUS_OK;
}

static Status build_iid(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    (void)err;
    fill_identity(indices, task->samples);
    rng_shuffle(indices, task->samples, rng_key(task->spec->seed, RNG_PARTITION, STREAM_IID, 0, 0));
    for (uint32_t client = 0; client <= task->clients; client++)
        offsets[client] = part_start(client, task->clients, task->samples);
    return STATUS_OK;
}

// The shards are cut from the samples sorted by label, so that most of them have samples of only one class.
static Status build_shards(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    const uint32_t per_client = (uint32_t)task->spec->form.number[0];
    if ((uint64_t)task->clients * per_client > task->samples)
        return fail(err, STATUS_USAGE,
                    "%u samples cannot be cut into %u clients * %u shards per client; give 1 to %u shards per client",
                    task->samples, task->clients, per_client, task->samples / task->clients);
    const uint32_t shards = task->clients * per_client;
    ByClass classes;
    uint32_t *order = NULL, filled = 0;
    TRY(by_class_init(&classes, task, err));
    Status status = random_order(&order, shards, rng_key(task->spec->seed, RNG_PARTITION, STREAM_SHARDS, 0, 0), err);
    for (uint32_t i = 0; i < shards && status == STATUS_OK; i++) {
        if (i % per_client == 0) offsets[i / per_client] = filled;
        const uint32_t first = part_start(order[i], shards, task->samples);
        const uint32_t end = part_start(order[i] + 1, shards, task->samples);
        memcpy(indices + filled, classes.sorted + first, (end - first) * sizeof *indices);
        filled += end - first;
    }
    offsets[task->clients] = filled;
    free(order);
    by_class_free(&classes);
    return status;
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner contiguous_partitioner = {
    .text = {.name = "contiguous", .source = "own", .help = "equal runs of the file's order; the last client takes the remainder"},
    .build = build_contiguous};
const Partitioner iid_partitioner = {
    .text = {.name = "iid", .source = FLOWER ": IidPartitioner", .help = "a random permutation, cut into equal runs; sizes differ by at most one"},
    .build = build_iid};
const Partitioner shards_partitioner = {
    .text = {.name = "shards", .source = "McMahan et al. 2017", .help = "sorted by label, cut into shards that differ by at most one sample, dealt at random; none is lost",
        .keys = {{.name = "per-client", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "2", .help = "shards of a client"}}},
    .by_class = true, .build = build_shards};
const Partitioner homo_partitioner = {
    .text = {.name = "homo", .source = NIID_BENCH, .help = "iid by the name it has there"},
    .build = build_iid};
// clang-format on
