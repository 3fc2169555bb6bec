// Part of partitioner.h: partitions that split each class among the clients by proportions from Dirichlet(alpha); see
// partition.h for their rules.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_text.h"
#include "base/log.h"
#include "base/owned.h"
#include "base/rng.h"
#include "datasets/partition/partitioner.h"

enum { STREAM_FALLBACK = 1 };

// The forms differ in two points: which clients get no more samples of the remaining classes, and what happens if a
// client has fewer than the minimum at the end. All draw the clients' proportions of each class in turn from
// Dirichlet(alpha); three published methods have the same name.
typedef enum DirichletForm {
    DIRICHLET_TOPPED,     // full above samples / clients; 10 draws, then the largest clients give to the smallest
    DIRICHLET_PLAIN,      // never full; 11 draws, then an error (Flower, self_balancing=False)
    DIRICHLET_BALANCED,   // full above samples / clients; 11 draws, then an error (Flower, self_balancing=True)
    DIRICHLET_NIID_BENCH, // full from samples / clients on; drawn again until it fits (NIID-Bench, noniid-labeldir)
} DirichletForm;

typedef struct Draw {
    const PartitionTask *task;
    DirichletForm form;
    uint32_t minimum; // of samples per client; topped: at most half the average
    double average;   // samples of a client
    double *alpha;    // (clients), each > 0; owned
    double *shares;   // (clients) of one class
    uint32_t *table;  // (classes, clients): counts of samples
    uint32_t *sizes;  // (clients)
    uint32_t *heap;   // (clients)
    ByClass classes;
} Draw;

static bool is_full(const Draw *draw, uint32_t client) {
    if (draw->form == DIRICHLET_PLAIN) return false;
    const uint32_t size = draw->sizes[client];
    return draw->form == DIRICHLET_NIID_BENCH ? size >= draw->average : size > draw->average;
}

// Draws the clients' shares of one label; they are not divided by their sum, which is returned. Full clients get 0. If
// alpha is so small that every gamma number underflows, one client that is not full gets all: Dirichlet's limit for
// alpha -> 0.
static double draw_shares(Draw *draw, RngKey key) {
    const uint32_t clients = draw->task->clients;
    double sum = 0;
    uint32_t open = 0;
    for (uint32_t client = 0; client < clients; client++) {
        const bool full = is_full(draw, client);
        open += !full;
        draw->shares[client] = full ? 0 : rng_gamma(key, client, draw->alpha[client]);
        sum += draw->shares[client];
    }
    if (sum > 0) return sum;
    uint32_t chosen = rng_below(rng_block(key, 0, 0, 0, STREAM_FALLBACK).word[0], open);
    for (uint32_t client = 0; client < clients; client++)
        if (!is_full(draw, client) && chosen-- == 0) draw->shares[client] = 1;
    return 1;
}

