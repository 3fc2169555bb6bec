// Part of nodes_transport.h: a build without MPI has no transport.
#include "fedavg/nodes/nodes_transport.h"

bool nodes_are_built(void) {
    return false;
}

Status nodes_transport_load(const NodesTransport **transport, Error *err) {
    *transport = NULL;
    return fail(err, STATUS_UNAVAILABLE,
                "this sounder was built without MPI and cannot run on several nodes; install libopenmpi-dev and build "
                "again, or start it without mpirun and srun");
}
