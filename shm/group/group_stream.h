// Copies what another core is going to read.
//
// An ordinary store first has to win the cache line back from the core that read it last. How dear that is depends on
// where the two cores are, which the scheduler may change at any time, and on whether that core's cache still has the
// line. Between cores that share no cache it costs some 35 ns a line, ten times as much as everything else about the
// copy (EPYC: 1.9 GB/s); streaming past the caches does 25 GB/s, and what was streamed is read as fast. Cores that
// share a cache exchange long copies through it twice as fast as through memory, short ones more slowly.
#ifndef SOUNDER_SHM_GROUP_GROUP_STREAM_H
#define SOUNDER_SHM_GROUP_GROUP_STREAM_H

#include <stddef.h>

// Little is copied as memcpy does it, more is streamed, and of very much the first pages decide: they are stored, and
// if that was quick, so is the rest. All of it is visible to whoever sees a later store of this core with release.
void group_stream(void *to, const void *from, size_t bytes);

#endif
