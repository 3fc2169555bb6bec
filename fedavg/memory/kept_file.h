// What clients keep from turn to turn (rules/local_rules.h): rows of floats in one sparse file, which the parent and
// its workers map. A row that was never written is a hole, costs nothing, and reads as zeros.
//
// Workers read a client's committed row and write another one, which the parent makes the client's when the round has
// succeeded (parent/kept_rows.h): whoever dies when has changed nothing.
#ifndef SOUNDER_FEDAVG_MEMORY_KEPT_FILE_H
#define SOUNDER_FEDAVG_MEMORY_KEPT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"

#define KEPT_FILE_NAME "clients.kept"

enum { KEPT_NO_ROW = 0 }; // of a client that has none yet; the file's first row is not used

// Plain data, in RunConfig.
typedef struct KeptPlan {
    uint32_t rows;      // in the file; 0: clients keep nothing
    uint64_t floats;    // of a row that are used
    uint64_t row_bytes; // a multiple of the page's size
} KeptPlan;

typedef struct KeptFile {
    KeptPlan plan;
    int fd;               // owned; -1: clients keep nothing
    uint64_t found_bytes; // of the file before it was made as long as planned: 0 for a new one
    void *mapping;        // owned
} KeptFile;

// So many rows of `floats`.
KeptPlan kept_plan(uint32_t rows, uint64_t floats);

// The parent's: KEPT_FILE_NAME in the run's folder, created or, in a run that is resumed, as it was left; folder NULL:
// a file without a name, in memory. IO with the path; USAGE for a link (file_check_own); OS. Leaves nothing to free on
// failure.
Status kept_file_create(KeptFile *file, const KeptPlan *plan, const Folder *folder, Error *err);

// A worker's, which takes the descriptor over.
Status kept_file_map(KeptFile *file, const KeptPlan *plan, int fd, Error *err);

// Does nothing for a file that is zeroed and has fd -1.
void kept_file_free(KeptFile *file);

// NULL for KEPT_NO_ROW: the client has kept nothing so far.
float *kept_row(const KeptFile *file, uint32_t row);

// The first `count` floats of the row. Written instead of stored where they lie: a page of a file that is new to a
// process costs a fault, and zeros before it is filled.
void kept_row_write(const KeptFile *file, uint32_t row, const float *values, size_t count);

// The table of a run: how many rows are in use, each client's row, and each client's row's hash; 0: it is not known,
// since the row is newer than the last checkpoint.
static inline size_t kept_table_size(uint32_t clients) {
    return 1 + 2 * (size_t)clients;
}

// DATA, with the client and its row, for a table that no run of this plan can have written: a row outside of those in
// use, or one that two clients have. Comes before anything is read through a table from a file.
Status kept_table_check(const uint32_t *table, const KeptPlan *plan, uint32_t clients, Error *err);

// Fills in the hashes that are not known: before a checkpoint that says which row is whose.
void kept_file_hash(uint32_t *table, const KeptFile *file, uint32_t clients);

// Whether all rows are what they were at the checkpoint that the table is of; if not, *client is the first whose is
// not.
bool kept_file_is_as_hashed(uint32_t *client, const uint32_t *table, const KeptFile *file, uint32_t clients);

// Has the row's space allocated, so that a full disk is a sentence here and no SIGBUS in a worker.
Status kept_file_reserve(const KeptFile *file, uint32_t row, Error *err);

// Makes the file as long as it was found, so that the next run finds what this one did. Nobody may read rows any more.
void kept_file_leave(const KeptFile *file);

// Waits until what was written lies on the disk: before a checkpoint that says which row is whose.
Status kept_file_sync(const KeptFile *file, Error *err);

#endif
