// XXH3 of weights, as <xxhash.h> has it, by the widest vectors of the machine where the library has a choice of them
// (x86): half the time, and a sixth where a large model comes in small parts. The same values everywhere.
#ifndef SOUNDER_FEDAVG_MEMORY_FINGERPRINT_H
#define SOUNDER_FEDAVG_MEMORY_FINGERPRINT_H

#ifdef SOUNDER_XXH3_CHOOSES
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
