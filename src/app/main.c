// The program: finds the command, prints the one sentence of a failure, exits with its code (sysexits.h).
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "base/suggest.h"

static Status print_version(void) {
    puts("sounder " SOUNDER_VERSION);
    return STATUS_OK;
}

static Status unknown_command(const char *name, Error *err) {
    static const char *const commands[] = {"train", "eval", "launch", "help", "--version", "--help"};
    Suggestion suggestion = {.typed = name};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        suggestion_consider(&suggestion, commands[i]);
    if (suggestion.best)
        return fail(err, STATUS_USAGE, "%.60s: unknown command; did you mean %s?", name, suggestion.best);
    return fail(err, STATUS_USAGE, "%.60s: unknown command; `sounder help` lists them", name);
}

// `sounder train --help` is `sounder help train`.
static int asks_for_help(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return 1;
    return 0;
}

static Status run_command(int argc, char **argv, int *exit_code, Error *err) {
    if (argc < 2)
        return fail(err, STATUS_USAGE, "needs a command; `sounder help` lists them, `sounder train` starts one");
    const char *name = argv[1];
    int rest = argc - 2;
    char **arguments = argv + 2;
    if (strcmp(name, "--version") == 0) return print_version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return command_help(0, NULL, err);
    if (strcmp(name, "help") == 0) return command_help(rest, arguments, err);
    if (strcmp(name, "worker") == 0) return command_worker(rest, arguments, err);
    if (strcmp(name, "launch") == 0) return command_launch(rest, arguments, exit_code, err);
    if (strcmp(name, "train") != 0 && strcmp(name, "eval") != 0) return unknown_command(name, err);
    if (asks_for_help(rest, arguments)) return command_help(1, argv + 1, err);
    if (strcmp(name, "train") == 0) return command_train(rest, arguments, exit_code, err);
    return command_eval(rest, arguments, err);
}

// A closed standard descriptor would be given to the next file opened, into which the next message would then be
// written.
static void open_standard_descriptors(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
    open_standard_descriptors();
    Error err = {.message = ""};
    int exit_code = 0;
    Status status = run_command(argc, argv, &exit_code, &err);
    // A full disk or a closed pipe shows at the last flush; until then printf may only have filled a buffer.
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == STATUS_OK)
        status = fail_errno(&err, STATUS_IO, "standard output cannot be written");
    if (status == STATUS_OK) return exit_code;
    fprintf(stderr, "sounder: error: %s\n", err.message);
    return status_exit_code(status);
}
