// Part of partitioner.h: partitions whose clients or classes draw their shares from Dirichlet(alpha).
#include "datasets/partition/partitioner.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"

enum { STREAM_FALLBACK = 1 };

static uint32_t least_samples(const DirichletRule *rule, uint32_t samples, uint32_t clients) {
    if (rule->form != DIRICHLET_TOPPED || rule->minimum == 0) return rule->minimum;
    uint32_t half = samples / clients / 2;
    return half > rule->minimum ? rule->minimum : half > 1 ? half : 1;
}

static bool is_full(const DirichletRule *rule, uint32_t size, double average) {
    if (rule->form == DIRICHLET_PLAIN) return false;
    return rule->form == DIRICHLET_NIID_BENCH ? size >= average : size > average;
}

// Draws the clients' shares of one label; they are not divided by their sum, which is returned. Full clients get 0. If
// alpha is so small that every gamma number underflows, one client that is not full gets all: Dirichlet's limit for
// alpha -> 0.
static double draw_shares(double *shares, const uint32_t *sizes, uint32_t clients, double average,
                          const DirichletRule *rule, RngKey key) {
    double sum = 0;
    uint32_t open = 0;
    for (uint32_t client = 0; client < clients; client++) {
        bool full = is_full(rule, sizes[client], average);
        open += !full;
        shares[client] = full ? 0 : rng_gamma(key, client, rule->alpha[client]);
        sum += shares[client];
    }
    if (sum > 0) return sum;
    uint32_t chosen = rng_below(rng_block(key, 0, 0, 0, STREAM_FALLBACK).word[0], open);
    for (uint32_t client = 0; client < clients; client++)
        if (!is_full(rule, sizes[client], average) && chosen-- == 0) shares[client] = 1;
    return 1;
}

// One attempt: fills table and sizes (clients).
static void draw_all(uint32_t *table, uint32_t *sizes, double *shares, const uint32_t *class_sizes, uint32_t classes,
                     uint32_t clients, double average, const DirichletRule *rule, uint32_t try) {
    memset(sizes, 0, clients * sizeof *sizes);
    for (uint32_t label = 0; label < classes; label++) {
        RngKey key = rng_key(rule->seed, RNG_PARTITION, 0, try, label);
        double sum = draw_shares(shares, sizes, clients, average, rule, key), running = 0;
        uint32_t given = 0;
        for (uint32_t client = 0; client < clients; client++) {
            running += shares[client] / sum;
            uint32_t upto = client + 1 == clients ? class_sizes[label] : (uint32_t)(running * class_sizes[label]);
            if (upto > class_sizes[label]) upto = class_sizes[label]; // the running sum may round to just above 1
            table[(size_t)label * clients + client] = upto - given;
            sizes[client] += upto - given;
            given = upto;
        }
    }
}

static uint32_t largest_of(const uint32_t *values, uint32_t count, size_t stride) {
    uint32_t largest = 0;
    for (uint32_t i = 1; i < count; i++)
        if (values[i * stride] > values[largest * stride]) largest = i;
    return largest;
}

static bool comes_before(uint32_t a, uint32_t b, const uint32_t *sizes) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
}

// Moves the client at `at` of the heap (count) down to its place; the largest client is at the top.
static void sift(uint32_t *heap, uint32_t count, uint32_t at, const uint32_t *sizes) {
    const uint32_t client = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_before(heap[child + 1], heap[child], sizes)) child++;
        if (comes_before(client, heap[child], sizes)) break;
        heap[at] = heap[child];
    }
    heap[at] = client;
}

// Gives every short client the missing samples from the largest one. The donor keeps enough: it has at least the
// average, which is twice the minimum (or, if the minimum is 1 and a client has nothing, at least 2). So short clients
// never give, and heap (clients) contains only the others.
static void top_up(uint32_t *table, uint32_t *sizes, uint32_t *heap, uint32_t classes, uint32_t clients,
                   uint32_t minimum) {
    uint32_t donors = 0;
    for (uint32_t client = 0; client < clients; client++)
        if (sizes[client] >= minimum) heap[donors++] = client;
    for (uint32_t at = donors / 2; at-- > 0;)
        sift(heap, donors, at, sizes);
    for (uint32_t client = 0; client < clients; client++) {
        if (sizes[client] >= minimum) continue;
        const uint32_t donor = heap[0];
        for (; sizes[client] < minimum; sizes[client]++, sizes[donor]--) {
            size_t row = (size_t)largest_of(table + donor, classes, clients) * clients;
            table[row + donor]--;
            table[row + client]++;
        }
        sift(heap, donors, 0, sizes);
    }
}

// Draws whole tables, as the published methods do, until one meets the minimum.
Status dirichlet_draw(uint32_t *table, const uint32_t *class_sizes, uint32_t classes, uint32_t clients,
                      const DirichletRule *rule, Error *err) {
    uint32_t samples = 0, lacking = clients;
    for (uint32_t label = 0; label < classes; label++)
        samples += class_sizes[label];
    double *shares = malloc(clients * (sizeof *shares + 2 * sizeof(uint32_t)));
    if (!shares) return fail(err, STATUS_OS, "no memory for the proportions of %u clients", clients);
    uint32_t *sizes = (uint32_t *)(shares + clients), *heap = sizes + clients;
    const double average = (double)samples / clients;
    const uint32_t minimum = least_samples(rule, samples, clients),
                   tries = rule->form == DIRICHLET_TOPPED       ? 10
                           : rule->form == DIRICHLET_NIID_BENCH ? partition_tries((uint64_t)classes * clients)
                                                                : 11;
    // If the clients' minima together exceed the number of samples, no draw can meet them.
    const bool possible = (uint64_t)minimum * clients <= samples;
    for (uint32_t try = 0; try < tries && lacking > 0 && possible; try++) {
        draw_all(table, sizes, shares, class_sizes, classes, clients, average, rule, try);
        lacking = 0;
        for (uint32_t client = 0; client < clients; client++)
            lacking += sizes[client] < minimum;
    }
    if (lacking > 0 && rule->form == DIRICHLET_TOPPED) {
        log_info(
            "partition: %u of %u clients had fewer than %u samples after %u draws and got the rest from the largest",
            lacking, clients, minimum, tries);
        top_up(table, sizes, heap, classes, clients, minimum);
        lacking = 0;
    }
    free(shares);
    if (lacking == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%u of %u clients have fewer than %u samples after %u draws of their proportions; raise alpha, lower "
                "minimum or --clients, or take \"dirichlet\" in its form that is topped up",
                lacking, clients, minimum, possible ? tries : 0);
}
