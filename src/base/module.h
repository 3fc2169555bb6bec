// Modules: shared objects that only runs which need them load, so that no other run (and every worker is a start of the
// program) loads the libraries that they need: MPI's, ncurses.
//
//   const Transport *transport = module_symbol("sounder_mpi.so", "nodes_mpi", true);
//   if (!transport) return fail(err, STATUS_UNAVAILABLE, "...: %s", dlerror());
//
// A module lies beside the program, as built, or in the folder lib/sounder that was installed with it, wherever to. It
// stays until the process ends.
#ifndef SOUNDER_BASE_MODULE_H
#define SOUNDER_BASE_MODULE_H

#include <stdbool.h>

// What the module calls `symbol`; NULL: dlerror() says why it is not to be had. global: libraries that are loaded later
// find the module's symbols.
const void *module_symbol(const char *file, const char *symbol, bool global);

#endif
