#include "python_module.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fedavg/trainer/process.h"

static Status set_environment(Error *err) {
    char program[PATH_MAX], folder[PATH_MAX], *path;
    const char *given = getenv("PYTHONPATH");
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) return fail_errno(err, STATUS_OS, "/proc/self/exe");
    program[length] = '\0';
    setenv("SOUNDER", program, 1);
    trainer_package(folder);
    if (!*folder) return STATUS_OK; // the Python has the package of the wheel
    if (asprintf(&path, "%s%s%s", given ? given : "", given && *given ? ":" : "", folder) < 0)
        return fail(err, STATUS_OS, "no memory");
    setenv("PYTHONPATH", path, 1);
    free(path);
    return STATUS_OK;
}

// Python's first words: the package needs NumPy, and a traceback would not say what to do.
static const char begin[] = "import os, runpy, sys\n"
                            "module, remedy = sys.argv[1:3]\n"
                            "del sys.argv[1:3]\n"
                            "try:\n"
                            "    import numpy\n"
                            "except ModuleNotFoundError:\n"
                            "    print(f'sounder: error: {sys.executable} has no NumPy; {remedy}', file=sys.stderr)\n"
                            "    sys.exit(os.EX_UNAVAILABLE)\n"
                            "runpy.run_module(module, run_name='__main__', alter_sys=True)\n";

Status python_module(const char *python, const char *module, const char *remedy, const char *const *words, int count,
                     Error *err) {
    enum { OWN = 5 };
    TRY(set_environment(err));
    const char **line = calloc((size_t)count + OWN + 1, sizeof *line);
    if (!line) return fail(err, STATUS_OS, "no memory");
    const char *own[OWN] = {python, "-c", begin, module, remedy};
    memcpy(line, own, sizeof own);
    memcpy(line + OWN, words, (size_t)count * sizeof *words);
    fflush(stdout);
    execvp(python, (char *const *)(uintptr_t)line);
    const Status status = fail_errno(err, STATUS_NOINPUT, "the Python %.300s cannot be started", python);
    free(line);
    return status;
}
