// The parent's table of clients and their rows in the file of client state (memory/client_state_file.h). When a round
// is over, clients have the same values on every node; each node chooses the rows for them itself.
//
//   TRY(client_state_rows_init(&states, &memory, members, rounds_done, err));
//   each round: TRY(client_state_rows_stage(&states, count, err));          // states.staged: a row for each member
//               ... members train, the round succeeds ...
//               TRY(client_state_rows_commit(&states, round, nodes, err));  // staged rows become the clients' own
//               client_state_rows_saved(&states, round);                    // a checkpoint holds the table
//   client_state_rows_free(&states);
//
// A row that a client has given up is used again when none of the checkpoints that a run may be resumed from, the last
// two, belongs to a round in which the row was the client's. Only the first node resumes, so others use it at once.
#ifndef SOUNDER_FEDAVG_PARENT_CLIENT_STATE_ROWS_H
#define SOUNDER_FEDAVG_PARENT_CLIENT_STATE_ROWS_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/rules/world/world.h"

typedef struct ClientStateRows {
    const RunMemory *memory; // borrowed
    Owned owned;
    uint32_t *table;       // the memory's, for checkpoints: how many rows are in use; each client's; and their hashes
    uint32_t *born, *gone; // owned (rows): the rounds from and until which a row is, or was, its client's
    uint32_t *spare;       // owned (rows): to be used next
    uint32_t *retired;     // owned (rows): given up, but a checkpoint's
    uint32_t *staged;      // owned (members): by place in the round's jobs
    float *passing;        // owned (a row): on its way between nodes
    uint32_t spares, retirees;
    uint32_t saved[2]; // rounds of the last two checkpoints
} ClientStateRows;

// Rows that such a run needs: what its clients can have, and what the last two checkpoints may hold besides.
uint32_t client_state_rows_needed(uint32_t clients, uint32_t members, uint32_t rounds);

// members: of the largest cohort; rounds_done: of the checkpoint that the table came from, 0 for none. Both tables of
// the memory have been checked (client_state_table_check). Nothing to free on failure. This and all below does nothing
// where clients keep nothing.
Status client_state_rows_init(ClientStateRows *states, const RunMemory *memory, uint32_t members, uint32_t rounds_done,
                              Error *err);
void client_state_rows_free(ClientStateRows *states);

// The client's row, NO_CLIENT_STATE if it has none.
uint32_t client_state_rows_of(const ClientStateRows *states, uint32_t client);

// A spare row for each of the first `count` members. IO when the disk is full.
Status client_state_rows_stage(ClientStateRows *states, uint32_t count, Error *err);

// The queue holds all nodes' jobs, by place.
Status client_state_rows_commit(ClientStateRows *states, uint32_t round, Nodes *nodes, Error *err);

// The round is lost without an error: every client keeps what it had.
void client_state_rows_drop(ClientStateRows *states);

// The client has lost its state in this round, after the commit.
void client_state_rows_lose(ClientStateRows *states, uint32_t client, uint32_t round);

void client_state_rows_saved(ClientStateRows *states, uint32_t round);

#endif
