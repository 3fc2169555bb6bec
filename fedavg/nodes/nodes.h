// The nodes of a run on several machines: one process per node, the parent of its workers, started by mpirun or srun.
//
//   TRY(nodes_init(&nodes, err));                        // alone (rank 0 of 1) unless started as one of several
//   TRY(nodes_broadcast(&nodes, &options, sizeof options, err));
//   TRY(nodes_sum(&nodes, sums, count, err));            // exact: 64-bit integers, the same on every node
//   nodes_free(&nodes, status == STATUS_OK);
//
// Every function is called by all nodes in the same order; alone, each does nothing and succeeds. No wait is without
// end: nodes show each other signs of life, and one that is dead (its process has ended; seen at once on the same
// machine), has said that it leaves, or has been silent for silence_seconds is lost. Then every wait of every other
// node fails with UNAVAILABLE and a sentence that names it, and a run ends; it goes on, with any number of nodes, from
// its last checkpoint. A node that works for long without waiting here calls nodes_watch now and then; one that cannot,
// because it reads or writes files, calls nodes_busy first: until its next sign of life its silence may last for
// NODES_BUSY_SECONDS.
#ifndef SOUNDER_FEDAVG_NODES_NODES_H
#define SOUNDER_FEDAVG_NODES_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/nodes/nodes_transport.h"

enum {
    NODE_HOST_BYTES = 64,
    NODES_BUSY_SECONDS = 3600 // to write or read files of some 100 GB
};

// Another node as this one sees it. A death is seen by the pidfd on one machine, and by silence elsewhere.
typedef struct NodePeer {
    char host[NODE_HOST_BYTES];
    int32_t pid;
    int pidfd;     // owned; -1 where its death cannot be seen from here
    bool has_left; // has said that it leaves
    bool is_busy;  // has said that it works, and nothing since
    uint64_t heard_nanoseconds;
} NodePeer;

typedef struct Nodes {
    uint32_t rank, size;
    double silence_seconds;           // the caller's to set; 0: for ever
    size_t message_bytes;             // the largest piece of one call
    bool is_busy;                     // the others have been told, and have seen no sign of life since
    bool (*cancelled)(void *context); // the caller's to set, may be NULL: whether to give up waiting
    void *context;
    const NodesTransport *transport; // NULL when alone
    NodesConnection *connection;     // owned
    NodePeer *peers;                 // owned (size)
    uint64_t watched_nanoseconds;    // when they were last looked at
} Nodes;

// USAGE in one of several: the command would be done as many times over. way_out: what else than starting one the user
// can do, "; ..." or "".
Status nodes_refuse_copies(const char *command, const char *way_out, Error *err);

// This process, and what it starts from here on, is alone, whatever it was started as.
void nodes_stay_alone(void);

// Joins the others when this process was started as one of several (mpirun's and srun's environment variables say so):
// the first moment that MPI's libraries are loaded. UNAVAILABLE in a build without MPI. Nothing to free on failure.
Status nodes_init(Nodes *nodes, Error *err);

// values (count) become their sum over all nodes; bytes (count) become those of node 0.
Status nodes_sum(Nodes *nodes, int64_t *values, size_t count, Error *err);
Status nodes_broadcast(Nodes *nodes, void *bytes, size_t count, Error *err);

// all: the nodes' `mine` in the nodes' order, one after the other; counts (size): bytes of each.
Status nodes_gather(Nodes *nodes, void *all, const void *mine, const size_t *counts, Error *err);

// As nodes_gather, where each node knows its own `bytes` alone: fills in counts (size). The caller frees *all, which
// begins on a cache line, after a failure, too.
Status nodes_collect(Nodes *nodes, void **all, size_t *counts, const void *mine, size_t bytes, Error *err);

// All or none: after something that can fail on one node alone. `mine` is its status there, returned if it is a
// failure; UNAVAILABLE, naming the node, when it is another's. Every node is busy afterwards, for the next such step.
Status nodes_agree(Nodes *nodes, Status mine, Error *err);

// Shows a sign of life and looks whether anybody is lost. Cheap: ten times a second it really does.
Status nodes_watch(Nodes *nodes, Error *err);

// The others are told that this node works alone from now on, until it waits or watches again.
Status nodes_busy(Nodes *nodes, Error *err);

// Whether what nodes->transport has under way is done; fails as a wait would.
Status nodes_test(Nodes *nodes, bool *done, Error *err);

// Waits until it is done.
Status nodes_wait(Nodes *nodes, Error *err);

// in_good_order: all nodes are here, too. Otherwise the others are told that this one leaves.
void nodes_free(Nodes *nodes, bool in_good_order);

#endif
