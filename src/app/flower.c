// Part of command.h: `sounder flower APP` trains the clients of a Flower app. The package's module sounder.flower reads
// the app and becomes `sounder train` with the app as its trainer; this process becomes that module.
#include "app/command.h"

#include <stddef.h>
#include <string.h>

#include "app/python_module.h"

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

Status command_flower(int argc, char **argv, int *exit_code, Error *err) {
    const char *python;
    (void)exit_code;
    const int left = take_python(&python, argc, argv, err);
    if (left < 0) return STATUS_USAGE;
    if (left == 0) return fail(err, STATUS_USAGE, "name the app: the folder with its pyproject.toml");
    return python_module(python, "sounder.flower",
                         "--python PATH names a Python that has flwr and what the app imports",
                         (const char *const *)argv, left, err);
}
