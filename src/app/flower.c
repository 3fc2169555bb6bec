// Part of command.h: `sounder flower APP` trains the clients of a Flower app. The package's module sounder.flower reads
// the app and becomes `sounder train` with the app as its trainer; this process becomes that module.
#include "app/command.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fedavg/trainer/process.h"

typedef struct FlowerOptions {
    char python[OPTION_TEXT_BYTES];
} FlowerOptions;

static const Option rows[] = {
    {.name = "python",
     .type = OPTION_TEXT,
     .offset = offsetof(FlowerOptions, python),
     .placeholder = "PATH",
     .preset = "python3",
     .help = "the Python that has flwr and what the app imports"},
};

const OptionTable flower_options = {.rows = rows, .count = 1, .command = "flower"};

// Moves the words of --python out of the arguments, whose other options are those of train. Returns how many are left.
static int take_python(const char **python, int argc, char **argv, Error *err) {
    static const char name[] = "--python";
    int left = 0;
    *python = "python3";
    for (int i = 0; i < argc; i++) {
        const char *rest = strncmp(argv[i], name, sizeof name - 1) == 0 ? argv[i] + sizeof name - 1 : NULL;
        if (!rest || (*rest && *rest != '='))
            argv[left++] = argv[i];
        else if (*rest == '=' && rest[1])
            *python = rest + 1;
        else if (!*rest && i + 1 < argc)
            *python = argv[++i];
        else
            return fail(err, STATUS_USAGE, "--python needs the path of a Python that has flwr"), -1;
    }
    return left;
}

// The module finds this program and the package by the environment, which trainers inherit.
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
static const char begin[] =
    "import os, runpy, sys\n"
    "try:\n"
    "    import numpy\n"
    "except ModuleNotFoundError:\n"
    "    print(f'sounder: error: {sys.executable} has no NumPy; --python PATH names a Python that '\n"
    "          'has flwr and what the app imports', file=sys.stderr)\n"
    "    sys.exit(os.EX_UNAVAILABLE)\n"
    "runpy.run_module('sounder.flower', run_name='__main__', alter_sys=True)\n";

Status command_flower(int argc, char **argv, int *exit_code, Error *err) {
    enum { WORDS = 3 };
    const char *python;
    (void)exit_code;
    const int left = take_python(&python, argc, argv, err);
    if (left < 0) return STATUS_USAGE;
    if (left == 0) return fail(err, STATUS_USAGE, "name the app: the folder with its pyproject.toml");
    TRY(set_environment(err));
    const char **line = calloc((size_t)left + WORDS + 1, sizeof *line);
    if (!line) return fail(err, STATUS_OS, "no memory");
    const char *own[WORDS] = {python, "-c", begin};
    memcpy(line, own, sizeof own);
    memcpy(line + WORDS, argv, (size_t)left * sizeof *argv);
    fflush(stdout);
    execvp(python, (char *const *)(uintptr_t)line);
    const Status status = fail_errno(err, STATUS_NOINPUT, "--python %.300s cannot be started", python);
    free(line);
    return status;
}
