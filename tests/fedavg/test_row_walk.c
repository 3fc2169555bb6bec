// Rows that lie on several nodes, piece by piece: every node sees all rows of its own sections, nobody sees another's.
// The nodes are threads, which hand each other what they send.
#include "fedavg/parent/row_walk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

enum {
    MOST_NODES = 3,
    CLIENTS = 5,
    BLOCKS = 37, // sections of four and of five blocks
    PARAMETERS = BLOCKS * ROW_BLOCK - 100,
    PIECE_BLOCKS = 2
};

// Transport -----------------------------------------------------------------------------------------------------------

// What the nodes of one world have posted.
typedef struct Exchange {
    uint32_t nodes;
    pthread_barrier_t barrier;
    const char *sent[MOST_NODES];
    const size_t *counts[MOST_NODES];
} Exchange;

struct NodesConnection {
    Exchange *exchange; // borrowed
    uint32_t rank;
};

static Status begin_exchange(NodesConnection *connection, void *received, const void *sent,
                             const size_t *received_counts, const size_t *sent_counts, Error *err) {
    Exchange *exchange = connection->exchange;
    exchange->sent[connection->rank] = sent;
    exchange->counts[connection->rank] = sent_counts;
    pthread_barrier_wait(&exchange->barrier);
    char *next = received;
    Status status = STATUS_OK;
    for (uint32_t from = 0; from < exchange->nodes; from++) {
        const size_t *counts = exchange->counts[from];
        const char *piece = exchange->sent[from];
        for (uint32_t node = 0; node < connection->rank; node++)
            piece += counts[node];
        if (counts[connection->rank] != received_counts[from])
            status = fail(err, STATUS_SOFTWARE, "node %u sends node %u %zu bytes, which expects %zu", from,
                          connection->rank, counts[connection->rank], received_counts[from]);
        else
            memcpy(next, piece, received_counts[from]);
        next += received_counts[from];
    }
    pthread_barrier_wait(&exchange->barrier); // nobody's buffer changes while it is read
    return status;
}

static Status begin_gather(NodesConnection *connection, void *all, const void *mine, const size_t *counts, Error *err) {
    Exchange *exchange = connection->exchange;
    (void)err;
    exchange->sent[connection->rank] = mine;
    pthread_barrier_wait(&exchange->barrier);
    char *next = all;
    for (uint32_t from = 0; from < exchange->nodes; next += counts[from++])
        memcpy(next, exchange->sent[from], counts[from]);
    pthread_barrier_wait(&exchange->barrier);
    return STATUS_OK;
}

static Status is_done(NodesConnection *connection, bool *done, Error *err) {
    (void)connection, (void)err;
    *done = true;
    return STATUS_OK;
}

// Nodes ---------------------------------------------------------------------------------------------------------------

static const NodesTransport transport = {
    .begin_exchange = begin_exchange, .begin_gather = begin_gather, .test = is_done};

typedef struct Node {
    RunMemory memory;
    Control *control;
    NodesConnection connection;
    Nodes nodes;
    RowWalk walk;
    Job jobs[CLIENTS];
    const float *aside;
    uint8_t *seen; // owned (PARAMETERS): by this node
    uint32_t ids[ROW_SECTIONS];
    uint32_t wrong, largest; // wrong numbers; weights of the largest piece
    size_t travelling;
    Status status;
    Error err;
} Node;

static float value_of(uint32_t row, size_t parameter) {
    return (float)(parameter % 65536) + (float)row / 16;
}

static void look(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    Node *node = context;
    const uint32_t size = node->nodes.size, rank = node->nodes.rank;
    node->wrong += section < ROW_SECTIONS * rank / size || section >= ROW_SECTIONS * (rank + 1) / size;
    node->wrong += first % ROW_BLOCK != 0 || rows->count != CLIENTS + 1 || rows->from[CLIENTS] != NULL;
    node->ids[section] = section + 1;
    if (count > node->largest) node->largest = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        node->seen[first + i]++;
        for (uint32_t row = 0; row <= CLIENTS; row++)
            node->wrong += rows->values[row][i] != value_of(row, first + i);
        for (uint32_t row = 0; row < CLIENTS; row++)
            node->wrong += rows->from[row] + i != node->memory.weights + first + i;
    }
}

