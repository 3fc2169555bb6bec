// The parent's arithmetic: the one shared model, the mean of the clients' updates, what a failed round is put back to.
// One table of functions for each place where it can be done: server_on_cpu works in the run's shared memory itself;
// the card's (card.h) in blocks of the card's memory, and copies weights and velocities into the shared memory whenever
// a round is done, so that checkpoints, the final model and live/ come from there on either.
//
//   Server server = {.kind = &server_on_cpu, .memory = &memory};
//   TRY(server.kind->init(&server, err));              // the shared memory is filled, no worker has started yet
//   TRY(server.kind->begin(&server, err));             // each round, while the workers stand still
//   ... they train ...
//   TRY(server.kind->average(&server, &finite, used, arrived, err));      // fedavg
//   TRY(server.kind->adopt(&server, &finite, err));                       // hogwild, ssgd
//   server.kind->free(&server);                        // when no worker lives any more
#ifndef SOUNDER_FEDAVG_PARENT_SERVER_H
#define SOUNDER_FEDAVG_PARENT_SERVER_H

#include <stdbool.h>

#include "base/err.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/memory/run_memory.h"
#include "nn/step.h"

typedef struct Server Server;

typedef struct ServerKind {
    // Nothing to free on failure.
    Status (*init)(Server *server, Error *err);
    void (*free)(Server *server);

    // hogwild, ssgd: remembers the weights (ssgd: and the velocity) for restore, and starts the count of updates anew.
    Status (*begin)(Server *server, Error *err);
    Status (*restore)(Server *server, Error *err);

    // fedavg: weights += the exact mean of the slots of the ranks with used (workers), and of those of the other nodes;
    // arrived as in aggregate.h.
    Status (*average)(Server *server, bool *finite, const bool *used, double arrived, Error *err);

    // hogwild, ssgd: takes what the workers made of the weights for the model, unless it is not finite.
    Status (*adopt)(Server *server, bool *finite, Error *err);

    // Loss and hits on the whole test set. NULL: the workers do it, in chunks.
    Status (*evaluate)(Server *server, BatchResult *result, Error *err);
} ServerKind;

struct Server {
    const ServerKind *kind;
    RunMemory *memory; // borrowed
    Nodes *nodes;      // borrowed
    void *state;       // owned by the kind
};

extern const ServerKind server_on_cpu;

#endif
