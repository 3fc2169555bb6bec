#include "base/cgroup.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { PATH_BYTES = 2 * PATH_MAX + 64 };

// A walk through the folders of this process's groups, from its own group up to the root, in each hierarchy that may
// know the controller.
typedef struct Walk {
    FILE *membership;
    const char *root, *controller;
    bool second_version;
    size_t root_bytes;         // length of the path of the hierarchy's root in `folder`
    char folder[2 * PATH_MAX]; // path of the current group; "" before the first
} Walk;

static Walk walk_begin(const char *membership, const char *root, const char *controller) {
    return (Walk){.membership = fopen(membership, "re"), .root = root, .controller = controller};
}

static void walk_end(Walk *walk) {
    if (walk->membership) fclose(walk->membership);
}

// names: a list such as "cpu,cpuacct".
static bool is_among(const char *controller, const char *names) {
    const size_t length = strlen(controller);
    for (; *names; names += strcspn(names, ","), names += *names == ',')
        if (strncmp(names, controller, length) == 0 && (names[length] == ',' || !names[length])) return true;
    return false;
}

// Enters the hierarchy of one line of the membership file, "4:memory:/job/step". Returns false if the hierarchy does
// not know the controller.
static bool enter_hierarchy(Walk *walk, char *line) {
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) return false;
    *path++ = '\0';
    walk->second_version = !*++names;
    if (!walk->second_version && !is_among(walk->controller, names)) return false;
    if (strcmp(path, "/") == 0) path = "";
    walk->root_bytes = strlen(walk->root) + (walk->second_version ? 0 : 1 + strlen(walk->controller));
    snprintf(walk->folder, sizeof walk->folder, "%s%s%s%s", walk->root, walk->second_version ? "" : "/",
             walk->second_version ? "" : walk->controller, path);
    return true;
}

static bool walk_next(Walk *walk) {
    char line[PATH_MAX + 256];
    if (!walk->membership) return false;
    char *slash = walk->folder[0] ? strrchr(walk->folder + walk->root_bytes, '/') : NULL;
    if (slash) { // to the parent group
        *slash = '\0';
        return true;
    }
    while (fgets(line, sizeof line, walk->membership))
        if (enter_hierarchy(walk, line)) return true;
    return false;
}

static const char *path_of(char path[PATH_BYTES], const Walk *walk, const char *name) {
    snprintf(path, PATH_BYTES, "%s/%s", walk->folder, name);
    return path;
}

// Reads one or two numbers at the beginning of a file of the current group; `second` may be NULL. Returns how many it
// has read: 0 for the word "max" or without a file.
static int read_numbers(const Walk *walk, const char *name, long long *first, long long *second) {
    char path[PATH_BYTES];
    FILE *file = fopen(path_of(path, walk, name), "re");
    if (!file) return 0;
    const int count = second ? fscanf(file, "%lld %lld", first, second) : fscanf(file, "%lld", first);
    fclose(file);
    return count < 0 ? 0 : count;
}

int cgroup_cores(int cores, const char *membership, const char *root) {
    Walk walk = walk_begin(membership, root, "cpu");
    while (walk_next(&walk)) {
        long long quota = 0, period = 0; // microseconds
        const bool limited = walk.second_version ? read_numbers(&walk, "cpu.max", &quota, &period) == 2
                                                 : read_numbers(&walk, "cpu.cfs_quota_us", &quota, NULL) == 1 &&
                                                       read_numbers(&walk, "cpu.cfs_period_us", &period, NULL) == 1;
        if (limited && quota > 0 && period > 0 && quota / period < cores) cores = (int)(quota / period);
    }
    walk_end(&walk);
    return cores > 0 ? cores : 1;
}

static uint64_t file_cache(const Walk *walk) {
    static const char *const keys[] = {"inactive_file", "active_file", "total_inactive_file", "total_active_file"};
    const char *const *of_version = keys + (walk->second_version ? 0 : 2);
    char path[PATH_BYTES];
    uint64_t bytes = 0, number;
    for (int i = 0; i < 2; i++)
        if (file_number(&number, path_of(path, walk, "memory.stat"), of_version[i], 10)) bytes += number;
    return bytes;
}

uint64_t cgroup_memory_left(const char *membership, const char *root) {
    uint64_t least = UINT64_MAX;
    Walk walk = walk_begin(membership, root, "memory");
    while (walk_next(&walk)) {
        long long limit, usage;
        if (read_numbers(&walk, walk.second_version ? "memory.max" : "memory.limit_in_bytes", &limit, NULL) != 1 ||
            read_numbers(&walk, walk.second_version ? "memory.current" : "memory.usage_in_bytes", &usage, NULL) != 1)
            continue;
        const uint64_t cache = file_cache(&walk), used = (uint64_t)usage > cache ? (uint64_t)usage - cache : 0;
        const uint64_t left = (uint64_t)limit > used ? (uint64_t)limit - used : 0;
        if (left < least) least = left;
    }
    walk_end(&walk);
    return least;
}

uint64_t cgroup_memory_kills(const char *membership, const char *root) {
    char path[PATH_BYTES];
    uint64_t kills = 0;
    bool found = false;
    Walk walk = walk_begin(membership, root, "memory");
    while (!found && walk_next(&walk))
        found = file_number(&kills, path_of(path, &walk, walk.second_version ? "memory.events" : "memory.oom_control"),
                            "oom_kill", 10);
    walk_end(&walk);
    if (!found) file_number(&kills, "/proc/vmstat", "oom_kill", 10);
    return kills;
}

// The value adds half of the machine's memory to what counts as used by this process.
void memory_offer_to_die_first(void) {
    FILE *file = fopen("/proc/self/oom_score_adj", "we");
    if (!file) return; // no /proc
    fputs("500", file);
    fclose(file);
}

bool memory_killed(int signal_number, uint64_t kills_before) {
    return signal_number == SIGKILL && cgroup_memory_kills(CGROUP_MEMBERSHIP, CGROUP_ROOT) > kills_before;
}
