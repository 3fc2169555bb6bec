// A copy of what packed files unpack to, in the user's cache folder: Fashion-MNIST takes 0.3 s to unpack and a tenth of
// that to copy. A convenience only: whatever is wrong with it, the files themselves are read.
//
// A copy is used when it was made from files of the same paths, sizes and times of change, belongs to the user, is
// writable by nobody else, has exactly the right size, and its checksum (XXH3) is right. SOUNDER_CACHE=off turns it off.
#ifndef SOUNDER_DATASETS_UNPACKED_CACHE_H
#define SOUNDER_DATASETS_UNPACKED_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "datasets/dataset_block.h"
#include "datasets/idx_folder.h"

typedef struct UnpackedCache {
    bool usable; // a file is packed, there is a cache folder, and nobody has turned it off
    char folder[DATASET_PATH_BYTES];
    char path[DATASET_PATH_BYTES]; // of the copy, in folder
    // The files it is made from, padded with zeros: what stands first in the copy.
    char key[(IDX_ROLES + 1) * DATASET_PATH_BYTES];
} UnpackedCache;

// Notes what the files are like now. To be called before they are read, so that a copy of files that change meanwhile
// goes under a key that no longer fits them. block: laid out.
void unpacked_cache_init(UnpackedCache *cache, const DatasetBlock *block, const IdxFolder *files);

// Fills the block's arrays and returns true, or returns false: the arrays hold anything then.
bool unpacked_cache_load(DatasetBlock *block, const UnpackedCache *cache);

// Keeps a copy of the block's arrays. Readers see a whole copy or none.
void unpacked_cache_store(const UnpackedCache *cache, const DatasetBlock *block);

#endif
