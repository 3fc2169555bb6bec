// A command whose work is a module of the Python package (tools/python): this process becomes that module.
//
//   TRY(python_module("python3", "sounder.flower", "name another Python", words, count, err));   // returns on failure
#ifndef SOUNDER_APP_PYTHON_MODULE_H
#define SOUNDER_APP_PYTHON_MODULE_H

#include "base/err.h"

// python: a path, or a name on the PATH. remedy: what the user can do if it has no NumPy, a phrase. words (count): the
// module's command line. The module finds this program by $SOUNDER and the package of the clone by $PYTHONPATH, which
// trainers inherit. NOINPUT if the Python cannot be started.
Status python_module(const char *python, const char *module, const char *remedy, const char *const *words, int count,
                     Error *err);

#endif
