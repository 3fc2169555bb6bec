// Modules: shared objects that are loaded only by the runs that need them. The libraries that they depend on (MPI,
// ncurses) then cost other runs nothing, which matters because each worker is a start of the program.
//
//   const Transport *transport = module_symbol("sounder_mpi.so", "nodes_mpi", true);
//   if (!transport) return fail(err, STATUS_UNAVAILABLE, "...: %s", dlerror());
//
// A module is stored next to the program in a build folder, and in lib/sounder of the installation, whose prefix may be
// moved. It stays loaded until the process ends.
#ifndef SOUNDER_BASE_MODULE_H
#define SOUNDER_BASE_MODULE_H

#include <limits.h>
#include <stdbool.h>

// Writes the path of `file` in `folder`: "" for the folder of the running program, or a path from there that begins
// with "/".
void beside_program(char path[PATH_MAX], const char *folder, const char *file);

// Returns the address of the module's `symbol`, or NULL; dlerror() then gives the reason. global: libraries that are
// loaded later can use the module's symbols.
const void *module_symbol(const char *file, const char *symbol, bool global);

#endif
