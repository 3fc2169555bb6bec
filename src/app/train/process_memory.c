#include "process_memory.h"

#include <stdio.h>
#include <string.h>

// Adds the lines of a file of /proc that begin with the name.
static uint64_t sum_of(pid_t pid, const char *file_name, const char *name) {
    char path[64], line[256];
    unsigned long long part;
    uint64_t kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file_name);
    FILE *file = pid > 0 ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && sscanf(line, "%*[^:]: %llu", &part) == 1) kilobytes += part;
    if (file) fclose(file);
    return kilobytes * 1024;
}

uint64_t process_private_bytes(pid_t pid) {
    return sum_of(pid, "status", "RssAnon:");
}

uint64_t process_child_bytes(pid_t pid) {
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = pid > 0 ? fopen(path, "re") : NULL;
    const bool found = file && fscanf(file, "%d", &child) == 1;
    if (file) fclose(file);
    return found ? process_private_bytes(child) : 0;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint64_t worker_private_bytes(const Supervisor *supervisor) {
    uint64_t largest = 0;
    for (uint32_t rank = 0; rank < supervisor->config.workers; rank++)
        largest = larger(largest, process_private_bytes(supervisor->workers[rank].pid));
    return largest;
}

uint64_t trainer_private_bytes(const Control *control) {
    uint64_t largest = 0;
    for (uint32_t rank = 0; rank < control->config.workers; rank++) {
        const int32_t pid = atomic_load_explicit(&control->trainer_pids[rank], memory_order_relaxed);
        largest = larger(largest, sum_of(pid, "smaps_rollup", "Private_"));
    }
    return largest;
}
