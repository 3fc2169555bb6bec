// Part of partitioner.h: partitions into consecutive runs of the file's order, defined by their sizes. Flower's
// LinearPartitioner, SquarePartitioner, ExponentialPartitioner and SizePartitioner; and NIID-Bench's random samples
// with sizes from Dirichlet(beta).
#include <math.h>
#include <stdlib.h>

#include "base/keyed_text.h"
#include "datasets/partition/partitioner.h"

// Assigns each client its run.
static void assign_runs(PartitionTask *task, const uint32_t *sizes) {
    uint32_t sample = 0;
    for (uint32_t client = 0; client < task->clients; client++)
        for (uint32_t i = 0; i < sizes[client]; i++)
            task->owner[sample++] = client;
    task->keeps_order = true;
}

// Sizes proportional to f(1), f(2), ..., rounded down; the remainder goes to the last client.
static Status assign_growing(PartitionTask *task, double (*f)(double), const char *name, Error *err) {
    uint32_t *sizes = malloc(task->clients * sizeof *sizes), given = 0, first_empty = task->clients;
    if (!sizes) return fail(err, STATUS_OS, "no memory for the sizes of %u clients", task->clients);
    double sum = 0;
    for (uint32_t i = 1; i <= task->clients; i++)
        sum += f(i);
    for (uint32_t client = task->clients; client-- > 0;) {
        sizes[client] = isfinite(sum) ? (uint32_t)(task->samples * (f(client + 1) / sum)) : 0;
        given += sizes[client];
        if (sizes[client] == 0) first_empty = client;
    }
    sizes[task->clients - 1] += task->samples - given;
    if (first_empty < task->clients) {
        free(sizes);
        return fail(err, STATUS_USAGE, "%s: client %u of %u would get no sample of %u; lower --clients", name,
                    first_empty, task->clients, task->samples);
    }
    assign_runs(task, sizes);
    free(sizes);
    return STATUS_OK;
}

static double identity(double x) {
    return x;
}

static double square(double x) {
    return x * x;
}

static Status partition_linear(PartitionTask *task, Error *err) {
    return assign_growing(task, identity, "linear", err);
}

static Status partition_square(PartitionTask *task, Error *err) {
    return assign_growing(task, square, "square", err);
}

static Status partition_exponential(PartitionTask *task, Error *err) {
    return assign_growing(task, exp, "exponential", err);
}

static Status partition_size(PartitionTask *task, Error *err) {
    uint32_t *sizes;
    TRY(partition_sizes(&sizes, task, 0, err));
    assign_runs(task, sizes);
    free(sizes);
    return STATUS_OK;
}

// NIID-Bench's iid-diff-quantity: sizes from one draw of Dirichlet(beta), repeated until all clients have the minimum;
// random samples.
static Status partition_quantity(PartitionTask *task, Error *err) {
    const uint32_t tries = partition_tries(task->clients);
    const double beta = task->spec->form.number[0], minimum = task->spec->form.number[1];
    double *shares = malloc(task->clients * sizeof *shares), running = 0;
    uint32_t *order = NULL, given = 0;
    bool good = false;
    Status status = shares ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u clients", task->clients);
    for (uint32_t try = 0; try < tries && !good && status == STATUS_OK; try++) {
        const RngKey key = rng_key(task->spec->seed, RNG_PARTITION, STREAM_SIZES, 1, try);
        double sum = 0, smallest = INFINITY;
        for (uint32_t client = 0; client < task->clients; client++)
            sum += shares[client] = rng_gamma(key, client, beta);
        for (uint32_t client = 0; client < task->clients; client++)
            smallest = fmin(smallest, (shares[client] /= sum) * task->samples);
        good = sum > 0 && smallest >= minimum; // with a small beta all numbers may underflow
    }
    if (status == STATUS_OK && !good)
        status = fail(err, STATUS_USAGE,
                      "iid-diff-quantity: after %u draws some of %u clients have fewer than %.0f samples; "
                      "raise beta, lower minimum or --clients",
                      tries, task->clients, minimum);
    if (status == STATUS_OK)
        status = random_order(&order, task->samples, rng_key(task->spec->seed, RNG_PARTITION, STREAM_IID, 2, 0), err);
    for (uint32_t client = 0; client < task->clients && status == STATUS_OK; client++) {
        running += shares[client];
        uint32_t upto =
            client + 1 == task->clients ? task->samples : (uint32_t)fmin(running * task->samples, task->samples);
        for (; given < upto; given++)
            task->owner[order[given]] = client;
    }
    free(order);
    free(shares);
    return status;
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner linear_partitioner = {
    .text = {.name = "linear", .source = FLOWER ": LinearPartitioner", .help = "sizes grow as 1, 2, 3, ...; runs of the file's order"},
    .assign = partition_linear};
const Partitioner square_partitioner = {
    .text = {.name = "square", .source = FLOWER ": SquarePartitioner", .help = "sizes grow as 1, 4, 9, ...; runs of the file's order"},
    .assign = partition_square};
const Partitioner exponential_partitioner = {
    .text = {.name = "exponential", .source = FLOWER ": ExponentialPartitioner", .help = "sizes grow as e, e^2, e^3, ...; runs of the file's order"},
    .assign = partition_exponential};
const Partitioner size_partitioner = {
    .text = {.name = "size", .source = FLOWER ": SizePartitioner", .help = "runs of the file's order with these sizes; what is left over is lost",
        .keys = {{.name = "sizes", .type = FORM_REALS, .minimum = 0, .maximum = MOST, .help = "samples of a client: one for all, or one for each"}}},
    .assign = partition_size};
const Partitioner iid_diff_quantity_partitioner = {
    .text = {.name = "iid-diff-quantity", .source = NIID_BENCH, .help = "random samples, sizes from Dirichlet(beta)",
        .keys = {{.name = "beta", .type = FORM_REAL, .minimum = 1e-6, .maximum = 1e9, .preset = "0.5", .help = "the smaller, the more the sizes differ"},
                 {.name = "minimum", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "10", .help = "samples that every client has"}}},
    .assign = partition_quantity};
// clang-format on
