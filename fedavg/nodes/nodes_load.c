// Part of nodes_transport.h: a build with MPI loads its transport as a module, when a run on several nodes begins.
#include <dlfcn.h>

#include "base/module.h"
#include "fedavg/nodes/nodes_transport.h"

bool nodes_are_built(void) {
    return true;
}

// The library is opened here and not linked, so that a run on one machine starts without MPI, and where MPI is missing.
Status nodes_transport_load(const NodesTransport **transport, Error *err) {
    // Open MPI loads components of its own, which look for its symbols: they have to be global.
    *transport = module_symbol("sounder_mpi.so", "nodes_mpi", true);
    if (*transport) return STATUS_OK;
    return fail(
        err, STATUS_UNAVAILABLE,
        "the module for runs on several nodes cannot be loaded; Debian's package sounder-mpi has it (apt install "
        "./sounder-mpi_*.deb): %s",
        dlerror());
}
