#include "row_walk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/rules/sum/shard_sum.h"

// Ends are cut by this: the last blocks of a net, and of a section, are shorter.
static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

// Sections consist of whole blocks, so that sums per block are equal for any number of sections and nodes.
static Slice section_at(size_t parameters, uint32_t section) {
    assert(section < ROW_SECTIONS);
    const size_t blocks = (parameters + ROW_BLOCK - 1) / ROW_BLOCK;
    return (Slice){smaller(blocks * section / ROW_SECTIONS * ROW_BLOCK, parameters),
                   smaller(blocks * (section + 1) / ROW_SECTIONS * ROW_BLOCK, parameters)};
}

// The bound on what travels at once decides the length of a piece. All nodes compute it from equal figures, since they
// must agree on the number of pieces.
static Status allocate_messages(RowWalk *walk, uint32_t rows, size_t travelling, Error *err) {
    const size_t blocks = travelling / ROW_BLOCK / rows, most = walk->piece / ROW_BLOCK;
    walk->piece = (blocks == 0 ? 1 : smaller(blocks, most)) * ROW_BLOCK;
    assert(walk->piece > 0 && walk->piece % ROW_BLOCK == 0);
    walk->sent = own(&walk->owned, walk->memory->config->slots.rows * walk->nodes->size * walk->piece, sizeof(float));
    walk->received = own(&walk->owned, rows * walk->piece, sizeof(float));
    walk->sent_bytes = own(&walk->owned, walk->nodes->size, sizeof *walk->sent_bytes);
    walk->received_bytes = own(&walk->owned, walk->nodes->size, sizeof *walk->received_bytes);
    if (!walk->owned.lacks_memory) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory to exchange the updates of %u clients with %u nodes", rows,
                walk->nodes->size);
}

// A section is a piece where nothing travels. On several nodes a piece is shorter, since each node holds the pieces
// that it sends and those that it receives.
Status row_walk_init(RowWalk *walk, const RunMemory *memory, Nodes *nodes, size_t travelling, uint32_t product_rows,
                     Error *err) {
    const RunConfig *config = memory->config;
    const uint32_t rows = config->slots.rows > 0 ? config->cohort : 0;
    *walk = (RowWalk){.memory = memory, .nodes = nodes};
    if (rows == 0) return STATUS_OK;
    const size_t blocks = (config->parameters + ROW_BLOCK - 1) / ROW_BLOCK;
    const size_t section = (blocks + ROW_SECTIONS - 1) / ROW_SECTIONS * ROW_BLOCK;
    walk->piece = section;
    walk->values = own(&walk->owned, rows + 1, sizeof *walk->values);
    walk->from = own(&walk->owned, rows + 1, sizeof *walk->from);
    walk->sections = own(&walk->owned, ROW_SECTIONS * (size_t)product_rows * product_rows, sizeof *walk->sections);
    walk->wide = own(&walk->owned, (size_t)product_rows * ROW_PRODUCT_BLOCK, sizeof *walk->wide);
    Status status = !walk->owned.lacks_memory ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u rows", rows);
    if (status == STATUS_OK && nodes->size > 1) status = allocate_messages(walk, rows, travelling, err);
    walk->pieces = (uint32_t)((section + walk->piece - 1) / walk->piece);
    if (status != STATUS_OK) row_walk_free(walk);
    return status;
}

void row_walk_free(RowWalk *walk) {
    owned_free(&walk->owned);
    *walk = (RowWalk){0};
}

// Returns the piece that a node sees in this step: a part of one of its sections, or nothing.
static Slice piece_at(const RowWalk *walk, uint32_t node, uint32_t step, uint32_t *section) {
    const uint32_t size = walk->nodes->size, end = ROW_SECTIONS * (node + 1) / size;
    *section = ROW_SECTIONS * node / size + step / walk->pieces;
    if (*section >= end) return (Slice){0, 0};
    const Slice slice = section_at(walk->memory->config->parameters, *section);
    const size_t first = slice.first + step % walk->pieces * walk->piece;
    assert(walk->pieces > 0 && slice.first <= slice.end);
    return (Slice){smaller(first, slice.end), smaller(first + walk->piece, slice.end)};
}

