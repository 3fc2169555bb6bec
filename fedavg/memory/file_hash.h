// The XXH3 of a file's bytes.
#ifndef SOUNDER_FEDAVG_MEMORY_FILE_HASH_H
#define SOUNDER_FEDAVG_MEMORY_FILE_HASH_H

#include <stdint.h>

#include "base/err.h"

// Reads the regular file in chunks, since it need not fit into memory. NOINPUT, IO, OS.
Status file_hash(uint64_t *hash, const char *path, Error *err);

#endif
