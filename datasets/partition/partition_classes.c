// Part of partitioner.h: partitions that give a client a number of classes, or of runs of the samples sorted by label:
// Flower's PathologicalPartitioner, ShardPartitioner and DistributionPartitioner, and NIID-Bench's noniid-#label.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_text.h"
#include "base/log.h"
#include "datasets/partition/partitioner.h"

// Some classes for each client ---------------------------------------------------------------------------------------

enum { MODE_RANDOM, MODE_FIRST_DETERMINISTIC, MODE_DETERMINISTIC };

static uint32_t wrapped(uint64_t label, uint32_t classes) {
    return (uint32_t)(label % classes);
}

// Chooses the classes (count) of one client; chosen (classes): the rest of it is scratch.
static void choose_classes(uint32_t *chosen, const PartitionTask *task, uint32_t client, uint32_t count, int mode) {
    const uint32_t first = wrapped(client, task->classes);
    for (uint32_t i = 0; i < task->classes; i++)
        chosen[i] = mode == MODE_RANDOM ? i : wrapped((uint64_t)first + i, task->classes);
    if (mode == MODE_DETERMINISTIC) return;
    // Draws without replacement: shuffles only the head of the array, after the settled entries.
    const uint32_t settled = mode == MODE_FIRST_DETERMINISTIC;
    RngKey key = rng_key(task->spec->seed, RNG_PARTITION, STREAM_CLASSES, client, 0);
    for (uint32_t i = settled; i < count; i++) {
        uint32_t pick = i + rng_below(rng_block(key, i, 0, 0, 0).word[0], task->classes - i), held = chosen[i];
        chosen[i] = chosen[pick];
        chosen[pick] = held;
    }
}

// wants (clients, classes): whether a client gets samples of a class. Each class is cut into one part for each client
// that wants it, in the clients' order, the first parts longer by one.
static Status assign_wanted(PartitionTask *task, const uint8_t *wants, bool shuffled, const char *name, Error *err) {
    ByClass classes;
    uint32_t unused = 0;
    TRY(by_class_init(&classes, task, err));
    Status status = STATUS_OK;
    for (uint32_t label = 0; label < task->classes && status == STATUS_OK; label++) {
        uint32_t *sorted = classes.sorted + classes.first[label], size = class_size(&classes, label), wanted = 0;
        for (uint32_t client = 0; client < task->clients; client++)
            wanted += wants[(size_t)client * task->classes + label];
        if (wanted == 0) unused += size;
        if (wanted > size)
            status = fail(err, STATUS_USAGE,
                          "%s: %u clients want samples of class %u, and it has %u; lower --clients or "
                          "classes",
                          name, wanted, label, size);
        if (shuffled) rng_shuffle(sorted, size, rng_key(task->spec->seed, RNG_PARTITION, STREAM_CLASS_ORDER, label, 0));
        uint32_t part = 0;
        for (uint32_t client = 0; client < task->clients && wanted > 0 && status == STATUS_OK; client++) {
            if (!wants[(size_t)client * task->classes + label]) continue;
            for (uint32_t i = part_start(part, wanted, size); i < part_start(part + 1, wanted, size); i++)
                task->owner[sorted[i]] = client;
            part++;
        }
    }
    if (unused > 0 && status == STATUS_OK)
        log_warning("--partition %s: nobody has drawn the classes of %u samples, which nobody trains on", name, unused);
    by_class_free(&classes);
    return status;
}

static Status assign_few_classes(PartitionTask *task, uint32_t count, int mode, bool shuffled, const char *name,
                                 Error *err) {
    if (count > task->classes)
        return fail(err, STATUS_USAGE, "%s: classes=%u, and the data set has %u; give at most that", name, count,
                    task->classes);
    uint8_t *wants = calloc(task->clients, task->classes);
    if (!wants) return fail(err, STATUS_OS, "no memory for the classes of %u clients", task->clients);
    uint32_t chosen[DATASET_MAX_CLASSES];
    for (uint32_t client = 0; client < task->clients; client++) {
        choose_classes(chosen, task, client, count, mode);
        for (uint32_t i = 0; i < count; i++)
            wants[(size_t)client * task->classes + chosen[i]] = 1;
    }
    Status status = assign_wanted(task, wants, shuffled, name, err);
    free(wants);
    return status;
}

