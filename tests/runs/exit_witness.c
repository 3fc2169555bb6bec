// A library to preload (LD_PRELOAD) that stands in for a profiler or a sanitizer: as those write their reports when a
// process exits, it adds a line with the process's arguments to the file that SOUNDER_EXIT_WITNESS names. A process
// that is killed leaves no line.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("SOUNDER_EXIT_WITNESS");
    char line[256];
    int arguments = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = read(arguments, line, sizeof line - 1);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (bytes < 0 || file < 0) return;
    for (ssize_t i = 0; i < bytes; i++)
        if (line[i] == 0) line[i] = ' ';
    line[bytes] = '\n';
    if (write(file, line, (size_t)bytes + 1) < 0) return;
}
