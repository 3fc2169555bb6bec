// The block of a data set that had to be unpacked, kept in a file of the user's cache folder for later runs: they map
// it instead of unpacking again, and all of them share its pages. A convenience only: whatever is wrong with a copy,
// the files themselves are read.
//
//   struct timespec changed;
//   int fd;
//   if (unpacked_cache_open(&fd, &changed, &source))
//       ... map fd, read-only: the first source.block_bytes bytes are what dataset_read would give ...
//   else
//       TRY(dataset_read(block, &source, err)), and later, when nobody waits: unpacked_cache_keep(block, &source)
//
// What is promised. A copy is used when it was made from the same files (paths, inodes, sizes, times of change),
// belongs to the user, is writable by nobody else, has exactly the right size, and its checksum (XXH3, over all of it)
// is right: one that a power failure has torn or that anybody has damaged is not. A copy is never written to: its file
// is read-only, it gets its name when it is whole, and a newer one replaces it under that name, so that who has it
// mapped keeps what was checked. That leaves a program that writes to or truncates the file itself while a run has it
// mapped (touching what was cut off is a SIGBUS): `changed`, the time of its last change before it was checked, tells.
// SOUNDER_CACHE=off turns all of this off; on, or nothing, is the other value there is.
#ifndef SOUNDER_DATASETS_UNPACKED_CACHE_H
#define SOUNDER_DATASETS_UNPACKED_CACHE_H

#include <stdbool.h>
#include <time.h>

#include "datasets/dataset.h"
#include <stddef.h>

// Opens a good copy (*fd is the caller's, read-only, close-on-exec) and returns true, or returns false: there is none.
bool unpacked_cache_open(int *fd, struct timespec *changed, const DatasetSource *source);

// Whether there is a good copy of a source of which no more is known than its origin: shape, counts, items and users
// are then taken from it, so that files whose reading takes long need not be read to know how much is in them.
bool unpacked_cache_describe(DatasetSource *source);

// Keeps a copy of a block that dataset_read has filled, if the source has packed files. Readers see a whole copy or
// none. That it cannot be kept is no failure.
void unpacked_cache_keep(const void *block, const DatasetSource *source);

// USAGE when SOUNDER_CACHE has a value that means nothing.
Status unpacked_cache_check(Error *err);

// The user's cache folder: $XDG_CACHE_HOME/sounder, or ~/.cache/sounder (XDG Base Directory Specification).

// Writes the path (it need not exist) to folder (bytes). False when there is no home or the path does not fit.
bool user_cache_folder(char *folder, size_t bytes);

#endif
