// Part of partition.h: from a partition's text to the samples of each client.
#include "datasets/partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/dataset.h"
#include "datasets/partition/partitioner.h"
#include "datasets/partition/validation.h"

enum { PARTITION_MAGIC = 0x50444e53, PARTITION_VERSION = 1, VALIDATED = 1 << 8 }; // "SNDP"

// A block contains this header, offsets (clients + 1, not with `whole`) and indices (samples). If clients hold samples
// out, the number for each client follows (clients); if clients have test samples of their own, the offsets of those
// (clients + 1) and their indices in the test set follow. If there is a validation set, its indices and their number
// are last: the block of another partition, whose hash identifies a run, has no place for them.
typedef struct PartitionBlock {
    uint32_t magic, version;
    uint32_t whole; // 1: every client has all samples
    uint32_t clients, samples;
    uint32_t tests; // TestedOn; VALIDATED: there is a validation set
    uint64_t block_bytes;
} PartitionBlock;

static size_t offset_count(const PartitionSpec *spec) {
    return spec->whole ? 0 : (size_t)spec->clients + 1;
}

// A test set has owners if the training set has; if its files name no owners, no entry is a user.
static TestedOn tests_on(const PartitionSpec *spec) {
    const bool by_user = spec->owners && spec->test_owners && !spec->whole && partitioners[spec->form.row]->by_user;
    if (spec->client_test > 0) return TESTS_ON_HELD_OUT;
    for (uint32_t i = 0; i < spec->test_samples && by_user; i++)
        if (spec->test_owners[i] < spec->users) return TESTS_ON_OWN;
    return TESTS_ON_TRAINING;
}

size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples) {
    const size_t tests[] = {[TESTS_ON_TRAINING] = 0,
                            [TESTS_ON_HELD_OUT] = spec->clients,
                            [TESTS_ON_OWN] = (size_t)spec->clients + 1 + spec->test_samples};
    const size_t validation = has_validation(spec);
    return sizeof(PartitionBlock) +
           (offset_count(spec) + samples + tests[tests_on(spec)] + validation) * sizeof(uint32_t);
}

// Turns owners (samples), each a client or NOBODY, into lists: each client's samples in the file's order.
static void list_by_owner(uint32_t *offsets, uint32_t *indices, const uint32_t *owner, uint32_t samples,
                          uint32_t clients) {
    memset(offsets, 0, ((size_t)clients + 1) * sizeof *offsets);
    for (uint32_t i = 0; i < samples; i++)
        if (owner[i] != NOBODY) offsets[owner[i] + 1]++;
    for (uint32_t client = 0; client < clients; client++)
        offsets[client + 1] += offsets[client];
    // While the lists are filled, offsets[client] moves to the client's end; then all offsets are moved back by one
    // client.
    for (uint32_t i = 0; i < samples; i++)
        if (owner[i] != NOBODY) indices[offsets[owner[i]]++] = i;
    assert(clients == 0 || offsets[clients - 1] == offsets[clients]); // the last client's list is full
    memmove(offsets + 1, offsets, clients * sizeof *offsets);
    offsets[0] = 0;
}

// A user's test samples belong to the client that has its training samples; those of other users belong to no client.
static Status list_own_tests(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    const PartitionSpec *spec = task->spec;
    uint32_t *client_of = malloc(((size_t)spec->users + spec->test_samples) * sizeof *client_of);
    if (!client_of) return fail(err, STATUS_OS, "no memory for the owners of %u test samples", spec->test_samples);
    uint32_t *owner = client_of + spec->users;
    for (uint32_t user = 0; user < spec->users; user++)
        client_of[user] = NOBODY;
    for (uint32_t i = 0; i < task->samples; i++)
        if (task->owner[i] != NOBODY) client_of[spec->owners[i]] = task->owner[i];
    for (uint32_t i = 0; i < spec->test_samples; i++)
        owner[i] = spec->test_owners[i] < spec->users ? client_of[spec->test_owners[i]] : NOBODY;
    list_by_owner(offsets, indices, owner, spec->test_samples, task->clients);
    free(client_of);
    return STATUS_OK;
}

