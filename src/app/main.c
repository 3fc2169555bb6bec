// The program: finds the command, prints one sentence on failure, exits with its code (sysexits.h).
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "base/cores.h"
#include "base/device.h"
#include "base/log.h"
#include "base/suggest.h"
#include "fedavg/nodes/nodes.h"
#include "nn/kernels.h"

// Prints "sounder 0.1.0 (avx512 avx2 baseline; cuda; mpi)": the instruction sets of this machine, and the options of
// the build.
Status command_version(int argc, char **argv, int *exit_code, Error *err) {
    (void)argc, (void)argv, (void)exit_code, (void)err;
    static const char *const sets[] = {"avx512", "avx2", "baseline"};
    fputs("sounder " SOUNDER_VERSION, stdout);
    const char *separator = " (";
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (kernels_named(sets[i])) printf("%s%s", separator, sets[i]), separator = " ";
    printf("%s%s)\n", device_is_built() ? "; cuda" : "", nodes_are_built() ? "; mpi" : "");
    return STATUS_OK;
}

static Status unknown_command(const char *name, Error *err) {
    Suggestion suggestion = {.typed = name};
    for (const Command *command = commands; command < commands + command_count; command++)
        if (command->run && !command->hidden) suggestion_consider(&suggestion, command->name);
    for (int i = 0; i < command_count; i++)
        suggestion_consider_others(&suggestion, commands[i].also, commands[i].name);
    if (suggestion.best)
        return fail(err, STATUS_USAGE, "%.60s: unknown command; did you mean %s?", name, suggestion.best);
    return fail(err, STATUS_USAGE, "%.60s: unknown command; `sounder help` lists them", name);
}

// Handles `sounder train --help` like `sounder help train`, and `sounder train -h` like `sounder help train -h`.
// Returns how many words `sounder help` gets; 0 if no help is asked for.
static int asks_for_help(int argc, char **argv, const Command *command) {
    const char *own = command->keeps_help;
    if (own && (!*own || (argc > 0 && strcmp(argv[0], own) == 0))) return 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) return 1;
        if (strcmp(argv[i], "-h") == 0) return command->briefly ? 2 : 1;
    }
    return 0;
}

static Status run_command(int argc, char **argv, int *exit_code, Error *err) {
    if (argc < 2)
        return fail(err, STATUS_USAGE, "needs a command; `sounder help` lists them, `sounder train` starts one");
    const Command *command = command_find(strcmp(argv[1], "-h") == 0 ? "--help" : argv[1]);
    if (!command || !command->run) return unknown_command(argv[1], err);
    const int topics = asks_for_help(argc - 2, argv + 2, command);
    if (topics) return command_help(topics, (char *[]){argv[1], "-h"}, exit_code, err);
    if (command->writes) TRY(nodes_refuse_copies(command->name, "", err));
    return command->run(argc - 2, argv + 2, exit_code, err);
}

// Opens closed standard descriptors: otherwise the next opened file would get such a number, and messages would be
// written into it.
static void open_standard_descriptors(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

// ssh, node and asyncio leave shared terminals and pipes non-blocking: with a slow reader, lines would be lost here and
// in workers. All owners of an open file share the mode, so this process opens the file again for itself if it may.
static void make_blocking(int fd) {
    char path[32];
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK)) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int own = open(path, (flags & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) dup2(own, fd);
    if (own >= 0) close(own);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK); // a socket cannot be reopened
}

// Shows the user's text and marks the word that the error is about.
static void print_sketch(const Error *err) {
    if (!err->sketch[0]) return;
    const int text = (int)strcspn(err->sketch, "\n");
    fprintf(stderr, "  %.*s\n  %s\n", text, err->sketch, err->sketch + text + 1);
}

int main(int argc, char **argv) {
    open_standard_descriptors();
    make_blocking(STDOUT_FILENO);
    make_blocking(STDERR_FILENO);
    subnormals_flush();
    Error err = {.message = ""};
    int exit_code = 0;
    Status status = run_command(argc, argv, &exit_code, &err);
    // A full disk or a closed pipe may show only at the last flush: until then printf may just fill a buffer.
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == STATUS_OK)
        status = fail_errno(&err, STATUS_IO, "standard output cannot be written");
    if (status == STATUS_OK) return exit_code;
    const char *wish = getenv("NO_COLOR");
    int coloured = log_on_terminal() && !(wish && *wish);
    char node[24] = "";
    if (log_node() >= 0) snprintf(node, sizeof node, "node %d: ", log_node());
    fprintf(stderr, coloured ? "\r\033[Ksounder: %s\033[31merror:\033[0m %s\n" : "sounder: %serror: %s\n", node,
            err.message);
    if (isatty(STDERR_FILENO)) print_sketch(&err);
    return status_exit_code(status);
}
