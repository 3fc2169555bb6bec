// Part of run_set_up.h: brings the nodes of a run to one state before its first round.
#include "run_set_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/train/run_record.h"
#include "fedavg/memory/state.h"

// Whether this node's own options agree with node 0's, except those about one process or its display.
static Status compare_options(const Options *mine, const Options *first, const Nodes *nodes, Error *err) {
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        // from the file; node 0 dropped it, because it has no effect
        const bool dropped = !first->given[i] && mine->lines[i] > 0;
        if (!mine->given[i] || dropped || option->unsaved || option_equal(mine, first, option)) continue;
        char own[OPTION_VALUE_BYTES], firsts[OPTION_VALUE_BYTES];
        option_format(own, mine, option);
        option_format(firsts, first, option);
        return fail(err, STATUS_USAGE,
                    "node %u was given --%s %.200s, but node 0 goes by %.200s; give all nodes the same options",
                    nodes->rank, option->name, own, firsts);
    }
    return STATUS_OK;
}

Status together_options(Options *options, Nodes *nodes, Status mine, Error *err) {
    const Options own = *options;
    TRY(nodes_agree(nodes, mine, err));
    TRY(nodes_broadcast(nodes, options, sizeof *options, err));
    return nodes_agree(nodes, nodes->rank > 0 ? compare_options(&own, options, nodes, err) : STATUS_OK, err);
}

typedef struct Shared {
    char arithmetic[TOGETHER_NAME_BYTES];
    uint64_t data, trainer; // hashes
    char stays[TRAINER_HASH_BYTES];
} Shared;

static Status compare(const Shared *mine, const Shared *first, const RunMemory *memory, const Nodes *nodes,
                      Error *err) {
    if (strcmp(mine->arithmetic, first->arithmetic) != 0)
        return fail(err, STATUS_UNAVAILABLE,
                    "node %u computes with %s and node 0 with %s, whose results differ in the last bits; set --device, "
                    "SOUNDER_ISA or SOUNDER_BLAS to what all of them have",
                    nodes->rank, mine->arithmetic, first->arithmetic);
    if (mine->trainer != first->trainer)
        return fail(err, STATUS_DATA,
                    "the files of the trainer on node %u are not those of node 0; give all nodes the same program",
                    nodes->rank);
    if (strcmp(mine->stays, first->stays) != 0)
        return fail(
            err, STATUS_DATA,
            "the tensors of the trainer on node %u that do not travel are not those of node 0 (hash %s here, %s "
            "there); give all nodes the same base",
            nodes->rank, mine->stays, first->stays);
    if (mine->data != first->data)
        return fail(err, STATUS_DATA,
                    "the data set %s of node %u is not that of node 0, or a file says something else of its clients; "
                    "give all of them the same files",
                    memory->data.name, nodes->rank);
    return STATUS_OK;
}

Status together_check(const RunMemory *memory, const char *arithmetic, const TrainerProgram *trainer, Nodes *nodes,
                      Status mine, Error *err) {
    Shared own = {.trainer = trainer->files}, first;
    TRY(nodes_agree(nodes, mine, err));
    if (nodes->size == 1) return STATUS_OK;
    own.data = run_hash_data(&memory->data) ^ run_hash_partition(memory) ^ world_files_hash(&memory->world_files);
    snprintf(own.arithmetic, sizeof own.arithmetic, "%s", arithmetic);
    memcpy(own.stays, trainer->stays, sizeof own.stays);
    first = own;
    TRY(nodes_broadcast(nodes, &first, sizeof first, err));
    return nodes_agree(nodes, compare(&own, &first, memory, nodes, err), err);
}

// Every node needs the state rows of all clients.
static Status share_client_state(const RunMemory *memory, Nodes *nodes, Error *err) {
    const RunConfig *config = memory->config;
    for (uint32_t client = 0; client < config->clients && nodes->size > 1; client++) {
        const uint32_t row = memory->client_state_table[1 + client];
        if (row == NO_CLIENT_STATE) continue;
        TRY(client_state_file_reserve(&memory->client_state, row, err));
        TRY(nodes_broadcast(nodes, client_state_row(&memory->client_state, row),
                            config->client_state.floats * sizeof(float), err));
    }
    return STATUS_OK;
}

Status together_start(RunMemory *memory, uint32_t *rounds_done, bool *has_result, Nodes *nodes, Error *err) {
    const RunConfig *config = memory->config;
    uint32_t progress[] = {*rounds_done, *has_result};
    TRY(nodes_broadcast(nodes, progress, sizeof progress, err));
    *rounds_done = progress[0];
    *has_result = progress[1];
    TRY(nodes_broadcast(nodes, memory->weights, config->parameters * sizeof(float), err));
    if (memory->schedule.count > 0) schedule_resume(&memory->schedule, *rounds_done);
    StateTable state;
    Status status = state_open(&state, memory, err);
    for (uint32_t i = 0; i < state.count && status == STATUS_OK; i++) {
        const StateRow *row = &state.rows[i];
        status = nodes_broadcast(nodes, row->values, row->count * tensor_type_bytes(row->type), err);
        if (status == STATUS_OK && row->scope == STATE_PER_CLIENT_VECTOR)
            status = share_client_state(memory, nodes, err);
    }
    free(state.rows);
    return status;
}
