// The table of functions that carry bytes between machines for nodes.h, so that MPI stays in one file (nodes_mpi.c) and
// one module, which is loaded only where there is more than one node.
//
// One process per node calls these, from one thread. Collectives: every node begins the same ones in the same order
// with matching sizes; a node has one under way at a time, from begin_... until test says done, and its buffers belong
// to it until then. Sizes are below 2 GiB. No function waits for another node, except open and a close in good order. A
// failed call: UNAVAILABLE, with MPI's own words.
#ifndef SOUNDER_FEDAVG_NODES_NODES_TRANSPORT_H
#define SOUNDER_FEDAVG_NODES_NODES_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { NODES_MESSAGE_BYTES = 1 << 30 }; // the largest piece that nodes.c hands to one call

// A message that no collective is needed for: one byte, to everybody.
// NODE_BUSY: silence that follows is work.
typedef enum NodeSignal { NODE_ALIVE = 1, NODE_LEAVING, NODE_BUSY } NodeSignal;

typedef struct NodesConnection NodesConnection; // the transport's own

typedef struct NodesTransport {
    // *connection is the caller's until close. *size: before, how many nodes were started; then, how many there are.
    Status (*open)(NodesConnection **connection, uint32_t *rank, uint32_t *size, Error *err);

    // values (count) become their sum over all nodes.
    Status (*begin_sum)(NodesConnection *connection, int64_t *values, size_t count, Error *err);
    // bytes (count) become those of node 0.
    Status (*begin_broadcast)(NodesConnection *connection, void *bytes, size_t count, Error *err);
    // all: the nodes' `mine`, one after the other in the nodes' order; counts (size): bytes of each.
    Status (*begin_gather)(NodesConnection *connection, void *all, const void *mine, const size_t *counts, Error *err);
    // received: one piece of every node for this one, received_counts (size) bytes each; sent: one piece for every
    // node, sent_counts (size) bytes each; both one behind the other in the nodes' order.
    Status (*begin_exchange)(NodesConnection *connection, void *received, const void *sent,
                             const size_t *received_counts, const size_t *sent_counts, Error *err);
    // *done: whether what was begun last is complete. It does not wait, and it moves messages along.
    Status (*test)(NodesConnection *connection, bool *done, Error *err);

    // Sends `signal` to every other node whose last one has gone out.
    Status (*signal)(NodesConnection *connection, NodeSignal signal, Error *err);
    // The next signal that has come in: 0 when there is none.
    Status (*listen)(NodesConnection *connection, uint32_t *from, NodeSignal *signal, Error *err);

    // in_good_order: all nodes do it, now. Otherwise nobody is waited for, and MPI is left as it is.
    void (*close)(NodesConnection *connection, bool in_good_order);
} NodesTransport;

// Joins the other nodes' transport: nodes_load.c, or nodes_none.c in a build without MPI. UNAVAILABLE if it cannot be
// loaded. The table lives as long as the process.
Status nodes_transport_load(const NodesTransport **transport, Error *err);

// Whether this program was built with MPI.
bool nodes_are_built(void);

#endif