// Sends every node its piece of each of this node's rows. Pieces arrive node by node, one row after the other. One
// piece at a time travels, so that memory does not grow with the model. walk->values point at what has arrived.
static Status exchange(RowWalk *walk, const Job *const *jobs, uint32_t count, uint32_t step, size_t width, Error *err) {
    Nodes *nodes = walk->nodes;
    float *next = walk->sent;
    for (uint32_t node = 0; node < nodes->size; node++) {
        uint32_t section;
        const Slice slice = piece_at(walk, node, step, &section);
        const size_t floats = slice.end - slice.first;
        assert(slice.first <= slice.end && floats <= walk->piece);
        walk->sent_bytes[node] = walk->received_bytes[node] = 0;
        for (uint32_t row = 0; row < count; row++) {
            if (jobs[row]->node == node) walk->received_bytes[node] += width * sizeof *next;
            if (jobs[row]->node != nodes->rank) continue;
            memcpy(next, run_memory_row(walk->memory, jobs[row]->place) + slice.first, floats * sizeof *next);
            walk->sent_bytes[node] += floats * sizeof *next;
            next += floats;
        }
    }
    TRY(nodes->transport->begin_exchange(nodes->connection, walk->received, walk->sent, walk->received_bytes,
                                         walk->sent_bytes, err));
    TRY(nodes_wait(nodes, err));
    const float *at = walk->received;
    for (uint32_t node = 0; node < nodes->size; node++)
        for (uint32_t row = 0; row < count; row++)
            if (jobs[row]->node == node) walk->values[row] = at, at += width;
    return STATUS_OK;
}

// Visits all rows, section by section: on one node in place, on several after an exchange in which each node gets its
// sections of all rows. All nodes take part in all steps, also those that have nothing left to see.
Status row_walk(RowWalk *walk, const Job *const *jobs, uint32_t count, const float *aside, RowVisit visit,
                void *context, Error *err) {
    const uint32_t size = walk->nodes->size, steps = (ROW_SECTIONS + size - 1) / size * walk->pieces;
    assert(count <= walk->memory->config->cohort);
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t section;
        const Slice piece = piece_at(walk, walk->nodes->rank, step, &section);
        const size_t width = piece.end - piece.first;
        assert(width <= walk->piece && piece.end <= walk->memory->config->parameters);
        if (size > 1) TRY(exchange(walk, jobs, count, step, width, err));
        for (uint32_t row = 0; row < count; row++) {
            if (size == 1) walk->values[row] = run_memory_row(walk->memory, jobs[row]->place) + piece.first;
            walk->from[row] = walk->memory->weights + piece.first;
        }
        if (aside) walk->values[count] = aside + piece.first, walk->from[count] = NULL;
        const Rows rows = {.values = walk->values, .from = walk->from, .count = count + (aside ? 1 : 0)};
        if (width > 0) visit(context, &rows, section, piece.first, width);
    }
    return STATUS_OK;
}

// The results of sections go to all nodes, each from the node that computed it.
Status row_walk_gather(RowWalk *walk, void *sections, size_t bytes, Error *err) {
    const uint32_t size = walk->nodes->size, rank = walk->nodes->rank;
    if (size == 1) return STATUS_OK;
    size_t *counts = walk->sent_bytes;
    for (uint32_t node = 0; node < size; node++)
        counts[node] = (size_t)(ROW_SECTIONS * (node + 1) / size - ROW_SECTIONS * node / size) * bytes;
    char *mine = malloc(counts[rank] + 1);
    if (!mine) return fail(err, STATUS_OS, "no memory for the products of %u nodes", size);
    memcpy(mine, (const char *)sections + (size_t)(ROW_SECTIONS * rank / size) * bytes, counts[rank]);
    const Status status = nodes_gather(walk->nodes, sections, mine, counts, err);
    free(mine);
    return status;
}

static void add_products(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const RowWalk *walk = context;
    (void)first;
    rows_products(walk->sections + (size_t)section * rows->count * rows->count, rows, walk->blas, walk->wide, count);
}

// Each node computes some of the sections. They are added in their order on every node, and their number does not
// depend on the nodes: so the bits are those of one node.
Status row_walk_products(RowWalk *walk, double *products, const Job *const *jobs, uint32_t count, const float *aside,
                         Error *err) {
    const size_t rows = count + (aside ? 1u : 0u), square = rows * rows, bytes = square * sizeof *products;
    memset(walk->sections, 0, ROW_SECTIONS * bytes);
    TRY(row_walk(walk, jobs, count, aside, add_products, walk, err));
    TRY(row_walk_gather(walk, walk->sections, bytes, err));
    memset(products, 0, bytes);
    for (uint32_t section = 0; section < ROW_SECTIONS; section++)
        for (size_t i = 0; i < square; i++)
            products[i] += walk->sections[section * square + i];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < i; j++)
            products[i * rows + j] = products[j * rows + i];
    return STATUS_OK;
}

// Clients are unique in a cohort, so that the order is total and does not depend on the sort.
int row_walk_by_client(const void *a, const void *b) {
    const Job *x = *(Job *const *)a, *y = *(Job *const *)b;
    return (x->client > y->client) - (x->client < y->client);
}