static Status partition_pathological(PartitionTask *task, Error *err) {
    const Form *form = &task->spec->form;
    return assign_few_classes(task, (uint32_t)form->number[0], (int)form->number[1], false, "pathological", err);
}

static Status partition_noniid_label(PartitionTask *task, Error *err) {
    return assign_few_classes(task, (uint32_t)task->spec->form.number[0], MODE_FIRST_DETERMINISTIC, true,
                              "noniid-label", err);
}

// Shards --------------------------------------------------------------------------------------------------------------

typedef struct ShardPlan {
    uint32_t size, used; // samples of a shard; number of shards that are used
} ShardPlan;

// One of the two numbers may be missing: without a size, all samples are divided into the clients' shards; without a
// number per client, the shards are divided among the clients.
static Status plan_shards(ShardPlan *plan, const PartitionTask *task, Error *err) {
    const Form *form = &task->spec->form;
    const uint32_t per_client = form->given[0] ? (uint32_t)form->number[0] : 0;
    const uint32_t size = form->given[1] ? (uint32_t)form->number[1] : 0;
    const bool keeps_incomplete = form->number[2] != 0;
    const uint64_t wanted = (uint64_t)per_client * task->clients;
    if (!per_client && !size)
        return fail(err, STATUS_USAGE, "shard: needs per-client, size or both; write shard per-client=2");
    *plan = (ShardPlan){.size = size ? size : (uint32_t)(task->samples / wanted)};
    if (!plan->size || wanted > task->samples / plan->size)
        return fail(err, STATUS_USAGE,
                    "shard: %u clients * %u shards * %u samples are more than the %u there are; give "
                    "smaller numbers",
                    task->clients, per_client, plan->size ? plan->size : 1, task->samples);
    uint32_t whole = task->samples / plan->size, rest = task->samples % plan->size;
    plan->used = per_client ? (uint32_t)wanted : whole + (keeps_incomplete && rest > 0);
    if (plan->used < task->clients)
        return fail(err, STATUS_USAGE, "shard: size=%u makes %u shards for %u clients; give a smaller size", plan->size,
                    plan->used, task->clients);
    return STATUS_OK;
}

static Status partition_shard(PartitionTask *task, Error *err) {
    ShardPlan plan = {0};
    ByClass classes;
    TRY(plan_shards(&plan, task, err));
    TRY(by_class_init(&classes, task, err));
    uint32_t *order = NULL;
    Status status = random_order(&order, plan.used, rng_key(task->spec->seed, RNG_PARTITION, STREAM_SHARDS, 1, 0), err);
    for (uint32_t client = 0; client < task->clients && status == STATUS_OK; client++)
        for (uint32_t i = part_start(client, task->clients, plan.used);
             i < part_start(client + 1, task->clients, plan.used); i++)
            for (uint64_t s = (uint64_t)order[i] * plan.size;
                 s < (uint64_t)(order[i] + 1) * plan.size && s < task->samples; s++)
                task->owner[classes.sorted[s]] = client;
    free(order);
    by_class_free(&classes);
    return status;
}

// A distribution ------------------------------------------------------------------------------------------------------

// Computes how many of a class's `size` samples each of its columns gets. Every column gets `preassigned`, the rest is
// split by weights from a lognormal distribution, rounded down, and the remainder goes to one random column.
static Status share_class(uint32_t *columns, const PartitionTask *task, uint32_t label, uint32_t size, uint32_t count,
                          Error *err) {
    const Form *form = &task->spec->form;
    const uint32_t preassigned = (uint32_t)form->number[3];
    RngKey key = rng_key(task->spec->seed, RNG_PARTITION, STREAM_SIZES, label, 0);
    if ((uint64_t)preassigned * count > size)
        return fail(err, STATUS_USAGE,
                    "distribution: class %u has %u samples for %u parts with %u preassigned each; lower "
                    "preassigned or --clients",
                    label, size, count, preassigned);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += exp(form->number[1] + form->number[2] * rng_normal(key, i));
    uint32_t given = 0, rest = size - preassigned * count;
    for (uint32_t i = 0; i < count; i++) {
        double weight = exp(form->number[1] + form->number[2] * rng_normal(key, i)) / sum;
        columns[i] = preassigned + (uint32_t)(weight * rest);
        given += columns[i];
    }
    columns[rng_below(rng_block(key, 0, 2, 0, 0).word[0], count)] += size - given;
    return STATUS_OK;
}

