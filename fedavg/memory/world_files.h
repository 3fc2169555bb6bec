// Files about clients: speed on the simulated clock, availability, weights. Used by the parent.
//
//   --client-time file:FILE: one line per client, "CLIENT MICROSECONDS BYTES [WATTS [LINK_WATTS]]": microseconds per
//   sample, bytes per second (0: no limit); watts while it trains, and while it receives and sends (WATTS unless given)
//   --sampling available:FILE: any number of lines, "CLIENT BEGIN END": the client is there from BEGIN to before END,
//   in seconds
//
//   --client-weights file:FILE: one line per client, "CLIENT WEIGHT": what it counts in a mean
//
//   --clock replay:FILE: a recorded schedule; stored here only as a hash, which tells files apart
//
// Numbers are separated by blanks or commas; empty lines and text after a # are ignored.
#ifndef SOUNDER_FEDAVG_MEMORY_WORLD_FILES_H
#define SOUNDER_FEDAVG_MEMORY_WORLD_FILES_H

#include <stdint.h>

#include "base/err.h"
#include "base/owned.h"

typedef struct ClientPace {
    double microseconds_per_sample, bytes_per_second;
} ClientPace;

// Apart from the pace, whose bytes are a part of a run's identity.
typedef struct ClientPower {
    double watts, link_watts;
} ClientPower;

typedef struct Presence {
    uint32_t client, unused;
    uint64_t begin_microseconds, end_microseconds;
} Presence;

// Only the parent decides about clients, so that no worker maps or reads such a file.
typedef struct WorldFiles {
    Owned owned;
    ClientPace *paces;   // owned (clients); NULL: no file
    ClientPower *powers; // owned (clients); NULL: no file, or one without watts
    Presence *presences; // owned (presence_count); NULL: no file
    double *weights;     // owned (clients), above 0; NULL: clients count by their samples
    uint32_t clients, presence_count;
    uint64_t recording_hash; // of the bytes of a recorded schedule; 0: no file
} WorldFiles;

// An empty path: no file; recording NULL: none. DATA, with the line, for what does not fit the form; NOINPUT, IO,
// OS. Nothing to free on failure.
Status world_files_read(WorldFiles *files, const char *client_file, const char *availability_file,
                        const char *recording, uint32_t clients, Error *err);

// After world_files_read: fills in the weights. text: "file:FILE", or a list with a number for each client, "1,2,0.5",
// or empty. USAGE for a list that does not fit; DATA, with the line, for a file that does not; NOINPUT, IO, OS. The
// caller frees the files on failure, too.
Status world_files_read_weights(WorldFiles *files, const char *text, Error *err);

void world_files_free(WorldFiles *files);

// A hash of the content of all files; 0 without files.
uint64_t world_files_hash(const WorldFiles *files);

// A hash of what one of them says (of a recording: of its bytes); 0 without it. The weights may be a list.
typedef enum WorldFile { WORLD_PACES, WORLD_PRESENCES, WORLD_WEIGHTS, WORLD_RECORDING } WorldFile;
uint64_t world_file_hash(const WorldFiles *files, WorldFile which);

// there (clients): whether each client is available at this time. Returns the next time at which a client becomes
// available; UINT64_MAX if there is none.
uint64_t world_files_presence(uint8_t *there, const WorldFiles *files, uint64_t microseconds);

#endif