static Status build_by_owners(uint32_t *offsets, uint32_t *indices, PartitionTask *task, const Partitioner *partitioner,
                              Error *err) {
    task->owner = malloc(task->samples * sizeof *task->owner);
    if (!task->owner) return fail(err, STATUS_OS, "no memory for the owners of %u samples", task->samples);
    for (uint32_t i = 0; i < task->samples; i++)
        task->owner[i] = NOBODY;
    Status status = partitioner->assign(task, err);
    if (status == STATUS_OK) list_by_owner(offsets, indices, task->owner, task->samples, task->clients);
    for (uint32_t client = 0; client < task->clients && status == STATUS_OK && !task->keeps_order; client++)
        rng_shuffle(indices + offsets[client], offsets[client + 1] - offsets[client],
                    rng_key(task->spec->seed, RNG_PARTITION, STREAM_CLIENT_ORDER, client, 0));
    uint32_t *tests = indices + (status == STATUS_OK ? offsets[task->clients] : 0);
    if (status == STATUS_OK && tests_on(task->spec) == TESTS_ON_OWN)
        status = list_own_tests(tests, tests + task->clients + 1, task, err);
    free(task->owner);
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
        return fail(err, STATUS_USAGE, "%u sample%s cannot be divided among %u clients; give at most %u client%s",
                    samples, samples == 1 ? "" : "s", spec->clients, samples, samples == 1 ? "" : "s");
    const FormRow *row = form_row(&partition_table, spec->form.row);
    if (!labels && !spec->whole && partitioners[spec->form.row]->by_class)
        return fail(err, STATUS_USAGE, "%s: deals by class, and the data set has targets instead of classes; take %s",
                    row->name, spec->users ? "natural-id" : "iid");
    for (uint32_t i = 0; i < samples && labels; i++)
        if (labels[i] >= classes)
            return fail(err, STATUS_DATA, "label %d of sample %u in a data set of %d classes", labels[i], i, classes);
    return STATUS_OK;
}

// Shuffles each client's samples and holds the last ones out; a client with samples trains on at least one.
static void hold_out(uint32_t *tests, const uint32_t *offsets, uint32_t *indices, const PartitionSpec *spec) {
    for (uint32_t client = 0; client < spec->clients; client++) {
        const uint32_t count = offsets[client + 1] - offsets[client];
        rng_shuffle(indices + offsets[client], count, rng_key(spec->seed, RNG_PARTITION, STREAM_HELD_OUT, client, 0));
        // 1e-9: (1 - 0.1) * 10 has to be 9, whatever the rounding of both numbers.
        uint32_t trains = (uint32_t)((1 - spec->client_test) * count + 1e-9);
        assert(trains <= count);
        if (trains == 0 && count > 0) trains = 1;
        tests[client] = count - trains;
    }
}

// A partitioner either writes the clients' lists itself or assigns owners, from which the lists are made. If it leaves
// samples out, the block becomes shorter than partition_block_bytes said.
static Status build(void *memory, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples, int classes,
                    Error *err) {
    TRY(check_spec(spec, labels, samples, classes, err));
    PartitionBlock *block = memory;
    *block = (PartitionBlock){.magic = PARTITION_MAGIC,
                              .version = PARTITION_VERSION,
                              .whole = spec->whole,
                              .clients = spec->clients,
                              .samples = samples,
                              .tests = tests_on(spec),
                              .block_bytes = partition_block_bytes(spec, samples)};
    uint32_t *offsets = (uint32_t *)(block + 1), *indices = offsets + offset_count(spec);
    if (spec->whole) {
        fill_identity(indices, samples);
        return STATUS_OK;
    }
    PartitionTask task = {
        .spec = spec, .labels = labels, .samples = samples, .classes = (uint32_t)classes, .clients = spec->clients};
    const Partitioner *partitioner = partitioners[spec->form.row];
    TRY(partitioner->build ? partitioner->build(offsets, indices, &task, err)
                           : build_by_owners(offsets, indices, &task, partitioner, err));
    block->samples = offsets[spec->clients];
    assert(offsets[0] == 0 && block->samples <= samples); // a partitioner may leave samples out, but makes none
    block->block_bytes -= (samples - block->samples) * sizeof(uint32_t);
    uint32_t *tests = indices + block->samples;
    if (block->tests == TESTS_ON_HELD_OUT) hold_out(tests, offsets, indices, spec);
    if (block->tests == TESTS_ON_OWN)
        block->block_bytes -= (spec->test_samples - tests[spec->clients]) * sizeof(uint32_t);
    return STATUS_OK;
}

