// What files tell of clients: how fast each one is, and when it is there. The parent's, for the simulated clock.
//
//   --client-time file:FILE: one line per client, "CLIENT MICROSECONDS BYTES": microseconds per sample, bytes per
//   second (0: no limit)
//   --sampling available:FILE: any number of lines, "CLIENT BEGIN END": the client is there from BEGIN to before END,
//   in seconds
//
//   --clock replay:FILE: who trained when; here what is in it, as a number that tells files apart
//
// Blanks or commas stand between the numbers; empty lines and what follows a # are left out.
#ifndef SOUNDER_FEDAVG_MEMORY_WORLD_FILES_H
#define SOUNDER_FEDAVG_MEMORY_WORLD_FILES_H

#include <stdint.h>

#include "base/err.h"

typedef struct ClientPace {
    double microseconds_per_sample, bytes_per_second;
} ClientPace;

typedef struct Presence {
    uint32_t client, unused;
    uint64_t begin_microseconds, end_microseconds;
} Presence;

typedef struct WorldFiles {
    ClientPace *paces;   // owned (clients); NULL: no file
    Presence *presences; // owned (presence_count); NULL: no file
    uint32_t clients, presence_count;
    uint64_t recording_hash; // of a recorded schedule's bytes; 0: no file
} WorldFiles;

// A path that is empty: no file. recording: NULL: none. USAGE, with the line, for what does not fit; NOINPUT, IO.
// Nothing to free on failure.
Status world_files_read(WorldFiles *files, const char *client_file, const char *availability_file,
                        const char *recording, uint32_t clients, Error *err);
void world_files_free(WorldFiles *files);

// Of what they tell; 0 without files.
uint64_t world_files_hash(const WorldFiles *files);

// there (clients): whether each is there at this time. Returns the first time after it at which anybody comes;
// UINT64_MAX when nobody does any more.
uint64_t world_files_presence(uint8_t *there, const WorldFiles *files, uint64_t microseconds);

#endif