static void *run_node(void *argument) {
    Node *node = argument;
    const Job *jobs[CLIENTS];
    for (uint32_t row = 0; row < CLIENTS; row++)
        jobs[row] = &node->jobs[row];
    node->status = row_walk_init(&node->walk, &node->memory, &node->nodes, node->travelling, 0, &node->err);
    if (node->status != STATUS_OK) return NULL;
    node->status = row_walk(&node->walk, jobs, CLIENTS, node->aside, look, node, &node->err);
    if (node->status == STATUS_OK)
        node->status = row_walk_gather(&node->walk, node->ids, sizeof *node->ids, &node->err);
    row_walk_free(&node->walk);
    return NULL;
}

// A node that has the rows of its own jobs: client k is the node's k % size.
static void node_init(Node *node, Exchange *exchange, uint32_t rank, float *weights, const float *aside) {
    const uint32_t size = exchange->nodes;
    *node = (Node){.connection = {exchange, rank}, .aside = aside};
    node->nodes = (Nodes){.rank = rank,
                          .size = size,
                          .message_bytes = 500, // what is gathered comes in many pieces
                          .transport = &transport,
                          .connection = &node->connection};
    node->control = calloc(1, sizeof *node->control);
    node->seen = calloc(PARAMETERS, 1);
    assert_true(node->control && node->seen);
    RunConfig *config = &node->control->config;
    config->parameters = PARAMETERS;
    config->cohort = CLIENTS;
    config->nodes = size;
    config->slots.vector_bytes = PARAMETERS * sizeof(float) / SLOT_ALIGNMENT * SLOT_ALIGNMENT + SLOT_ALIGNMENT;
    config->slots.rows = (CLIENTS + size - 1) / size;
    node->memory = (RunMemory){.config = config, .weights = weights};
    node->memory.slots = calloc(config->slots.rows, config->slots.vector_bytes);
    assert_non_null(node->memory.slots);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        node->jobs[k] = (Job){.node = k % size, .place = k};
        float *row = k % size == rank ? run_memory_row(&node->memory, k) : NULL;
        for (size_t i = 0; i < PARAMETERS && row; i++)
            row[i] = value_of(k, i);
    }
}

static void node_free(Node *node) {
    free(node->memory.slots);
    free(node->seen);
    free(node->control);
}

static void walk_on(uint32_t size, size_t travelling, uint32_t most_of_a_piece) {
    static float weights[PARAMETERS], aside[PARAMETERS];
    Node node[MOST_NODES];
    pthread_t threads[MOST_NODES];
    Exchange exchange = {.nodes = size};
    for (size_t i = 0; i < PARAMETERS; i++)
        aside[i] = value_of(CLIENTS, i);
    pthread_barrier_init(&exchange.barrier, NULL, size);
    for (uint32_t rank = 0; rank < size; rank++) {
        node_init(&node[rank], &exchange, rank, weights, aside);
        node[rank].travelling = travelling;
    }
    for (uint32_t rank = 0; rank < size; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, run_node, &node[rank]), 0);
    for (uint32_t rank = 0; rank < size; rank++)
        pthread_join(threads[rank], NULL);
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_int_equal(node[rank].status, STATUS_OK);
        assert_int_equal(node[rank].wrong, 0);
        assert_int_equal(node[rank].largest, most_of_a_piece);
        for (uint32_t section = 0; section < ROW_SECTIONS; section++)
            assert_int_equal(node[rank].ids[section], section + 1);
    }
    for (size_t i = 0; i < PARAMETERS; i++) {
        uint32_t seen = 0;
        for (uint32_t rank = 0; rank < size; rank++)
            seen += node[rank].seen[i];
        if (seen != 1) fail_msg("weight %zu was seen %u times by %u nodes", i, seen, size);
    }
    for (uint32_t rank = 0; rank < size; rank++)
        node_free(&node[rank]);
    pthread_barrier_destroy(&exchange.barrier);
}

static void each_weight_is_seen_once_by_one_node_with_the_rows_of_all(void **state) {
    (void)state;
    for (uint32_t size = 1; size <= MOST_NODES; size++)
        walk_on(size, ROW_TRAVELLING_FLOATS, 5 * ROW_BLOCK); // a section is a piece
}

static void what_is_too_much_at_once_travels_in_pieces_of_whole_blocks(void **state) {
    (void)state;
    walk_on(1, CLIENTS * PIECE_BLOCKS * ROW_BLOCK, 5 * ROW_BLOCK); // nothing travels
    for (uint32_t size = 2; size <= MOST_NODES; size++) {
        walk_on(size, CLIENTS * PIECE_BLOCKS * ROW_BLOCK, PIECE_BLOCKS * ROW_BLOCK);
        walk_on(size, 1, ROW_BLOCK);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_weight_is_seen_once_by_one_node_with_the_rows_of_all),
        cmocka_unit_test(what_is_too_much_at_once_travels_in_pieces_of_whole_blocks),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
