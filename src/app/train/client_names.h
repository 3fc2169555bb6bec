// The names of clients, where a client is a user of a data set whose users have names: a value of a table's column
// client, a user of LEAF.
//
//   ClientNames names;
//   TRY(client_names_find(&names, &memory, &options, err));
//   ... client_name(number, &names, 3)             // "H03", or "3"
//   client_names_free(&names);
#ifndef SOUNDER_APP_TRAIN_CLIENT_NAMES_H
#define SOUNDER_APP_TRAIN_CLIENT_NAMES_H

#include "app/options/options.h"
#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "io/json.h"

enum { CLIENT_NUMBER_BYTES = 16, CLIENT_SHOWN_BYTES = 64 };

// A name is borrowed from the data; NULL: the client is known by its number.
typedef struct ClientNames {
    const char **all; // owned, (count); NULL: all clients are known by number
    uint32_t count;
} ClientNames;

// Needs the partition. options: those of the partition. Fails with OS.
Status client_names_find(ClientNames *names, const RunMemory *memory, const Options *options, Error *err);
void client_names_free(ClientNames *names);

// The name of a client; its number, written to `number`, if it has none.
const char *client_name(char number[CLIENT_NUMBER_BYTES], const ClientNames *names, uint32_t client);

// Finds a client of a run (folder) by its name, or by its number where none is called so. Fails with USAGE.
Status client_names_number(uint32_t *client, const ClientNames *names, uint32_t clients, const char *typed,
                           const char *folder, Error *err);

// Puts "client_names", one for every N-th client and null for a number, if some client has a name.
void put_client_names(JsonObject *object, const ClientNames *names, uint32_t every);

#endif