// One attempt. Returns the number of clients that have fewer samples than the minimum.
static uint32_t draw_all(Draw *draw, uint32_t try) {
    const uint32_t clients = draw->task->clients;
    uint32_t lacking = 0;
    memset(draw->sizes, 0, clients * sizeof *draw->sizes);
    for (uint32_t label = 0; label < draw->task->classes; label++) {
        const uint32_t size = class_size(&draw->classes, label);
        double sum = draw_shares(draw, rng_key(draw->task->spec->seed, RNG_PARTITION, 0, try, label)), running = 0;
        uint32_t given = 0;
        for (uint32_t client = 0; client < clients; client++) {
            running += draw->shares[client] / sum;
            uint32_t upto = client + 1 == clients ? size : (uint32_t)(running * size);
            if (upto > size) upto = size; // the running sum may round to just above 1
            draw->table[(size_t)label * clients + client] = upto - given;
            draw->sizes[client] += upto - given;
            given = upto;
        }
    }
    for (uint32_t client = 0; client < clients; client++)
        lacking += draw->sizes[client] < draw->minimum;
    return lacking;
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

// Moves one sample of the donor's largest class.
static void give_one(Draw *draw, uint32_t donor, uint32_t client) {
    const uint32_t clients = draw->task->clients;
    uint32_t *row = draw->table;
    for (uint32_t label = 1; label < draw->task->classes; label++)
        if (draw->table[(size_t)label * clients + donor] > row[donor]) row = draw->table + (size_t)label * clients;
    row[donor]--;
    row[client]++;
    draw->sizes[donor]--;
    draw->sizes[client]++;
}

// Gives every short client the missing samples from the largest one. The donor keeps enough: it has at least the
// average, which is twice the minimum (or, if the minimum is 1 and a client has nothing, at least 2). So short clients
// never give, and the heap contains only the others.
static void top_up(Draw *draw) {
    uint32_t *heap = draw->heap, *sizes = draw->sizes, donors = 0;
    for (uint32_t client = 0; client < draw->task->clients; client++)
        if (sizes[client] >= draw->minimum) heap[donors++] = client;
    for (uint32_t at = donors / 2; at-- > 0;)
        sift(heap, donors, at, sizes);
    for (uint32_t client = 0; client < draw->task->clients; client++) {
        if (sizes[client] >= draw->minimum) continue;
        while (sizes[client] < draw->minimum)
            give_one(draw, heap[0], client);
        sift(heap, donors, 0, sizes);
    }
}

// Draws whole tables, as the published methods do, until one meets the minimum.
static Status draw_until_it_fits(Draw *draw, Error *err) {
    const uint32_t samples = draw->task->samples, clients = draw->task->clients;
    const uint32_t tries = draw->form == DIRICHLET_TOPPED ? 10
                           : draw->form == DIRICHLET_NIID_BENCH
                               ? partition_tries((uint64_t)draw->task->classes * clients)
                               : 11;
    uint32_t lacking = clients;
    // If the clients' minima together exceed the number of samples, no draw can meet them.
    const bool possible = (uint64_t)draw->minimum * clients <= samples;
    for (uint32_t try = 0; try < tries && lacking > 0 && possible; try++)
        lacking = draw_all(draw, try);
    if (lacking == 0) return STATUS_OK;
    if (draw->form != DIRICHLET_TOPPED)
        return fail(err, STATUS_USAGE,
                    "%u of %u clients have fewer than %u samples after %u draws of their proportions; raise alpha, "
                    "lower minimum or --clients, or take \"dirichlet\" in its form that is topped up",
                    lacking, clients, draw->minimum, possible ? tries : 0);
    log_info("partition: %u of %u clients had fewer than %u samples after %u draws and got the rest from the largest",
             lacking, clients, draw->minimum, tries);
    top_up(draw);
    return STATUS_OK;
}

// Copies the samples, class after class, by the table of counts, then shuffles each client's own.
static void fill_by_table(uint32_t *offsets, uint32_t *indices, const Draw *draw) {
    const uint32_t clients = draw->task->clients, *sorted = draw->classes.sorted, *count = draw->table;
    offsets[0] = 0;
    for (uint32_t client = 0; client < clients; client++)
        offsets[client + 1] = offsets[client] + draw->sizes[client];
    // While the lists are filled, offsets[client] moves to the client's end; then all offsets are moved back by one
    // client.
    for (uint32_t label = 0; label < draw->task->classes; label++)
        for (uint32_t client = 0; client < clients; client++, count++) {
            memcpy(indices + offsets[client], sorted, *count * sizeof *indices);
            offsets[client] += *count;
            sorted += *count;
        }
    memmove(offsets + 1, offsets, clients * sizeof *offsets);
    offsets[0] = 0;
    for (uint32_t client = 0; client < clients; client++)
        rng_shuffle(indices + offsets[client], offsets[client + 1] - offsets[client],
                    rng_key(draw->task->spec->seed, RNG_PARTITION, STREAM_CLIENT_ORDER, client, 0));
}

static Status build(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, DirichletForm form,
                    uint32_t minimum, Error *err) {
    const uint32_t clients = task->clients, half = task->samples / clients / 2;
    Owned owned = {0};
    Draw draw = {.task = task, .form = form, .minimum = minimum, .average = (double)task->samples / clients};
    if (form == DIRICHLET_TOPPED && half < minimum) draw.minimum = half > 1 ? half : 1;
    TRY(partition_reals(&draw.alpha, task, 0, err));
    draw.shares = own(&owned, clients, sizeof *draw.shares);
    draw.sizes = own(&owned, clients, sizeof *draw.sizes);
    draw.heap = own(&owned, clients, sizeof *draw.heap);
    draw.table = own(&owned, (size_t)task->classes * clients, sizeof *draw.table);
    Status status = owned.lacks_memory
                        ? fail(err, STATUS_OS, "no memory for dealing %u samples to %u clients", task->samples, clients)
                        : by_class_init(&draw.classes, task, err);
    if (status == STATUS_OK) {
        status = draw_until_it_fits(&draw, err);
        if (status == STATUS_OK) fill_by_table(offsets, indices, &draw);
        by_class_free(&draw.classes);
    }
    owned_free(&owned);
    free(draw.alpha);
    return status;
}

static Status build_dirichlet(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    const Form *form = &task->spec->form;
    return build(offsets, indices, task, (DirichletForm)form->number[1], (uint32_t)form->number[2], err);
}

static Status build_noniid_labeldir(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    return build(offsets, indices, task, DIRICHLET_NIID_BENCH, (uint32_t)task->spec->form.number[1], err);
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner dirichlet_partitioner = {
    .text = {.name = "dirichlet", .source = FLOWER ": DirichletPartitioner",
        .help = "class after class, dealt by proportions from Dirichlet(alpha)",
        .keys = {ALPHA("0.5"),
                 {.name = "form", .type = FORM_CHOICE, .preset = "topped", .choices = "topped plain balanced niid-bench",
                  .help = "plain: drawn up to 11 times until all have the minimum, else an error (Flower's default); balanced: "
                          "and who has more than the average gets no more (self_balancing=True); topped: as balanced, but the "
                          "tenth draw is kept, and those who lack samples get them from the largest; niid-bench: who has the "
                          "average gets no more, drawn again until it fits"},
                 {.name = "minimum", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "10", .help = "samples that every client has; 0: some may have none"}}},
    .by_class = true, .build = build_dirichlet};
const Partitioner noniid_labeldir_partitioner = {
    .text = {.name = "noniid-labeldir", .source = "NIID-Bench (Li, Diao, Chen, He, ICDE 2022)",
        .help = "dirichlet in the form niid-bench",
        .keys = {ALPHA("0.5"), COUNT("minimum", "10", "samples that every client has")}},
    .by_class = true, .build = build_noniid_labeldir};
// clang-format on
