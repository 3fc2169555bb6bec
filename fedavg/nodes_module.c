// In a build with MPI: finds sounder_mpi.so beside the program (as built) or in the library folder (as installed).
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fedavg/nodes_transport.h"

enum { PATH_BYTES = 4096 };

static void path_beside_program(char path[PATH_BYTES]) {
    static const char module[] = "/sounder_mpi.so";
    ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - sizeof module);
    path[length > 0 ? length : 0] = 0;
    char *end = strrchr(path, '/');
    memcpy(end ? end : path, module, sizeof module);
}

Status nodes_transport_load(const NodesTransport **transport, Error *err) {
    char beside[PATH_BYTES];
    path_beside_program(beside);
    // RTLD_GLOBAL: Open MPI loads components of its own, which look for its symbols.
    void *module = dlopen(access(beside, R_OK) == 0 ? beside : SOUNDER_MODULE_FOLDER "/sounder_mpi.so",
                          RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!module)
        return fail(err, STATUS_UNAVAILABLE, "the module for runs on several nodes cannot be loaded: %s", dlerror());
    *transport = dlsym(module, "nodes_mpi");
    if (*transport) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "the module for runs on several nodes is not of this version: %s", dlerror());
}
