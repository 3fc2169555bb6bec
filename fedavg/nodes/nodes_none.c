// In a build without MPI.
#include "fedavg/nodes/nodes_transport.h"

Status nodes_transport_load(const NodesTransport **transport, Error *err) {
    *transport = NULL;
    return fail(err, STATUS_UNAVAILABLE,
                "this sounder was built without MPI and cannot run on several nodes; install libopenmpi-dev and build "
                "again, or start it without mpirun and srun");
}
