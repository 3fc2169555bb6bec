#include "process_memory.h"

#include <stdio.h>

#include "base/file.h"

static uint64_t bytes_of(pid_t pid, const char *name, const char *key) {
    char path[64];
    uint64_t kilobytes;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return pid > 0 && file_number(&kilobytes, path, key, 10) ? kilobytes * 1024 : 0;
}

uint64_t process_private_bytes(pid_t pid) {
    return bytes_of(pid, "status", "RssAnon:");
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
        largest = larger(largest, bytes_of(pid, "smaps_rollup", "Private_Clean:") +
                                      bytes_of(pid, "smaps_rollup", "Private_Dirty:"));
    }
    return largest;
}
