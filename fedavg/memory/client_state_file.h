// Client state, the vector that a client keeps from turn to turn (rules/local/local_rules.h): rows of floats in one
// sparse file, which the parent and its workers map. A row that was never written is a hole in the file: it costs
// nothing and reads as zeros.
//
// Workers read a client's committed row and write another one, which the parent makes the client's row when the round
// has succeeded (parent/client_state_rows.h). So the death of any process leaves the committed rows unchanged.
#ifndef SOUNDER_FEDAVG_MEMORY_CLIENT_STATE_FILE_H
#define SOUNDER_FEDAVG_MEMORY_CLIENT_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"

#define CLIENT_STATE_FILE_NAME "clients.kept"

enum { NO_CLIENT_STATE = 0 }; // of a client without state; row 0 of the file is not used

// Plain data, in RunConfig.
typedef struct ClientStatePlan {
    uint32_t rows;      // in the file; 0: there is no client state
    uint64_t floats;    // of a row, in use
    uint64_t row_bytes; // a multiple of the page size
    // The first float of the optimizer's state, and of what a code has left over; the vector or model that the
    // client's rule keeps is before both.
    uint64_t optimizer, left;
} ClientStatePlan;

// Parent and workers map the whole file. Pages of rows that no client has cost neither memory nor disk.
typedef struct ClientStateFile {
    ClientStatePlan plan;
    int fd;               // owned; -1: there is no client state
    uint64_t found_bytes; // length of the file before it was extended: 0 for a new one
    void *mapping;        // owned
} ClientStateFile;

// The plan of a file with this many rows of `floats`.
ClientStatePlan client_state_plan(uint32_t rows, uint64_t floats);

// In the parent: CLIENT_STATE_FILE_NAME in the run's folder, created, or as a resumed run has left it; folder NULL: a
// file without a name, in memory. IO with the path; USAGE for a link (file_check_own); OS. Leaves nothing to free on
// failure.
Status client_state_file_create(ClientStateFile *file, const ClientStatePlan *plan, const Folder *folder, Error *err);

// In a worker; takes over the descriptor.
Status client_state_file_map(ClientStateFile *file, const ClientStatePlan *plan, int fd, Error *err);

// Does nothing for a file that is zeroed except fd -1.
void client_state_file_free(ClientStateFile *file);

// NULL for NO_CLIENT_STATE, a client without state.
float *client_state_row(const ClientStateFile *file, uint32_t row);

// Writes the first `count` floats of the row, with a system call: a store would cost a page fault for each page that is
// new to the process, and the kernel would fill the page with zeros first.
void client_state_row_write(const ClientStateFile *file, uint32_t row, const float *values, size_t count);

// The bytes of the row from byte `first` on.
void client_state_row_write_bytes(const ClientStateFile *file, uint32_t row, size_t first, const void *values,
                                  size_t bytes);

// The table of a run: the number of rows in use, then each client's row, then the hash of each client's row. Hash 0:
// unknown, because the row is newer than the last checkpoint.
static inline size_t client_state_table_size(uint32_t clients) {
    return 1 + 2 * (size_t)clients;
}

// Checks a table from a file before any row is read through it. DATA, with the client and its row, if no run of this
// plan can have written it: a row out of range, or one that two clients have.
Status client_state_table_check(const uint32_t *table, const ClientStatePlan *plan, uint32_t clients, Error *err);

// Computes the unknown hashes; called before a checkpoint, which stores the table.
void client_state_file_hash(uint32_t *table, const ClientStateFile *file, uint32_t clients);

// Whether all rows are as they were at the checkpoint of this table; if not, *client is the first one whose row
// differs.
bool client_state_file_is_as_hashed(uint32_t *client, const uint32_t *table, const ClientStateFile *file,
                                    uint32_t clients);

// Allocates the row's space on disk, so that a full disk is an error message here and not a SIGBUS in a worker.
Status client_state_file_reserve(const ClientStateFile *file, uint32_t row, Error *err);

// Cuts the file to the length it was found with, so that the next run finds what this one found. No process may read
// rows after it.
void client_state_file_leave(const ClientStateFile *file);

// Waits until all writes are on the disk; called before a checkpoint, which refers to the rows.
Status client_state_file_sync(const ClientStateFile *file, Error *err);

#endif
