#include "client_state_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// A row is in one of five conditions: never used (at or above table[0]); spare; staged for a member of this round; in
// force for a client; retired, which no client has any more but a checkpoint still names. A row moves from staged to in
// force only when the round has succeeded, and from retired to spare only when two newer checkpoints are on the disk:
// so a kill at any time finds the rows of every checkpoint that it may resume from unchanged.

// Each client that has had a turn has one row in force and one in each of the two checkpoints that a run may resume
// from, and each member of a round writes a new one beside them. Row 0 means no state.
uint32_t client_state_rows_needed(uint32_t clients, uint32_t members, uint32_t rounds) {
    const uint64_t turns = (uint64_t)members * rounds, most = turns < clients ? turns : clients;
    assert(members > 0 && 1 + 3 * most + 2 * (uint64_t)members <= UINT32_MAX);
    return (uint32_t)(1 + 3 * most + 2 * (uint64_t)members);
}

static bool keeps(const ClientStateRows *states) {
    return states->memory && states->memory->config->client_state.rows > 0;
}

// Finds out from the tables of the last two checkpoints which rows are taken. Rows of the older one stay as they are
// until two newer checkpoints are written. A row in neither table is free at once: otherwise each process that resumes
// the run would take new ones, until none is left.
static void resume(ClientStateRows *states, uint32_t round) {
    const uint32_t clients = states->memory->config->clients, *before = states->memory->client_state_before;
    uint32_t used = 1;
    for (uint32_t client = 0; client < clients; client++) {
        const uint32_t row = states->table[1 + client];
        assert(row < states->memory->config->client_state.rows && (row == NO_CLIENT_STATE || states->gone[row] == 0));
        states->gone[row] = UINT32_MAX;
        if (row >= used) used = row + 1;
    }
    for (uint32_t client = 0; client < clients && before; client++) {
        const uint32_t row = before[1 + client];
        if (row == NO_CLIENT_STATE || states->gone[row] > 0) continue;
        states->gone[row] = round;
        states->retired[states->retirees++] = row;
        if (row >= used) used = row + 1;
    }
    states->table[0] = used;
    for (uint32_t row = used - 1; row > NO_CLIENT_STATE; row--)
        if (states->gone[row] == 0) states->spare[states->spares++] = row;
}

Status client_state_rows_init(ClientStateRows *states, const RunMemory *memory, uint32_t members, uint32_t rounds_done,
                              Error *err) {
    const RunConfig *config = memory->config;
    const uint32_t rows = config->client_state.rows;
    *states = (ClientStateRows){.memory = memory};
    if (!keeps(states)) return STATUS_OK;
    states->table = memory->client_state_table;
    states->born = own(&states->owned, rows, sizeof *states->born);
    states->gone = own(&states->owned, rows, sizeof *states->gone);
    states->spare = own(&states->owned, rows, sizeof *states->spare);
    states->retired = own(&states->owned, rows, sizeof *states->retired);
    states->staged = own(&states->owned, members, sizeof *states->staged);
    states->passing = own(&states->owned, config->client_state.row_bytes, 1);
    if (states->owned.lacks_memory) {
        client_state_rows_free(states);
        return fail(err, STATUS_OS, "no memory for a table of %u rows", rows);
    }
    // Only the first node resumes from checkpoints, and so only it holds back rows for them.
    const bool resumes = config->node == 0;
    states->saved[0] = !resumes ? UINT32_MAX : rounds_done > 0 ? rounds_done - 1 : 0;
    states->saved[1] = resumes ? rounds_done : UINT32_MAX;
    if (rounds_done > 0) resume(states, rounds_done);
    return STATUS_OK;
}

void client_state_rows_free(ClientStateRows *states) {
    owned_free(&states->owned);
    *states = (ClientStateRows){0};
}

uint32_t client_state_rows_of(const ClientStateRows *states, uint32_t client) {
    assert(!keeps(states) || client < states->memory->config->clients);
    return keeps(states) ? states->table[1 + client] : NO_CLIENT_STATE;
}

// A client never overwrites its row. It writes a staged one, which becomes its own when the round has succeeded: a
// worker that dies, or a round that is done again, leaves the old state whole.
Status client_state_rows_stage(ClientStateRows *states, uint32_t count, Error *err) {
    for (uint32_t place = 0; keeps(states) && place < count; place++) {
        const uint32_t row = states->spares > 0 ? states->spare[--states->spares] : states->table[0]++;
        if (row >= states->memory->config->client_state.rows)
            return fail(err, STATUS_SOFTWARE, "no row is left of %u for what clients keep",
                        states->memory->config->client_state.rows);
        assert(row != NO_CLIENT_STATE &&
               states->gone[row] != UINT32_MAX); // a row in force is no other client's to write
        states->staged[place] = row;
        TRY(client_state_file_reserve(&states->memory->client_state, row, err));
    }
    return STATUS_OK;
}