// Client i takes the next free column of each of the classes i, i + 1, ..., i + C - 1.
static void take_columns(PartitionTask *task, uint32_t label, const uint32_t *columns, const uint32_t *sorted,
                         uint32_t per_client) {
    uint32_t column = 0;
    for (uint32_t client = 0; client < task->clients; client++) {
        uint32_t distance = (label + task->classes - client % task->classes) % task->classes;
        if (distance >= per_client) continue;
        for (uint32_t i = 0; i < columns[column]; i++)
            task->owner[*sorted++] = client;
        column++;
    }
}

static Status partition_distribution(PartitionTask *task, Error *err) {
    const uint32_t per_client = (uint32_t)task->spec->form.number[0];
    if (per_client > task->classes || task->clients % task->classes != 0)
        return fail(err, STATUS_USAGE,
                    "distribution: %u clients with %u classes each; the clients must be a multiple of the "
                    "data set's %u classes, and classes at most that",
                    task->clients, per_client, task->classes);
    const uint32_t count = task->clients / task->classes * per_client;
    ByClass classes;
    TRY(by_class_init(&classes, task, err));
    uint32_t *columns = malloc(count * sizeof *columns);
    Status status = columns ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u parts of a class", count);
    for (uint32_t label = 0; label < task->classes && status == STATUS_OK; label++) {
        status = share_class(columns, task, label, class_size(&classes, label), count, err);
        if (status == STATUS_OK) take_columns(task, label, columns, classes.sorted + classes.first[label], per_client);
    }
    free(columns);
    by_class_free(&classes);
    return status;
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner pathological_partitioner = {
    .text = {.name = "pathological", .source = FLOWER ": PathologicalPartitioner",
        .help = "every client has so many classes; a class is cut evenly among those who have it, one that nobody has is lost",
        .keys = {CLASSES_EACH("2"),
                 {.name = "mode", .type = FORM_CHOICE, .preset = "random", .choices = "random first-deterministic deterministic",
                  .help = "which: at random; the client's number modulo the classes, then at random; or the classes from that on"}}},
    .by_class = true, .assign = partition_pathological};
const Partitioner shard_partitioner = {
    .text = {.name = "shard", .source = FLOWER ": ShardPartitioner",
        .help = "sorted by label, cut into equal shards, dealt at random; what does not fill a shard is lost",
        .keys = {COUNT("per-client", "", "shards of a client"),
                 COUNT("size", "", "samples of a shard; one of the two, or both"),
                 {.name = "keep-incomplete", .type = FORM_CHOICE, .preset = "no", .choices = "no yes",
                  .help = "whether a last, smaller shard is dealt, too (with size alone)"}}},
    .by_class = true, .assign = partition_shard};
const Partitioner distribution_partitioner = {
    .text = {.name = "distribution", .source = FLOWER ": DistributionPartitioner, with FedProx's power law",
        .help = "so many classes a client, neighbours in a ring; how much of each, by a lognormal distribution",
        .keys = {CLASSES_EACH("2"),
                 {.name = "mean", .type = FORM_REAL, .minimum = -100, .maximum = 100, .preset = "0", .help = "of the logarithm"},
                 {.name = "sigma", .type = FORM_REAL, .minimum = 0, .maximum = 100, .preset = "2", .help = "its standard deviation"},
                 {.name = "preassigned", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "5", .help = "samples of each of a client's classes, before the rest is dealt"}}},
    .by_class = true, .assign = partition_distribution};
const Partitioner noniid_label_partitioner = {
    .text = {.name = "noniid-label", .source = "NIID-Bench: noniid-#label",
        .help = "pathological with mode=first-deterministic, each class shuffled before it is cut",
        .keys = {CLASSES_EACH("2")}},
    .by_class = true, .assign = partition_noniid_label};
// clang-format on
