// In a build with MPI: finds sounder_mpi.so beside the program (as built) or in the library folder that was installed
// with it, wherever to.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fedavg/nodes/nodes_transport.h"

enum { PATH_BYTES = 4096 };

// folder: from the program's own, "" or "/" and a relative path.
static void module_path(char path[PATH_BYTES], const char *folder) {
    char program[PATH_BYTES / 2];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    char *end = strrchr(program, '/');
    if (end) *end = 0;
    snprintf(path, PATH_BYTES, "%s%s/sounder_mpi.so", program, folder);
}

bool nodes_are_built(void) {
    return true;
}

Status nodes_transport_load(const NodesTransport **transport, Error *err) {
    char path[PATH_BYTES];
    module_path(path, "");
    if (access(path, R_OK) != 0) module_path(path, "/" SOUNDER_MODULE_FOLDER);
    // RTLD_GLOBAL: Open MPI loads components of its own, which look for its symbols.
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!module)
        return fail(err, STATUS_UNAVAILABLE, "the module for runs on several nodes cannot be loaded: %s", dlerror());
    *transport = dlsym(module, "nodes_mpi");
    if (*transport) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "the module for runs on several nodes is not of this version: %s", dlerror());
}