static bool is_needed(const ClientStateRows *states, uint32_t row) {
    assert(states->born[row] <= states->gone[row]);
    for (int last = 0; last < 2; last++)
        if (states->born[row] <= states->saved[last] && states->saved[last] < states->gone[row]) return true;
    return false;
}

static void give_up(ClientStateRows *states, uint32_t row, uint32_t round) {
    if (row == NO_CLIENT_STATE) return;
    assert(states->gone[row] == UINT32_MAX); // it was in force
    assert(states->spares + states->retirees < states->table[0]);
    states->gone[row] = round;
    if (is_needed(states, row))
        states->retired[states->retirees++] = row;
    else
        states->spare[states->spares++] = row;
}

// Copies the row of each client from its node to all others, any of which may train the client next. The number of a
// row may differ between nodes, since each chooses its rows itself.
static Status share_rows(const ClientStateRows *states, Nodes *nodes, Error *err) {
    const RunMemory *memory = states->memory;
    const size_t bytes = memory->config->client_state.floats * sizeof(float);
    size_t *counts = calloc(nodes->size, sizeof *counts);
    Status status = counts ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    for (uint32_t place = 0; place < memory->queue->count && status == STATUS_OK; place++) {
        const Job *job = &memory->queue->jobs[place];
        if (job->state != JOB_DONE) continue;
        float *values = client_state_row(&memory->client_state, states->staged[place]);
        counts[job->node] = bytes;
        status = nodes_gather(nodes, states->passing, values, counts, err);
        counts[job->node] = 0;
        if (status == STATUS_OK && job->node != nodes->rank) memcpy(values, states->passing, bytes);
    }
    free(counts);
    return status;
}

// The round has succeeded: staged rows of accepted clients replace their old ones. The hash in the table is set to 0,
// which has the next checkpoint compute it.
Status client_state_rows_commit(ClientStateRows *states, uint32_t round, Nodes *nodes, Error *err) {
    if (!keeps(states)) return STATUS_OK;
    const Queue *queue = states->memory->queue;
    if (nodes->size > 1) TRY(share_rows(states, nodes, err));
    for (uint32_t place = 0; place < queue->count; place++) {
        const Job *job = &queue->jobs[place];
        const uint32_t row = states->staged[place];
        uint32_t *own = &states->table[1 + job->client];
        assert(row != NO_CLIENT_STATE && row != *own && row < states->table[0]);
        states->born[row] = round;
        if (job->state != JOB_DONE) {
            states->spare[states->spares++] = row; // a refused client keeps what it had
            continue;
        }
        give_up(states, *own, round);
        *own = row;
        states->table[1 + states->memory->config->clients + job->client] = 0; // its hash
        states->gone[row] = UINT32_MAX;
    }
    return STATUS_OK;
}

void client_state_rows_lose(ClientStateRows *states, uint32_t client, uint32_t round) {
    if (!keeps(states)) return;
    uint32_t *own = &states->table[1 + client];
    give_up(states, *own, round);
    *own = NO_CLIENT_STATE;
    states->table[1 + states->memory->config->clients + client] = 0; // its hash
}

void client_state_rows_drop(ClientStateRows *states) {
    for (uint32_t place = 0; keeps(states) && place < states->memory->queue->count; place++)
        states->spare[states->spares++] = states->staged[place];
}

// The oldest of three checkpoints is no longer resumed from: rows that only it needed are free.
void client_state_rows_saved(ClientStateRows *states, uint32_t round) {
    if (!keeps(states) || states->saved[1] == round) return;
    assert(states->saved[1] == UINT32_MAX || round > states->saved[1]);
    states->saved[0] = states->saved[1];
    states->saved[1] = round;
    uint32_t left = 0;
    for (uint32_t i = 0; i < states->retirees; i++) {
        const uint32_t row = states->retired[i];
        if (is_needed(states, row))
            states->retired[left++] = row;
        else
            states->spare[states->spares++] = row;
    }
    states->retirees = left;
    assert(states->spares + states->retirees < states->table[0]);
}