static int by_number(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

// A file of a partition names samples of the whole training set, and may name none of the validation set: share and
// seed must be those that it was saved with.
static Status check_file(const uint32_t *indices, uint32_t count, const Remaining *remaining, Error *err) {
    const uint32_t *validation = remaining->numbers + remaining->samples;
    for (uint32_t i = 0; i < count; i++)
        if (bsearch(&indices[i], validation, remaining->validation, sizeof *validation, by_number))
            return fail(err, STATUS_USAGE,
                        "%.200s has sample %u, which belongs to the validation set; save it again with `sounder "
                        "partition` and these data, --validation %g, --seed %llu, --save",
                        form_text(&remaining->spec.form, 0), indices[i], remaining->share,
                        (unsigned long long)remaining->spec.seed);
    return STATUS_OK;
}

// Builds the partition of the samples that are not of the validation set, and gives them their numbers back.
static Status build_remaining(PartitionBlock *block, const Remaining *remaining, const uint16_t *labels,
                              uint32_t samples, int classes, Error *err) {
    const PartitionSpec *spec = &remaining->spec;
    const bool is_file = !spec->whole && partitioners[spec->form.row]->by_number;
    TRY(is_file ? build(block, &remaining->spec, labels, samples, classes, err)
                : build(block, &remaining->spec, remaining->labels, remaining->samples, classes, err));
    uint32_t *indices = (uint32_t *)(block + 1) + offset_count(spec);
    if (is_file) TRY(check_file(indices, block->samples, remaining, err));
    for (uint32_t i = 0; i < block->samples && !is_file; i++)
        indices[i] = remaining->numbers[indices[i]];
    uint32_t *end = (uint32_t *)(void *)((uint8_t *)block + block->block_bytes);
    assert(block->samples + remaining->validation <= samples);
    memcpy(end, remaining->numbers + remaining->samples, remaining->validation * sizeof *end);
    end[remaining->validation] = remaining->validation;
    block->tests |= VALIDATED;
    block->block_bytes += (remaining->validation + 1) * sizeof *end;
    return STATUS_OK;
}

Status partition_build(void *memory, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples, int classes,
                       Error *err) {
    Remaining remaining;
    if (!has_validation(spec)) return build(memory, spec, labels, samples, classes, err);
    TRY(remaining_init(&remaining, spec, labels, samples, classes, err));
    const Status status = build_remaining(memory, &remaining, labels, samples, classes, err);
    remaining_free(&remaining);
    return status;
}

// Checks the offsets of the clients' lists, which have at most `samples` entries.
static Status check_offsets(const uint32_t *offsets, uint32_t clients, uint32_t samples, const char *what, Error *err) {
    for (uint32_t client = 0; client < clients; client++)
        if (offsets[client] > offsets[client + 1] || offsets[client + 1] > samples)
            return fail(err, STATUS_DATA, "the partition's block: the %ssamples of client %u end at %u of %u", what,
                        client, offsets[client + 1], samples);
    return STATUS_OK;
}

// The clients' test samples are stored after their samples. items: count of the numbers in the block after its header.
static Status view_tests(Partition *partition, const PartitionBlock *block, const uint32_t *offsets, size_t items,
                         Error *err) {
    const uint32_t *tests = partition->indices + block->samples, clients = block->clients;
    const uint32_t tests_on = block->tests & ~(uint32_t)VALIDATED;
    if (tests_on == TESTS_ON_OWN) {
        const size_t before = (size_t)(tests - (const uint32_t *)(block + 1)) + clients + 1;
        TRY(check_offsets(tests, clients, (uint32_t)(items - before), "test ", err));
        partition->own_offsets = tests;
        partition->own_tests = tests + clients + 1;
    }
    for (uint32_t client = 0; client < clients && tests_on == TESTS_ON_HELD_OUT; client++)
        if (tests[client] > offsets[client + 1] - offsets[client])
            return fail(err, STATUS_DATA, "the partition's block: client %u holds out %u of %u samples", client,
                        tests[client], offsets[client + 1] - offsets[client]);
    if (tests_on == TESTS_ON_HELD_OUT) partition->tests = tests;
    return STATUS_OK;
}

// All offsets are checked once here, so that partition_client needs no check.
Status partition_view(Partition *partition, const void *memory, size_t bytes, Error *err) {
    const PartitionBlock *block = memory;
    if (bytes < sizeof *block || block->magic != PARTITION_MAGIC || block->version != PARTITION_VERSION)
        return fail(err, STATUS_DATA, "the partition's block: no header of version %d at byte 0", PARTITION_VERSION);
    const size_t offset_items = block->whole ? 0 : (size_t)block->clients + 1;
    const size_t tests[] = {0, block->clients, (size_t)block->clients + 1};
    const uint32_t tests_on = block->tests & ~(uint32_t)VALIDATED;
    size_t items = block->block_bytes < sizeof *block ? 0 : (block->block_bytes - sizeof *block) / sizeof(uint32_t);
    const bool has_bytes =
        sizeof *block + items * sizeof(uint32_t) == block->block_bytes && block->block_bytes <= bytes;
    const uint32_t *end = (const uint32_t *)(block + 1) + items;
    const uint32_t validation = block->tests & VALIDATED && has_bytes && items > 0 ? end[-1] : 0;
    if (validation > 0) items = validation < items ? items - validation - 1 : 0;
    const size_t least = offset_items + block->samples + tests[tests_on <= TESTS_ON_OWN ? tests_on : 0];
    const bool fits = tests_on == TESTS_ON_OWN ? items >= least : items == least;
    if (!fits || tests_on > TESTS_ON_OWN || !has_bytes || (tests_on && block->whole))
        return fail(err, STATUS_DATA, "the partition's block: %zu bytes, but %u clients and %u samples need %zu", bytes,
                    block->clients, block->samples, sizeof *block + least * sizeof(uint32_t));
    const uint32_t *offsets = (const uint32_t *)(block + 1);
    if (!block->whole) TRY(check_offsets(offsets, block->clients, block->samples, "", err));
    *partition = (Partition){.clients = block->clients,
                             .indices = offsets + offset_items,
                             .offsets = block->whole ? NULL : offsets,
                             .samples = block->samples,
                             .validation = validation > 0 ? end - 1 - validation : NULL,
                             .validation_count = validation};
    return view_tests(partition, block, offsets, items, err);
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

uint32_t partition_untested(const Partition *partition) {
    uint32_t untested = 0, tests;
    for (uint32_t client = 0; client < partition->clients; client++) {
        partition_client_test(partition, client, &tests);
        untested += tests == 0;
    }
    return untested;
}

const uint32_t *partition_client_test(const Partition *partition, uint32_t client, uint32_t *count) {
    if (partition->own_offsets) {
        *count = partition->own_offsets[client + 1] - partition->own_offsets[client];
        return partition->own_tests + partition->own_offsets[client];
    }
    *count = partition->tests ? partition->tests[client] : 0;
    return *count ? partition->indices + partition->offsets[client + 1] - *count : partition->indices;
}
