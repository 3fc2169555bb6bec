// Files of NumPy's arrays, as np.savez writes them: a zip archive without compression, whose member NAME.npy is array
// NAME. np.load(path)["weights/fc1.weight"] reads one.
//
//   Npz npz;
//   TRY(npz_create(&npz, path, err));
//   npz_begin(&npz, "clients", "<u4", 1, (int64_t[]){5}, sizeof(uint32_t));
//   npz_put(&npz, clients, 5 * sizeof *clients);              // as often as suits the caller, in C's order
//   npz_end(&npz);
//   TRY(npz_close(&npz, err));                                // also reports what failed before
//
// Numbers are little-endian. An archive may have 4 GiB and 65,535 arrays (no zip64). Calls after a failure do nothing.
#ifndef SOUNDER_IO_NPZ_H
#define SOUNDER_IO_NPZ_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define NPZ_MOST_BYTES ((double)UINT32_MAX)

enum { NPZ_MOST_DIMENSIONS = 8, NPZ_OVERHEAD_BYTES = 512 }; // the latter: of one array, beside its numbers and name

typedef struct Npz {
    FILE *file; // owned
    char path[4096];
    uint8_t *directory; // owned (directory_capacity): the archive's list of members so far
    size_t directory_bytes, directory_capacity, last; // last: where the list has the member that is being written
    uint64_t begin, due, size;                        // of that member: its place, bytes of its array, of all of it
    uint32_t checksum;
    uint32_t count; // members
    Status status;  // of the first failure
    Error why;
} Npz;

// CANTCREATE; then there is nothing to close. An existing file is an error.
Status npz_create(Npz *npz, const char *path, Error *err);

// Begins an array of a type in NumPy's words ("<f4", "|u1") with items of item_bytes. The caller then puts exactly as
// many bytes as the shape (rank) says.
void npz_begin(Npz *npz, const char *name, const char *type, int rank, const int64_t *shape, size_t item_bytes);
void npz_put(Npz *npz, const void *bytes, size_t count);
void npz_end(Npz *npz);

// An array in one call.
void npz_add(Npz *npz, const char *name, const char *type, int rank, const int64_t *shape, size_t item_bytes,
             const void *items);

// Finishes and closes the file; removes it after a failure (IO, with the path and the reason).
Status npz_close(Npz *npz, Error *err);

#endif
