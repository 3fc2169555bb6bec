// XXH3 (<xxhash.h>), with the widest vectors of the machine if the library can choose (x86): twice as fast, and six
// times where a large model is hashed in small parts. All machines compute the same values.
#ifndef SOUNDER_FEDAVG_MEMORY_FINGERPRINT_H
#define SOUNDER_FEDAVG_MEMORY_FINGERPRINT_H

#ifdef SOUNDER_XXH3_CHOOSES
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
