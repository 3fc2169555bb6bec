// What clients keep from turn to turn (rules/local/local_rules.h): rows of floats in one sparse file, which the parent
// and its workers map. A row that was never written is a hole, costs nothing, and reads as zeros.
//
// Workers read a client's committed row and write another one, which the parent makes the client's when the round has
// succeeded (parent/client_state_rows.h): whoever dies when has changed nothing.
#ifndef SOUNDER_FEDAVG_MEMORY_CLIENT_STATE_FILE_H
#define SOUNDER_FEDAVG_MEMORY_CLIENT_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"

#define CLIENT_STATE_FILE_NAME "clients.kept"

enum { NO_CLIENT_STATE = 0 }; // of a client that has none yet; the file's first row is not used

// Plain data, in RunConfig.
typedef struct ClientStatePlan {
    uint32_t rows;      // in the file; 0: clients keep nothing
    uint64_t floats;    // of a row that are used
    uint64_t row_bytes; // a multiple of the page's size
} ClientStatePlan;

typedef struct ClientStateFile {
    ClientStatePlan plan;
    int fd;               // owned; -1: clients keep nothing
    uint64_t found_bytes; // of the file before it was made as long as planned: 0 for a new one
    void *mapping;        // owned
} ClientStateFile;

// So many rows of `floats`.
ClientStatePlan client_state_plan(uint32_t rows, uint64_t floats);

// The parent's: CLIENT_STATE_FILE_NAME in the run's folder, created or, in a run that is resumed, as it was left;
// folder NULL: a file without a name, in memory. IO with the path; USAGE for a link (file_check_own); OS. Leaves
// nothing to free on failure.
Status client_state_file_create(ClientStateFile *file, const ClientStatePlan *plan, const Folder *folder, Error *err);

// A worker's, which takes the descriptor over.
Status client_state_file_map(ClientStateFile *file, const ClientStatePlan *plan, int fd, Error *err);

// Does nothing for a file that is zeroed and has fd -1.
void client_state_file_free(ClientStateFile *file);

// NULL for NO_CLIENT_STATE: the client has kept nothing so far.
float *client_state_row(const ClientStateFile *file, uint32_t row);

// The first `count` floats of the row. Written instead of stored where they lie: a page of a file that is new to a
// process costs a fault, and zeros before it is filled.
void client_state_row_write(const ClientStateFile *file, uint32_t row, const float *values, size_t count);

// The table of a run: how many rows are in use, each client's row, and each client's row's hash; 0: it is not known,
// since the row is newer than the last checkpoint.
static inline size_t client_state_table_size(uint32_t clients) {
    return 1 + 2 * (size_t)clients;
}

// DATA, with the client and its row, for a table that no run of this plan can have written: a row outside of those in
// use, or one that two clients have. Comes before anything is read through a table from a file.
Status client_state_table_check(const uint32_t *table, const ClientStatePlan *plan, uint32_t clients, Error *err);

// Fills in the hashes that are not known: before a checkpoint that says which row is whose.
void client_state_file_hash(uint32_t *table, const ClientStateFile *file, uint32_t clients);

// Whether all rows are what they were at the checkpoint that the table is of; if not, *client is the first whose is
// not.
bool client_state_file_is_as_hashed(uint32_t *client, const uint32_t *table, const ClientStateFile *file,
                                    uint32_t clients);

// Has the row's space allocated, so that a full disk is a sentence here and no SIGBUS in a worker.
Status client_state_file_reserve(const ClientStateFile *file, uint32_t row, Error *err);

// Makes the file as long as it was found, so that the next run finds what this one did. Nobody may read rows any more.
void client_state_file_leave(const ClientStateFile *file);

// Waits until what was written lies on the disk: before a checkpoint that says which row is whose.
Status client_state_file_sync(const ClientStateFile *file, Error *err);

#endif
