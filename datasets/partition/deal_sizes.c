// Part of deal.h: partitions that know sizes alone: consecutive runs of the file's order. Flower's LinearPartitioner,
// SquarePartitioner, ExponentialPartitioner and SizePartitioner.
#include <math.h>
#include <stdlib.h>

#include "base/keyed_text.h"
#include "base/log.h"
#include "datasets/partition/deal.h"

// Gives each client its run.
static void deal_runs(Deal *deal, const uint32_t *sizes) {
    uint32_t sample = 0;
    for (uint32_t client = 0; client < deal->clients; client++)
        for (uint32_t i = 0; i < sizes[client]; i++)
            deal->owner[sample++] = client;
    deal->keeps_order = true;
}

// Sizes as f(1), f(2), ... relative to their sum, rounded down; what is left goes to the last client.
static Status deal_growing(Deal *deal, double (*f)(double), const char *name, Error *err) {
    uint32_t *sizes = malloc(deal->clients * sizeof *sizes), given = 0, first_empty = deal->clients;
    if (!sizes) return fail(err, STATUS_OS, "no memory for the sizes of %u clients", deal->clients);
    double sum = 0;
    for (uint32_t i = 1; i <= deal->clients; i++)
        sum += f(i);
    for (uint32_t client = deal->clients; client-- > 0;) {
        sizes[client] = isfinite(sum) ? (uint32_t)(deal->samples * (f(client + 1) / sum)) : 0;
        given += sizes[client];
        if (sizes[client] == 0) first_empty = client;
    }
    sizes[deal->clients - 1] += deal->samples - given;
    if (first_empty < deal->clients) {
        free(sizes);
        return fail(err, STATUS_USAGE, "%s: client %u of %u would get no sample of %u; lower --clients", name,
                    first_empty, deal->clients, deal->samples);
    }
    deal_runs(deal, sizes);
    free(sizes);
    return STATUS_OK;
}

static double identity(double x) {
    return x;
}

static double square(double x) {
    return x * x;
}

Status deal_linear(Deal *deal, Error *err) {
    return deal_growing(deal, identity, "linear", err);
}

Status deal_square(Deal *deal, Error *err) {
    return deal_growing(deal, square, "square", err);
}

Status deal_exponential(Deal *deal, Error *err) {
    return deal_growing(deal, exp, "exponential", err);
}

Status deal_size(Deal *deal, Error *err) {
    double *wanted, sum = 0;
    TRY(deal_reals(&wanted, deal, 0, "sizes", err));
    uint32_t *sizes = malloc(deal->clients * sizeof *sizes);
    for (uint32_t client = 0; client < deal->clients && sizes; client++) {
        sum += floor(wanted[client]);
        sizes[client] = (uint32_t)wanted[client];
    }
    Status status = STATUS_OK;
    if (!sizes)
        status = fail(err, STATUS_OS, "no memory for the sizes of %u clients", deal->clients);
    else if (sum > deal->samples)
        status = fail(err, STATUS_USAGE, "size: the sizes make %.0f samples, and there are %u; give smaller ones", sum,
                      deal->samples);
    else
        deal_runs(deal, sizes);
    if (status == STATUS_OK && sum < deal->samples)
        log_warning("--partition size: the sizes make %.0f samples, and %u are left over that nobody trains on", sum,
                    deal->samples - (uint32_t)sum);
    free(sizes);
    free(wanted);
    return status;
}

// NIID-Bench's iid-diff-quantity: sizes from one draw of Dirichlet(beta), again until all have the minimum; samples at
// random.
Status deal_quantity(Deal *deal, Error *err) {
    const uint32_t tries = deal_tries(deal->clients);
    const double beta = deal->spec->form.number[0], minimum = deal->spec->form.number[1];
    double *shares = malloc(deal->clients * sizeof *shares), running = 0;
    uint32_t *order = malloc(deal->samples * sizeof *order), given = 0;
    bool good = false;
    Status status = shares && order ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u clients", deal->clients);
    for (uint32_t try = 0; try < tries && !good && status == STATUS_OK; try++) {
        const RngKey key = rng_key(deal->spec->seed, RNG_PARTITION, STREAM_SIZES, 1, try);
        double sum = 0, smallest = INFINITY;
        for (uint32_t client = 0; client < deal->clients; client++)
            sum += shares[client] = rng_gamma(key, client, beta);
        for (uint32_t client = 0; client < deal->clients; client++)
            smallest = fmin(smallest, (shares[client] /= sum) * deal->samples);
        good = sum > 0 && smallest >= minimum; // with a small beta all the numbers may underflow
    }
    if (status == STATUS_OK && !good)
        status = fail(err, STATUS_USAGE,
                      "iid-diff-quantity: after %u draws some of %u clients have fewer than %.0f samples; "
                      "raise beta, lower minimum or --clients",
                      tries, deal->clients, minimum);
    for (uint32_t i = 0; i < deal->samples && status == STATUS_OK; i++)
        order[i] = i;
    if (status == STATUS_OK)
        rng_shuffle(order, deal->samples, rng_key(deal->spec->seed, RNG_PARTITION, STREAM_IID, 2, 0));
    for (uint32_t client = 0; client < deal->clients && status == STATUS_OK; client++) {
        running += shares[client];
        uint32_t upto =
            client + 1 == deal->clients ? deal->samples : (uint32_t)fmin(running * deal->samples, deal->samples);
        for (; given < upto; given++)
            deal->owner[order[given]] = client;
    }
    free(order);
    free(shares);
    return status;
}
