// The block of a data set that had to be unpacked, kept in a file of the user's cache folder: later runs map it instead
// of unpacking again, and share its pages. It is only an optimisation: if a copy cannot be used for any reason, the
// data set's files are read.
//
//   struct timespec changed;
//   int fd;
//   if (unpacked_cache_open(&fd, &changed, &source))
//       ... map fd, read-only: the first source.block_bytes bytes are what dataset_read would give ...
//   else
//       TRY(dataset_read(block, &source, err)), and later, off the critical path: unpacked_cache_keep(block, &source)
//
// Guarantees. A copy is used if it was made from the same files (paths, inodes, sizes, times of change), belongs to the
// user, is not writable by others, has exactly the right size, and has the right checksum (XXH3, over all of it):
// copies that a power failure has torn or that were changed are not used. A copy is never written to: its file is
// read-only, gets its name when it is complete, and is replaced under that name by a newer copy, so that a process that
// has mapped it keeps the contents it has checked. The remaining risk is a program that writes to or truncates the file
// itself while a run has it mapped (access beyond the new end raises SIGBUS): `changed`, the time of its last change
// before the check, shows that. SOUNDER_CACHE=off turns the cache off; the other values are on and the empty text.
#ifndef SOUNDER_DATASETS_UNPACKED_CACHE_H
#define SOUNDER_DATASETS_UNPACKED_CACHE_H

#include <stdbool.h>
#include <time.h>

#include "datasets/dataset.h"
#include <stddef.h>

// Opens a valid copy (the caller owns *fd; read-only, close-on-exec) and returns true; returns false if there is none.
bool unpacked_cache_open(int *fd, struct timespec *changed, const DatasetSource *source);

// For a source of which only the origin is known: if there is a valid copy, sets shape, counts, items and users from it
// and returns true, so that files that take long to read need not be read to learn their sizes.
bool unpacked_cache_describe(DatasetSource *source);

// Keeps a copy of a block that dataset_read has filled, if the source has packed files; not for a source with a model,
// whose block another run cannot use. Readers see a complete copy or
// none. A copy that cannot be written is no failure.
void unpacked_cache_keep(const void *block, const DatasetSource *source);

// Fails with USAGE if SOUNDER_CACHE has an unknown value.
Status unpacked_cache_check(Error *err);

// Writes the path of the user's cache folder, $XDG_CACHE_HOME/sounder or ~/.cache/sounder (XDG Base Directory
// Specification), to `folder` (`bytes` bytes). The folder need not exist. Returns false if there is no home or the path
// does not fit.
bool user_cache_folder(char *folder, size_t bytes);

#endif
