// Part of nodes_transport.h: nodes over MPI. No other file knows MPI; this one is built into a module of its own
// (CMakeLists.txt says why).
#include <mpi.h>
#include <stdlib.h>

#include "fedavg/nodes/nodes_transport.h"

enum { TAG_SIGNAL = 1, MAX_NODES = 4096 };

struct NodesConnection {
    MPI_Comm collectives, signals; // so that neither can be taken for the other
    int rank, size;
    MPI_Request collective;
    int counts[4][MAX_NODES]; // what MPI wants sizes and places in; alive as long as the collective
    MPI_Request sends[MAX_NODES];
    unsigned char sent[MAX_NODES];
};

// MPI's own words are quoted: the codes differ between its implementations.
static Status check(int code, const char *what, Error *err) {
    if (code == MPI_SUCCESS) return STATUS_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    return fail(err, STATUS_UNAVAILABLE, "the connection between the nodes failed in %s: %s", what, text);
}

// Two communicators, so that a signal is never taken for a piece of a collective, whatever else is under way. Errors
// are returned, not fatal as is MPI's way: the other nodes' parents then end their runs with a checkpoint and a
// sentence.
static Status join(NodesConnection **connection, uint32_t *rank, uint32_t *size, Error *err) {
    NodesConnection *self = calloc(1, sizeof *self);
    if (!self) return fail(err, STATUS_OS, "no memory for the connection between the nodes");
    *connection = self;
    // Open MPI sums in place along a binomial tree unless it is told otherwise, whatever the size: node 0 then sends
    // and receives a whole vector for every doubling of the nodes, one after the other. Rabenseifner's reduce-scatter
    // and all-gather (3) moves the least there is, with the same integers, if the nodes are a power of two; otherwise
    // some nodes first add what the supernumerary ones have, and the ring (1) moves less. A user's choice stays.
    const bool power_of_two = (*size & (*size - 1)) == 0;
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", power_of_two ? "3" : "1", 0);
    int provided;
    TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided), "MPI_Init", err));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); // inherited by the duplicates
    TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &self->collectives), "MPI_Comm_dup", err));
    TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &self->signals), "MPI_Comm_dup", err));
    MPI_Comm_rank(self->collectives, &self->rank);
    MPI_Comm_size(self->collectives, &self->size);
    if (self->size > MAX_NODES)
        return fail(err, STATUS_UNAVAILABLE, "%d nodes; at most %d can take part", self->size, MAX_NODES);
    self->collective = MPI_REQUEST_NULL;
    for (int node = 0; node < self->size; node++)
        self->sends[node] = MPI_REQUEST_NULL;
    *rank = (uint32_t)self->rank;
    *size = (uint32_t)self->size;
    return STATUS_OK;
}

static Status begin_sum(NodesConnection *self, int64_t *values, size_t count, Error *err) {
    return check(
        MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, MPI_INT64_T, MPI_SUM, self->collectives, &self->collective),
        "MPI_Iallreduce", err);
}

static Status begin_broadcast(NodesConnection *self, void *bytes, size_t count, Error *err) {
    return check(MPI_Ibcast(bytes, (int)count, MPI_BYTE, 0, self->collectives, &self->collective), "MPI_Ibcast", err);
}

// MPI counts in int. A piece of nodes.c has at most NODES_MESSAGE_BYTES, 1 GiB, and fits.
static void set_places(const NodesConnection *self, int counts[MAX_NODES], int places[MAX_NODES], const size_t *bytes) {
    int place = 0;
    for (int node = 0; node < self->size; node++) {
        counts[node] = (int)bytes[node];
        places[node] = place;
        place += counts[node];
    }
}

// Counts and places are in the connection and not on the stack: MPI reads them until the collective is done.
static Status begin_gather(NodesConnection *self, void *all, const void *mine, const size_t *counts, Error *err) {
    int(*places)[MAX_NODES] = self->counts;
    set_places(self, places[0], places[1], counts);
    return check(MPI_Iallgatherv(mine, places[0][self->rank], MPI_BYTE, all, places[0], places[1], MPI_BYTE,
                                 self->collectives, &self->collective),
                 "MPI_Iallgatherv", err);
}

// The sizes on both sides follow from the program's state on each node; MPI does not compare them.
static Status begin_exchange(NodesConnection *self, void *received, const void *sent, const size_t *received_counts,
                             const size_t *sent_counts, Error *err) {
    int(*places)[MAX_NODES] = self->counts;
    set_places(self, places[0], places[1], sent_counts);
    set_places(self, places[2], places[3], received_counts);
    return check(MPI_Ialltoallv(sent, places[0], places[1], MPI_BYTE, received, places[2], places[3], MPI_BYTE,
                                self->collectives, &self->collective),
                 "MPI_Ialltoallv", err);
}

// MPI moves messages only inside its calls: this one is also what makes a collective advance.
static Status test(NodesConnection *self, bool *done, Error *err) {
    int flag;
    TRY(check(MPI_Test(&self->collective, &flag, MPI_STATUS_IGNORE), "MPI_Test", err));
    *done = flag;
    return STATUS_OK;
}

// A node that does not take its signals has one under way and gets no other: signals must not pile up for a node that
// is stopped.
static Status send_signal(NodesConnection *self, NodeSignal signal, Error *err) {
    for (int node = 0; node < self->size; node++) {
        if (node == self->rank) continue;
        int gone_out;
        TRY(check(MPI_Test(&self->sends[node], &gone_out, MPI_STATUS_IGNORE), "MPI_Test", err));
        if (!gone_out) continue;
        self->sent[node] = (unsigned char)signal;
        TRY(check(MPI_Isend(&self->sent[node], 1, MPI_BYTE, node, TAG_SIGNAL, self->signals, &self->sends[node]),
                  "MPI_Isend", err));
    }
    return STATUS_OK;
}

// One signal per call; the caller asks until there is none. The probe does not wait.
static Status listen_for_signal(NodesConnection *self, uint32_t *from, NodeSignal *signal, Error *err) {
    int come;
    MPI_Status about;
    *signal = (NodeSignal)0;
    TRY(check(MPI_Iprobe(MPI_ANY_SOURCE, TAG_SIGNAL, self->signals, &come, &about), "MPI_Iprobe", err));
    if (!come) return STATUS_OK;
    unsigned char byte; // a byte travels with its announcement: this receive does not wait
    TRY(check(MPI_Recv(&byte, 1, MPI_BYTE, about.MPI_SOURCE, TAG_SIGNAL, self->signals, MPI_STATUS_IGNORE), "MPI_Recv",
              err));
    *from = (uint32_t)about.MPI_SOURCE;
    *signal = (NodeSignal)byte;
    return STATUS_OK;
}

// MPI_Finalize waits for every node. If one is missing, the process ends without it, and MPI's own clean-up is left
// out.
static void leave(NodesConnection *self, bool in_good_order) {
    if (in_good_order) MPI_Finalize();
    free(self);
}

extern const NodesTransport nodes_mpi;
const NodesTransport nodes_mpi = {.open = join,
                                  .begin_sum = begin_sum,
                                  .begin_broadcast = begin_broadcast,
                                  .begin_gather = begin_gather,
                                  .begin_exchange = begin_exchange,
                                  .test = test,
                                  .signal = send_signal,
                                  .listen = listen_for_signal,
                                  .close = leave};
