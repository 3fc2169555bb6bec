#include "energy_meter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/train/watchers.h"
#include "base/clock.h"
#include "base/log.h"

static const char default_folder[] = "/sys/class/powercap";

enum { METER_PATH_BYTES = 1024, ENERGY_MOST_COUNTERS = 32, ENERGY_WHY_BYTES = 256 };

typedef struct EnergyCounter {
    int fd;              // owned
    uint64_t last, wrap; // microjoules: when it was read last; where it begins again at 0; 0: unknown
} EnergyCounter;

typedef struct EnergyMeter {
    EnergyCounter counters[ENERGY_MOST_COUNTERS];
    int count;     // 0: there are none
    double joules; // since the meter began
    uint64_t read_nanoseconds;
} EnergyMeter;

// Reads the whole number at the beginning of a file; false if there is none.
static bool read_number(uint64_t *number, int fd) {
    char text[32] = "";
    const ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    char *end;
    *number = strtoull(text, &end, 10);
    return bytes > 0 && end != text;
}

static bool read_file(char *text, size_t size, const char *zone, const char *name) {
    char path[METER_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", zone, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return bytes > 0;
}

// A package contains its cores; the memory is beside it. Zones of a whole platform would count both again.
static bool is_counted(const char *zone) {
    char name[64];
    return read_file(name, sizeof name, zone, "name") &&
           (strncmp(name, "package", 7) == 0 || strcmp(name, "dram") == 0);
}

// Returns errno if the counter exists but cannot be opened, otherwise 0.
static int add_counter(EnergyMeter *meter, const char *zone) {
    char path[METER_PATH_BYTES + 64], wrap[32];
    EnergyCounter *counter = &meter->counters[meter->count];
    if (meter->count == ENERGY_MOST_COUNTERS || !is_counted(zone)) return 0;
    snprintf(path, sizeof path, "%s/energy_uj", zone);
    counter->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (counter->fd < 0) return errno;
    read_file(wrap, sizeof wrap, zone, "max_energy_range_uj");
    counter->wrap = strtoull(wrap, NULL, 10);
    if (read_number(&counter->last, counter->fd))
        meter->count++;
    else
        close(counter->fd);
    return 0;
}

static void close_meter(void *state) {
    EnergyMeter *meter = state;
    for (int i = 0; i < meter->count; i++)
        close(meter->counters[i].fd);
    meter->count = 0;
}

// The folder is $SOUNDER_POWERCAP, for tests, or /sys/class/powercap. why (ENERGY_WHY_BYTES): with a remedy.
static bool begin_meter(EnergyMeter *meter, char *why) {
    const char *wish = getenv("SOUNDER_POWERCAP"), *folder = wish && *wish ? wish : default_folder;
    int refused = 0;
    DIR *zones = opendir(folder);
    for (const struct dirent *entry; zones && (entry = readdir(zones));) {
        char zone[METER_PATH_BYTES];
        if (strncmp(entry->d_name, "intel-rapl:", 11) != 0) continue; // AMD's processors have this name, too
        snprintf(zone, sizeof zone, "%.700s/%.255s", folder, entry->d_name);
        const int problem = add_counter(meter, zone);
        if (problem) refused = problem;
    }
    if (zones) closedir(zones);
    meter->read_nanoseconds = clock_nanoseconds();
    if (meter->count > 0 && !refused) return true;
    close_meter(meter);
    if (refused)
        snprintf(why, ENERGY_WHY_BYTES,
                 "%.100s/intel-rapl:*/energy_uj: %s; chmod a+r these files (as root, after each boot)", folder,
                 strerror(refused));
    else
        snprintf(why, ENERGY_WHY_BYTES, "%.100s has no counter of a processor; most virtual machines have none",
                 folder);
    return false;
}

static void read_meter(EnergyMeter *meter) {
    meter->read_nanoseconds = clock_nanoseconds();
    for (int i = 0; i < meter->count; i++) {
        EnergyCounter *counter = &meter->counters[i];
        uint64_t now;
        if (!read_number(&now, counter->fd)) continue;
        const uint64_t again = counter->wrap > counter->last ? counter->wrap - counter->last + now : 0;
        const uint64_t passed = now >= counter->last ? now - counter->last : again;
        meter->joules += 1e-6 * (double)passed;
        counter->last = now;
    }
}

// A run that cannot be measured is a run nevertheless.
static Status open_meter(Run *run, void *state, const Seen *seen, Error *err) {
    (void)run, (void)seen, (void)err;
    char why[ENERGY_WHY_BYTES];
    if (!begin_meter(state, why)) log_warning("--measure-energy: nothing is measured: %s", why);
    return STATUS_OK;
}

// The counters begin again at 0 after minutes.
static void tick(Run *run, void *state) {
    (void)run;
    if (clock_seconds_since(((EnergyMeter *)state)->read_nanoseconds) >= 1) read_meter(state);
}

double energy_joules(const Run *run) {
    EnergyMeter *meter = watcher_state(run, &energy_watcher);
    if (!meter || meter->count == 0) return NAN;
    read_meter(meter);
    return run->past.kept.joules + meter->joules;
}

static bool wanted(const Run *run) {
    return run->options.measure_energy;
}

const Watcher energy_watcher = {.bytes = sizeof(EnergyMeter),
                                .wanted = wanted,
                                .at = {[MOMENT_OPEN] = open_meter},
                                .tick = tick,
                                .close = close_meter};
